package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// The two nodes of a new cluster that nothing scales: for the scaler, CoreDNS and the like.
const (
	systemNodes     = 2
	systemNodeType  = "m7g.large"
	systemNodeImage = "AL2023_ARM_64_STANDARD"
)

// ClusterProps of a Cluster.
type ClusterProps struct {
	ClusterName string
	Version     string // of Kubernetes, such as 1.34
	Admin       string // ARN of the principal that administers it
}

// Cluster is a new EKS cluster in a VPC of its own, with what Weir needs: access
// entries, the agent of Pod Identity, and two nodes that Weir does not touch.
type Cluster struct {
	Endpoint, CertificateAuthority string   // known once it is deployed
	Subnets                        []string // of nodes
	SecurityGroup                  string
}

// NewCluster makes network, cluster, node group and add-ons. Who deploys a stack is
// CloudFormation's role and nobody to administer a cluster: hence Admin.
func NewCluster(scope constructs.Construct, id string, p ClusterProps) *Cluster {
	c := constructs.NewConstruct(scope, jsii.String(id))
	vpc := awsec2.NewVpc(c, jsii.String("Vpc"), &awsec2.VpcProps{NatGateways: jsii.Number(1)})
	excuse(vpc, "AwsSolutions-VPC7", "flow logs cost by the byte: for whoever wants to read them")
	for role, subnets := range map[string]*[]awsec2.ISubnet{"elb": vpc.PublicSubnets(), "internal-elb": vpc.PrivateSubnets()} {
		for _, s := range *subnets { // where controllers put load balancers
			awscdk.Tags_Of(s).Add(jsii.String("kubernetes.io/role/"+role), jsii.String("1"), nil)
		}
	}
	nodes := ids(vpc.PrivateSubnets())
	cluster := awseks.NewCfnCluster(c, jsii.String("Cluster"), &awseks.CfnClusterProps{
		Name: jsii.String(p.ClusterName), Version: jsii.String(p.Version),
		RoleArn: managedRole(c, "Role", "Control plane of cluster "+p.ClusterName, "eks.amazonaws.com", "AmazonEKSClusterPolicy").RoleArn(),
		ResourcesVpcConfig: &awseks.CfnCluster_ResourcesVpcConfigProperty{
			SubnetIds: jsii.Strings(append(ids(vpc.PublicSubnets()), nodes...)...), EndpointPublicAccess: jsii.Bool(true), EndpointPrivateAccess: jsii.Bool(true),
		},
		AccessConfig: &awseks.CfnCluster_AccessConfigProperty{AuthenticationMode: jsii.String("API"), BootstrapClusterCreatorAdminPermissions: jsii.Bool(false)},
		Logging:      everyLog(),
	})
	excuse(cluster, "AwsSolutions-EKS1", "the functions and whoever tries this come by the public endpoint; every call is authenticated")
	within := func(r awscdk.CfnResource) { r.AddResourceDependency(cluster, nil) }
	within(awseks.NewCfnAccessEntry(c, jsii.String("Admin"), &awseks.CfnAccessEntryProps{
		ClusterName: jsii.String(p.ClusterName), PrincipalArn: jsii.String(p.Admin), Type: jsii.String("STANDARD"), AccessPolicies: clusterAdmin(),
	}))
	group := awseks.NewCfnNodegroup(c, jsii.String("System"), &awseks.CfnNodegroupProps{
		ClusterName: jsii.String(p.ClusterName), NodegroupName: jsii.String("system"), Subnets: values(nodes),
		NodeRole:      managedRole(c, "SystemRole", "System nodes of cluster "+p.ClusterName, "ec2.amazonaws.com", nodePolicies...).RoleArn(),
		InstanceTypes: jsii.Strings(systemNodeType), AmiType: jsii.String(systemNodeImage),
		ScalingConfig: &awseks.CfnNodegroup_ScalingConfigProperty{MinSize: jsii.Number(systemNodes), DesiredSize: jsii.Number(systemNodes), MaxSize: jsii.Number(systemNodes)},
	})
	within(group)
	for _, name := range []string{"vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns"} {
		addon := awseks.NewCfnAddon(c, jsii.String(name), &awseks.CfnAddonProps{ClusterName: jsii.String(p.ClusterName), AddonName: jsii.String(name)})
		within(addon)
		if name == "coredns" { // it is done when its pods run
			addon.AddResourceDependency(group, nil)
		} else if name == "vpc-cni" { // without it no node is ready
			group.AddResourceDependency(addon, nil)
		}
	}
	return &Cluster{
		Endpoint: *cluster.AttrEndpoint(), CertificateAuthority: *cluster.AttrCertificateAuthorityData(),
		Subnets: nodes, SecurityGroup: *cluster.AttrClusterSecurityGroupId(),
	}
}

func ids(subnets *[]awsec2.ISubnet) []string {
	var out []string
	for _, s := range *subnets {
		out = append(out, *s.SubnetId())
	}
	return out
}

// values is a list as some properties want it.
func values(list []string) *[]any {
	var out []any
	for _, s := range list {
		out = append(out, s)
	}
	return &out
}

func everyLog() *awseks.CfnCluster_LoggingProperty {
	var kinds []any
	for _, k := range []string{"api", "audit", "authenticator", "controllerManager", "scheduler"} {
		kinds = append(kinds, &awseks.CfnCluster_LoggingTypeConfigProperty{Type: jsii.String(k)})
	}
	return &awseks.CfnCluster_LoggingProperty{ClusterLogging: &awseks.CfnCluster_ClusterLoggingProperty{EnabledTypes: kinds}}
}

// clusterAdmin is the right to everything in a cluster.
func clusterAdmin() []any {
	return []any{&awseks.CfnAccessEntry_AccessPolicyProperty{
		PolicyArn:   jsii.String(arn("eks", "", "aws", "cluster-access-policy/AmazonEKSClusterAdminPolicy")),
		AccessScope: &awseks.CfnAccessEntry_AccessScopeProperty{Type: jsii.String("cluster")},
	}}
}

// managedRole is a role with policies of AWS's, as EKS documents them.
func managedRole(c constructs.Construct, id, description, service string, names ...string) awsiam.Role {
	var policies []awsiam.IManagedPolicy
	reasons := map[string]string{}
	for _, name := range names {
		policies = append(policies, awsiam.ManagedPolicy_FromAwsManagedPolicyName(jsii.String(name)))
		reasons[arn("iam", "", "aws", "policy/"+name)] = "EKS documents this policy for the role, and keeps it in step with what is needed"
	}
	role := awsiam.NewRole(c, jsii.String(id), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String(service), nil), Description: jsii.String(description), ManagedPolicies: &policies,
	})
	accept(role, "AwsSolutions-IAM4", "Policy::", reasons)
	return role
}

// excuse tells cdk-nag why a rule is not kept.
func excuse(c constructs.Construct, rule, reason string) {
	cdknag.NagSuppressions_AddResourceSuppressions(c, &[]*cdknag.NagPackSuppression{{Id: jsii.String(rule), Reason: jsii.String(reason)}}, jsii.Bool(true))
}
