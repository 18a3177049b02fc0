package weircdk

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/customresources"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// tagDiscovery is the tag by which node classes find subnets and security groups, as
// the manifests of Karpenter's guide have it.
const tagDiscovery = "karpenter.sh/discovery"

// DiscoveryTags tags existing subnets and security groups with tagDiscovery and the
// cluster's name. The tags stay when the stack goes: nodes of these classes may live on.
type DiscoveryTags struct {
	Resource customresources.AwsCustomResource
}

// NewDiscoveryTags tags what the ids say, by one call of EC2.
func NewDiscoveryTags(scope constructs.Construct, id, cluster string, subnets, groups []string, key *CustomerKey) *DiscoveryTags {
	c := constructs.NewConstruct(scope, jsii.String(id))
	var arns []string
	for _, s := range subnets {
		arns = append(arns, arn("ec2", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "subnet/"+s))
	}
	for _, g := range groups {
		arns = append(arns, arn("ec2", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "security-group/"+g))
	}
	role := awsiam.NewRole(c, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Weir's discovery tags on cluster " + cluster),
	})
	logs := logGroup(c, "Logs", key)
	policy := attach(c, "Policy", "Discovery tags of Weir's node classes", role, []Statement{
		ownLogs(*logs.LogGroupArn()),
		{
			Sid: "AllowDiscoveryTags", Actions: []string{"ec2:CreateTags"}, Resources: arns,
			Conditions: map[string]any{
				"StringEquals":              map[string]any{"aws:RequestTag/" + tagDiscovery: cluster},
				"ForAllValues:StringEquals": map[string]any{"aws:TagKeys": []string{tagDiscovery}},
			},
		},
	})
	call := &customresources.AwsSdkCall{
		Service: jsii.String("ec2"), Action: jsii.String("CreateTags"),
		Parameters: map[string]any{
			"Resources": jsii.Strings(slices.Concat(subnets, groups)...),
			"Tags":      []any{map[string]any{"Key": tagDiscovery, "Value": cluster}},
		},
		PhysicalResourceId: customresources.PhysicalResourceId_Of(jsii.String("discovery-tags@" + cluster)),
	}
	r := customresources.NewAwsCustomResource(c, jsii.String("Resource"), &customresources.AwsCustomResourceProps{
		ResourceType: jsii.String("Custom::WeirDiscoveryTags"), OnCreate: call, OnUpdate: call,
		Role: role, LogGroup: logs, InstallLatestAwsSdk: jsii.Bool(false), Timeout: awscdk.Duration_Minutes(jsii.Number(2)),
	})
	r.Node().AddDependency(policy)
	return &DiscoveryTags{Resource: r}
}

// DiscoveryList says in words and as a command what to tag, for those who do it themselves.
func DiscoveryList(cluster string) string {
	return "aws ec2 create-tags --tags Key=" + tagDiscovery + ",Value=" + cluster +
		" --resources SUBNET... SECURITY-GROUP...  (the subnets that nodes run in, one per zone or more; the cluster's security group, and no other with the tag kubernetes.io/cluster/" + cluster + ")"
}
