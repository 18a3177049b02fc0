package weircdk

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Gap is something that people expect of this stack and that it does not do yet.
type Gap struct{ ID, Text string }

// Gaps lists what is missing. The README has the same list; a test compares them.
func Gaps() []Gap {
	return []Gap{
		{"deployed", "The template is tested, and has not been deployed to an account. The scaler has been run against stand-ins for AWS, which do not check rights, and never with this role."},
		{"auth-mode", "Access entries need a cluster in mode API or API_AND_CONFIG_MAP; aws-auth is not written."},
		{"keys", "On a key of yours for volumes of machines the scaler's role gets no rights, give it them in the key's policy; the logs of a new cluster's tags, variables of functions and the image repository are encrypted with keys of AWS in any case."},
	}
}

// NewStacks makes Weir's stack, which is the last, and before it that of a new cluster
// where one is asked for. They are two, so that Weir can go and the cluster stay.
func NewStacks(app awscdk.App, cfg Config) []awscdk.Stack {
	var stacks []awscdk.Stack
	if cfg.NewCluster != "" {
		stack := awscdk.NewStack(app, jsii.String(cfg.StackName+"-Cluster"), &awscdk.StackProps{
			Description: jsii.String("EKS cluster " + cfg.ClusterName + " with a network of its own and two nodes, for Weir to scale"),
		})
		cluster := NewCluster(stack, "EKS", ClusterProps{ClusterName: cfg.ClusterName, Version: cfg.NewCluster, Admin: cfg.ClusterAdmin})
		cfg.Endpoint, cfg.CertificateAuthority = cluster.Endpoint, cluster.CertificateAuthority
		NewDiscoveryTags(stack, "DiscoveryTags", cfg.ClusterName, cluster.Subnets, []string{cluster.SecurityGroup}, nil)
		if cfg.PermissionsBoundary != "" {
			bound(stack, cfg.PermissionsBoundary)
		}
		stacks = append(stacks, stack)
	}
	weir := NewStack(app, cfg)
	for _, s := range stacks {
		weir.AddStackDependency(s, jsii.String("the cluster is there first"))
	}
	return append(stacks, weir)
}

