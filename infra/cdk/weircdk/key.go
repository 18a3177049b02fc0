package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// KeyCreate asks for a key of the stack's own.
const KeyCreate = "create"

// dataKeySeconds is for how long SQS uses one data key: calls of KMS cost money.
const dataKeySeconds = 300

// CustomerKey encrypts table, queues and logs. A nil one leaves that to keys of AWS.
type CustomerKey struct {
	Key awskms.IKey
}

// NewCustomerKey takes the key of that ARN, whose policy is its owner's business, or makes
// one (KeyCreate) that the services may use for this account's logs and events and nobody
// else but by a right in IAM. Empty = nil. A key outlives its stack, as the table does.
func NewCustomerKey(scope constructs.Construct, id, given string) *CustomerKey {
	switch given {
	case "":
		return nil
	case KeyCreate:
	default:
		c := constructs.NewConstruct(scope, jsii.String(id))
		return &CustomerKey{Key: awskms.Key_FromKeyArn(c, jsii.String("Key"), jsii.String(given))}
	}
	c := constructs.NewConstruct(scope, jsii.String(id))
	key := awskms.NewKey(c, jsii.String("Key"), &awskms.KeyProps{
		Description: jsii.String("Weir: ledger, queues and logs"), EnableKeyRotation: jsii.Bool(true), RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
	})
	for _, s := range keyStatements() {
		key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String(s.Sid), Actions: jsii.Strings(s.Actions...), Resources: jsii.Strings("*"), // of a key's policy: the key
			Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String(s.service), nil)}, Conditions: &s.Conditions,
		}), jsii.Bool(true))
	}
	return &CustomerKey{Key: key}
}

// keyStatement is what a service may do with the key by itself.
type keyStatement struct {
	Statement
	service string
}

// keyStatements go into the policy of a key; docs/install.md has them for keys that exist.
func keyStatements() []keyStatement {
	return []keyStatement{{
		service: "logs." + *awscdk.Aws_REGION() + ".amazonaws.com",
		Statement: Statement{
			Sid:     "AllowLogs",
			Actions: []string{"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"},
			Conditions: map[string]any{"ArnLike": map[string]any{
				"kms:EncryptionContext:aws:logs:arn": arn("logs", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "log-group:*"),
			}},
		},
	}, {
		service: "events.amazonaws.com",
		Statement: Statement{
			Sid:        "AllowEvents",
			Actions:    []string{"kms:Decrypt", "kms:GenerateDataKey"},
			Conditions: map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": *awscdk.Aws_ACCOUNT_ID()}},
		},
	}}
}

// table sets how the table is encrypted.
func (k *CustomerKey) table(p *awsdynamodb.TableProps) {
	p.Encryption = awsdynamodb.TableEncryption_AWS_MANAGED
	if k != nil {
		p.Encryption, p.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, k.Key
	}
}

// queue has a queue encrypted with the key. Not by the CDK's own property: that gives whoever
// sends more rights on the key than needed, and takes a condition from the queue's policy.
func (k *CustomerKey) queue(q awssqs.Queue) {
	if k == nil {
		return
	}
	r := q.Node().DefaultChild().(awssqs.CfnQueue)
	r.SetSqsManagedSseEnabled(jsii.Bool(false))
	r.SetKmsMasterKeyId(k.Key.KeyArn())
	r.SetKmsDataKeyReusePeriodSeconds(jsii.Number(dataKeySeconds))
}

// logs sets how a log group is encrypted.
func (k *CustomerKey) logs(p *awslogs.LogGroupProps) {
	if k != nil {
		p.EncryptionKey = k.Key
	}
}

// through is the right to use the key by way of one service only.
func (k *CustomerKey) through(sid, service string, actions ...string) Statement {
	return Statement{
		Sid: sid, Actions: actions, Resources: []string{*k.Key.KeyArn()},
		Conditions: map[string]any{"StringEquals": map[string]any{"kms:ViaService": service + "." + *awscdk.Aws_REGION() + ".amazonaws.com"}},
	}
}

// forTable is the right of those who read and write records of a table.
func (k *CustomerKey) forTable() []Statement {
	if k == nil {
		return nil
	}
	return []Statement{k.through("AllowLedgerKey", "dynamodb", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")}
}

// forQueues is the right of those who read from and send to queues.
func (k *CustomerKey) forQueues() []Statement {
	if k == nil {
		return nil
	}
	return []Statement{k.through("AllowQueueKey", "sqs", "kms:Decrypt", "kms:GenerateDataKey")}
}
