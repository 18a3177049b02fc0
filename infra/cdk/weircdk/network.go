package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// NetworkProps of a Network.
type NetworkProps struct {
	Subnets        []string // ids
	SecurityGroups []string // ids; empty = a group is made in VPC
	VPC            string   // id
	// ClusterSecurityGroup is the cluster's own, which then lets the group that is made in;
	// empty = somebody else sees to that.
	ClusterSecurityGroup string
}

// Network is where functions run that must reach a private endpoint. Its ids are given,
// never looked up.
type Network struct {
	subnets, groups []string
}

// NewNetwork makes the security group of the functions, unless groups are given: out by
// TLS only, in not at all.
func NewNetwork(scope constructs.Construct, id string, p NetworkProps) *Network {
	if len(p.SecurityGroups) > 0 {
		return &Network{subnets: p.Subnets, groups: p.SecurityGroups}
	}
	c := constructs.NewConstruct(scope, jsii.String(id))
	tls := func(v4, v6 *string) *awsec2.CfnSecurityGroup_EgressProperty {
		return &awsec2.CfnSecurityGroup_EgressProperty{
			IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(443), ToPort: jsii.Number(443), CidrIp: v4, CidrIpv6: v6,
			Description: jsii.String("API server and AWS"),
		}
	}
	group := awsec2.NewCfnSecurityGroup(c, jsii.String("SecurityGroup"), &awsec2.CfnSecurityGroupProps{
		GroupDescription: jsii.String("Weir functions, out to the API server and to AWS"), VpcId: jsii.String(p.VPC),
		SecurityGroupEgress: []any{tls(jsii.String("0.0.0.0/0"), nil), tls(nil, jsii.String("::/0"))},
	})
	if p.ClusterSecurityGroup != "" {
		awsec2.NewCfnSecurityGroupIngress(c, jsii.String("ClusterIngress"), &awsec2.CfnSecurityGroupIngressProps{
			GroupId: jsii.String(p.ClusterSecurityGroup), SourceSecurityGroupId: group.AttrGroupId(),
			IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(443), ToPort: jsii.Number(443),
			Description: jsii.String("Weir functions"),
		})
	}
	return &Network{subnets: p.Subnets, groups: []string{*group.AttrGroupId()}}
}

// Place puts functions of one role into the network; nil leaves them outside a VPC.
// Lambda attaches a function by its own role; code in the function may not use that.
func (n *Network) Place(scope constructs.Construct, role awsiam.IRole, functions ...awslambda.Function) {
	if n == nil {
		return
	}
	interfaces := []string{
		"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
	}
	policy := attach(scope, "NetworkPolicy", "Network interfaces of Weir's functions", role, []Statement{
		{
			Sid: "AllowNetworkInterfaces", Actions: interfaces, Resources: []string{"*"},
			Wildcard: "Lambda makes and describes the interfaces, whose names nobody knows before; code of a function is denied it",
		},
		{
			Sid: "DenyNetworkInterfacesToCode", Actions: interfaces, Resources: []string{"*"}, Deny: true,
			Conditions: map[string]any{"ArnLike": map[string]any{
				"lambda:SourceFunctionArn": arn("lambda", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "function:*"),
			}},
			Wildcard: "forbids whatever the statement before allows",
		},
	})
	for _, f := range functions {
		f.Node().DefaultChild().(awslambda.CfnFunction).SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{
			SubnetIds: jsii.Strings(n.subnets...), SecurityGroupIds: jsii.Strings(n.groups...),
		})
		f.Node().AddDependency(policy) // Lambda refuses a function that it cannot attach
	}
}