// NewStack makes everything for one existing cluster.
func NewStack(scope constructs.Construct, cfg Config) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String(cfg.StackName), &awscdk.StackProps{
		Description: jsii.String(fmt.Sprintf("Weir for EKS cluster %s: ledger table, interruption functions, roles, charts; see infra/cdk/README.md for all that is not done.", cfg.ClusterName)),
		Tags:        &map[string]*string{"weir.dev/cluster": jsii.String(cfg.ClusterName)},
	})
	key := NewCustomerKey(stack, "Encryption", cfg.Key)
	var ledger *LedgerTable
	if cfg.Ledger == LedgerDynamoDB {
		ledger = NewLedgerTable(stack, "Ledger", cfg.Table, key)
	}
	var network *Network
	if len(cfg.Subnets) > 0 {
		network = NewNetwork(stack, "Network", NetworkProps{
			Subnets: cfg.Subnets, SecurityGroups: cfg.SecurityGroups, VPC: cfg.VPC, ClusterSecurityGroup: cfg.ClusterSecurityGroup,
		})
	}
	interruption := NewInterruption(stack, "Interruption", InterruptionProps{
		ClusterName: cfg.ClusterName, Endpoint: cfg.Endpoint, CertificateAuthority: cfg.CertificateAuthority,
		LambdaDir: cfg.LambdaDir, Ledger: ledger, Network: network, Reserved: cfg.ReservedConcurrency, Key: key,
	})
	NewAlarms(stack, "Alarms", interruption, cfg.AlarmTopic)
	node := NewNodeRole(stack, "NodeRole", cfg.ClusterName, cfg.NodeRole)
	scaler := NewScalerRole(stack, "ScalerRole", ScalerRoleProps{
		ClusterName: cfg.ClusterName, Namespace: cfg.Namespace, ServiceAccount: cfg.ServiceAccount, Issuer: cfg.Issuer,
		NodeRoleArn: node.Arn, Queue: cfg.Queue, ImageParameters: cfg.ImageParameters, StrategyRepositories: cfg.StrategyRepositories, Ledger: ledger,
	})
	values := chartValues(cfg, ledger, scaler)
	var release *Release
	if cfg.Chart == ChartInstall {
		release = NewRelease(stack, "Release", ReleaseProps{
			ClusterName: cfg.ClusterName, Endpoint: cfg.Endpoint, CertificateAuthority: cfg.CertificateAuthority,
			Namespace: cfg.Namespace, DeployDir: cfg.DeployDir, Image: cfg.Image, Values: values, Network: network, Key: key, Alone: cfg.ReservedConcurrency > 0,
		})
		// The scaler looks at its table and uses its role when it starts, and the functions act
		// on what it says of itself.
		release.Resource.Node().AddDependency(scaler.Construct, node.Construct, interruption.Construct)
		if ledger != nil {
			release.Resource.Node().AddDependency(ledger.Table)
		}
	}
	if len(cfg.DiscoverySubnets)+len(cfg.DiscoverySecurityGroups) > 0 {
		NewDiscoveryTags(stack, "DiscoveryTags", cfg.ClusterName, cfg.DiscoverySubnets, cfg.DiscoverySecurityGroups, key)
	}
	if cfg.PermissionsBoundary != "" {
		bound(stack, cfg.PermissionsBoundary)
	}
	for _, g := range Gaps() {
		awscdk.Annotations_Of(stack).AddWarningV2(jsii.String("weir:"+g.ID), jsii.String(g.Text), nil)
	}
	output := func(id, description string, value *string) {
		awscdk.NewCfnOutput(stack, jsii.String(id), &awscdk.CfnOutputProps{Value: value, Description: jsii.String(description)})
	}
	if key != nil {
		output("KeyArn", "key of table, queues and logs", key.Key.KeyArn())
	}
	if ledger != nil {
		output("TableName", "table of the ledger, the chart's ledgerTable, and -c table of another cluster's stack", ledger.Table.TableName())
	}
	output("ResponderName", "function that events invoke directly", interruption.Responder.FunctionName())
	output("DrainerName", "function that the drain queue feeds", interruption.Drainer.FunctionName())
	output("DrainQueueUrl", "queue of nodes to drain", interruption.DrainQueue.QueueUrl())
	output("DeadLetterQueueUrl", "queue of events that nobody could act on", interruption.DeadLetters.QueueUrl())
	output("InterruptionGroup", "Kubernetes group of the functions, the chart's interruption.group", jsii.String(InterruptionGroup))
	output("ScalerRoleArn", "role of the scaler's service account", scaler.Role.RoleArn())
	output("NodeRoleName", "role for EC2NodeClass spec.role", jsii.String(node.Name))
	if node.Profile != "" {
		output("NodeInstanceProfile", "or, for a class that names one, spec.instanceProfile", jsii.String(node.Profile))
	}
	output("ServiceAccount", "namespace and name for the chart", jsii.String(cfg.Namespace+"/"+cfg.ServiceAccount))
	output("ChartValues", "values of infra/chart that go with this stack, but for clusterName and image", stack.ToJsonString(values, nil))
	if release != nil {
		output("Image", "image that was installed", release.Resource.GetAttString(jsii.String("Image")))
		output("DefinitionsLeftAlone", "definitions that were there already and were not touched", jsii.String("left alone: "+*release.Resource.GetAttString(jsii.String("DefinitionsLeftAlone"))))
	} else if cfg.Image != "" {
		output("Image", "image for the chart", jsii.String(cfg.Image))
	}
	if cfg.NewCluster == "" && (len(cfg.DiscoverySubnets) == 0 || len(cfg.DiscoverySecurityGroups) == 0) {
		output("ToTag", "what node classes that select by "+tagDiscovery+" need, unless it is tagged already", jsii.String(DiscoveryList(cfg.ClusterName)))
	}
	return stack
}

// bound puts a permissions boundary on every role below the scope, by its ARN or, in
// this account, its name.
func bound(scope constructs.Construct, policy string) {
	if !strings.HasPrefix(policy, "arn:") {
		policy = arn("iam", "", *awscdk.Aws_ACCOUNT_ID(), "policy/"+policy)
	}
	awsiam.PermissionsBoundary_Of(scope).Apply(awsiam.ManagedPolicy_FromManagedPolicyArn(scope, jsii.String("Boundary"), jsii.String(policy)))
}
