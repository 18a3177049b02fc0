package weircdk

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Gap is something that people expect of this stack and that it does not do yet.
type Gap struct{ ID, Text string }

// Gaps lists what is missing. The README has the same list; a test compares them.
func Gaps() []Gap {
	return []Gap{
		{"chart", "The Helm charts are not installed: install infra/chart-crds and infra/chart yourself. Without the chart's interruption.enabled=true the functions may do nothing in the cluster."},
		{"image", "No image is pushed: there is no ECR repository, and the layout of make image is no asset of the stack."},
		{"ledger", "Whether the scaler uses the table is the chart's choice: set ledger=dynamodb and ledgerTable to the output TableName. Until its heartbeat is in the table the functions only record; with -c ledger=none they act alone, remember nothing, and the sweep is off."},
		{"provider", "The scaler's role has Karpenter's rights; the scaler has been run against a stand-in for AWS, which does not check rights, and never with this role. SSM parameters outside /aws/service are not readable with it."},
		{"auth-mode", "Access entries need a cluster in mode API or API_AND_CONFIG_MAP; aws-auth is not written."},
		{"vpc", "The functions run outside a VPC: the cluster's endpoint must be public and let them in. Private endpoints are not supported."},
		{"tags", "Subnets and security groups are not tagged for discovery."},
		{"alarms", "There are no alarms, not even on the dead-letter queue."},
		{"options", "Not supported: making a cluster, several clusters on one table, permission boundaries, customer-managed keys, IRSA, roles with a path."},
		{"deployed", "The template is tested, and has not been deployed to an account."},
	}
}

// NewStack makes everything for one existing cluster.
func NewStack(scope constructs.Construct, cfg Config) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String(cfg.StackName), &awscdk.StackProps{
		Description: jsii.String(fmt.Sprintf("Weir for EKS cluster %s: ledger table, interruption functions, roles. Does not install the chart or push images; see infra/cdk/README.md for all that is not done.", cfg.ClusterName)),
		Tags:        &map[string]*string{"weir.dev/cluster": jsii.String(cfg.ClusterName)},
	})
	ledger := NewLedgerTable(stack, "Ledger")
	interruption := NewInterruption(stack, "Interruption", InterruptionProps{
		ClusterName: cfg.ClusterName, Endpoint: cfg.Endpoint, CertificateAuthority: cfg.CertificateAuthority,
		LambdaDir: cfg.LambdaDir, Ledger: ledger, Remember: cfg.Ledger == LedgerDynamoDB,
	})
	node := NewNodeRole(stack, "NodeRole", cfg.ClusterName, cfg.NodeRole)
	scaler := NewScalerRole(stack, "ScalerRole", ScalerRoleProps{
		ClusterName: cfg.ClusterName, Namespace: cfg.Namespace, ServiceAccount: cfg.ServiceAccount,
		NodeRoleArn: node.Arn, Queue: cfg.Queue, Ledger: ledger,
	})
	for _, g := range Gaps() {
		awscdk.Annotations_Of(stack).AddWarningV2(jsii.String("weir:"+g.ID), jsii.String(g.Text), nil)
	}
	output := func(id, description string, value *string) {
		awscdk.NewCfnOutput(stack, jsii.String(id), &awscdk.CfnOutputProps{Value: value, Description: jsii.String(description)})
	}
	output("TableName", "table of the ledger, the chart's ledgerTable", ledger.Table.TableName())
	output("ResponderName", "function that events invoke directly", interruption.Responder.FunctionName())
	output("DrainerName", "function that the drain queue feeds", interruption.Drainer.FunctionName())
	output("DrainQueueUrl", "queue of nodes to drain", interruption.DrainQueue.QueueUrl())
	output("DeadLetterQueueUrl", "queue of events that nobody could act on", interruption.DeadLetters.QueueUrl())
	output("InterruptionGroup", "Kubernetes group of the functions, the chart's interruption.group", jsii.String(InterruptionGroup))
	output("ScalerRoleArn", "role of the scaler's service account", scaler.Role.RoleArn())
	output("NodeRoleName", "role for EC2NodeClass spec.role", jsii.String(node.Name))
	output("ServiceAccount", "namespace and name for the chart", jsii.String(cfg.Namespace+"/"+cfg.ServiceAccount))
	if cfg.Image != "" {
		output("Image", "image for the chart", jsii.String(cfg.Image))
	}
	return stack
}
