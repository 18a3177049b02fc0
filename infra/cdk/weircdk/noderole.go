package weircdk

import (
	"path"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// nodePolicies are what a node of EKS needs: to join, to give pods addresses, to pull
// images, and to be reached by Session Manager instead of SSH.
var nodePolicies = []string{
	"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore",
}

// keptWithMachines: machines outlive the stack, and without their role and its entry
// they would be cut off from the cluster. Only a creation that fails takes both back.
const keptWithMachines = awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE

// NodeRole is the role of the machines: one of our own with its access entry, or an
// existing one, which is taken as it is.
type NodeRole struct {
	Construct constructs.Construct
	Arn, Name string
	Profile   string // an instance profile of the role; empty for an existing role
}

// NewNodeRole makes a role, or takes the existing one of that name, which stands behind
// its path if it has one ("teams/blue/Nodes"). The access entry of an existing role is its owner's: a second one for the same role is refused by EKS.
func NewNodeRole(scope constructs.Construct, id, cluster, existing string) *NodeRole {
	c := constructs.NewConstruct(scope, jsii.String(id))
	if existing != "" {
		// PassRole is checked against the whole ARN, path included; classes and instance
		// profiles name the role without it.
		return &NodeRole{Construct: c, Arn: arn("iam", "", *awscdk.Aws_ACCOUNT_ID(), "role/"+existing), Name: path.Base(existing)}
	}
	role := managedRole(c, "Role", "Nodes that Weir buys for cluster "+cluster, "ec2.amazonaws.com", nodePolicies...)
	role.ApplyRemovalPolicy(keptWithMachines)
	entry := awseks.NewCfnAccessEntry(c, jsii.String("AccessEntry"), &awseks.CfnAccessEntryProps{
		ClusterName: jsii.String(cluster), PrincipalArn: role.RoleArn(), Type: jsii.String("EC2_LINUX"),
	})
	entry.ApplyRemovalPolicy(keptWithMachines, nil)
	// For classes that name a profile, as they must where IAM cannot be reached; others name
	// the role, and the scaler makes their profiles.
	profile := awsiam.NewCfnInstanceProfile(c, jsii.String("Profile"), &awsiam.CfnInstanceProfileProps{Roles: &[]any{role.RoleName()}})
	profile.ApplyRemovalPolicy(keptWithMachines, nil)
	return &NodeRole{Construct: c, Arn: *role.RoleArn(), Name: *role.RoleName(), Profile: *profile.Ref()}
}
