package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Attributes of the table: the partition and sort part of a ledger key, the instance
// that a record is about, and the instant (in seconds since 1970) after which the
// record may be removed. Readers filter by time; removal is only housekeeping.
const (
	AttributePartition = "pk"
	AttributeSort      = "sk"
	AttributeInstance  = "instance"
	AttributeExpires   = "expires"

	// IndexInstance finds records by their instance; records without one are not in it.
	IndexInstance = "instance"
)

// LedgerTable is the table of the ledger. It outlives its stack: what it remembers of
// machines that run cannot be had again.
type LedgerTable struct {
	Table awsdynamodb.ITable
	Key   *CustomerKey // that it is encrypted with; nil = one of AWS
}

// NewLedgerTable makes the table, whose name is CloudFormation's choice, or takes the
// existing one of that name in the same account and region, as another cluster's stack
// has made it, encrypted with the same key.
func NewLedgerTable(scope constructs.Construct, id, existing string, key *CustomerKey) *LedgerTable {
	c := constructs.NewConstruct(scope, jsii.String(id))
	if existing != "" {
		return &LedgerTable{Table: awsdynamodb.Table_FromTableName(c, jsii.String("Table"), jsii.String(existing)), Key: key}
	}
	props := &awsdynamodb.TableProps{
		PartitionKey:        text(AttributePartition),
		SortKey:             text(AttributeSort),
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		TimeToLiveAttribute: jsii.String(AttributeExpires),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: jsii.Bool(true),
		RemovalPolicy:      awscdk.RemovalPolicy_RETAIN,
	}
	key.table(props)
	t := awsdynamodb.NewTable(c, jsii.String("Table"), props)
	t.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
		IndexName:      jsii.String(IndexInstance),
		PartitionKey:   text(AttributeInstance),
		ProjectionType: awsdynamodb.ProjectionType_ALL,
	})
	return &LedgerTable{Table: t, Key: key}
}

// Grant lets a role read and write records: no scans, no batches, no management. Who
// checks the table's shape, as the scaler does when it starts, may read that, too. Of no
// table (nil) nothing is given.
func (t *LedgerTable) Grant(scope constructs.Construct, id string, role awsiam.IRole, shape bool) {
	if t == nil {
		return
	}
	statements := []Statement{
		{
			Sid: "AllowLedgerRecords",
			// A transaction is checked as the puts that it is made of.
			Actions:   []string{"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"},
			Resources: []string{*t.Table.TableArn()},
		},
		{
			Sid:       "AllowLedgerIndex",
			Actions:   []string{"dynamodb:Query"},
			Resources: []string{*t.Table.TableArn() + "/index/" + IndexInstance},
		},
	}
	if shape {
		statements = append(statements, Statement{
			Sid:       "AllowLedgerShape",
			Actions:   []string{"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"},
			Resources: []string{*t.Table.TableArn()},
		})
	}
	attach(scope, id, "Records of Weir's ledger", role, append(statements, t.Key.forTable()...))
}

func text(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
}
