package weircdk

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Why statements have patterns of resources.
const (
	whyInputs  = "what a launch may use is chosen by the node classes' selectors, when machines are bought"
	whyCreated = "what is created has no name yet; limited to what carries the cluster's tags"
	whyOwn     = "machines, templates and profiles come and go; limited to those with the cluster's tags"
	whyLogin   = "ECR knows no resource for a login, which gives no right by itself"
	whyNames   = "names of instance profiles are made of cluster and class when they are needed"
)

// Tags that every machine of a scaler carries; the rights below hang on them.
const (
	tagCluster   = "eks:eks-cluster-name"
	tagPool      = "karpenter.sh/nodepool"
	tagClaim     = "karpenter.sh/nodeclaim"
	tagNodeClass = "karpenter.k8s.aws/ec2nodeclass"
	tagRegion    = "topology.kubernetes.io/region"
	tagName      = "Name"
)

// ScalerRoleProps of a ScalerRole.
type ScalerRoleProps struct {
	ClusterName, Namespace, ServiceAccount string
	NodeRoleArn                            string
	Queue                                  string   // name of an existing interruption queue; empty = none
	Issuer                                 string   // of the cluster's OIDC tokens, without https://, for IRSA; empty = EKS Pod Identity
	ImageParameters                        []string // SSM parameters of one's own that name images, as "/golden/x" or "/golden/*"
	StrategyRepositories                   []string // of ECR that strategies are fetched from: "team/carbon", "team/*" or ARNs; none = no rights there
	Ledger                                 *LedgerTable
}

// ScalerRole is what the scaler may do in AWS, given to its service account by EKS Pod
// Identity or IRSA: buy, tag and end machines that carry the cluster's tags, and no others.
// The rights are those of Karpenter's own policy, so that either can take over.
type ScalerRole struct {
	Construct   constructs.Construct
	Role        awsiam.Role
	Association awseks.CfnPodIdentityAssociation // nil with an issuer
}

// NewScalerRole makes the role, its policies and its Pod Identity association.
func NewScalerRole(scope constructs.Construct, id string, p ScalerRoleProps) *ScalerRole {
	c := constructs.NewConstruct(scope, jsii.String(id))
	role := scalerTrust(c, p)
	attach(c, "LaunchPolicy", "Machines of the cluster's node pools", role, launchStatements(p))
	attach(c, "ProfilePolicy", "Instance profiles of the cluster's node classes", role, profileStatements(p))
	attach(c, "DiscoveryPolicy", "What can be bought, and where", role, discoveryStatements(p))
	if len(p.StrategyRepositories) > 0 {
		attach(c, "StrategyPolicy", "Programs of strategies", role, strategyStatements(p.StrategyRepositories))
	}
	p.Ledger.Grant(c, "LedgerPolicy", role, true)
	scaler := &ScalerRole{Construct: c, Role: role}
	if p.Issuer == "" {
		scaler.Association = awseks.NewCfnPodIdentityAssociation(c, jsii.String("Association"), &awseks.CfnPodIdentityAssociationProps{
			ClusterName: jsii.String(p.ClusterName), Namespace: jsii.String(p.Namespace),
			ServiceAccount: jsii.String(p.ServiceAccount), RoleArn: role.RoleArn(),
		})
	}
	return scaler
}

// scalerTrust makes the role for the service account alone: by Pod Identity, whose
// sessions are tagged with who asks, or by the tokens of the cluster's issuer.
func scalerTrust(c constructs.Construct, p ScalerRoleProps) awsiam.Role {
	description := jsii.String("Weir's scaler on cluster " + p.ClusterName)
	if p.Issuer != "" {
		trust := map[string]any{"StringEquals": map[string]any{
			p.Issuer + ":aud": "sts.amazonaws.com",
			p.Issuer + ":sub": "system:serviceaccount:" + p.Namespace + ":" + p.ServiceAccount,
		}}
		return awsiam.NewRole(c, jsii.String("Role"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewFederatedPrincipal(jsii.String(arn("iam", "", *awscdk.Aws_ACCOUNT_ID(), "oidc-provider/"+p.Issuer)),
				&trust, jsii.String("sts:AssumeRoleWithWebIdentity")),
			Description: description,
		})
	}
	trust := map[string]any{"StringEquals": map[string]any{
		"aws:RequestTag/eks-cluster-name":           p.ClusterName,
		"aws:RequestTag/kubernetes-namespace":       p.Namespace,
		"aws:RequestTag/kubernetes-service-account": p.ServiceAccount,
	}}
	pods := func() awsiam.ServicePrincipal {
		return awsiam.NewServicePrincipal(jsii.String("pods.eks.amazonaws.com"), &awsiam.ServicePrincipalOpts{Conditions: &trust})
	}
	role := awsiam.NewRole(c, jsii.String("Role"), &awsiam.RoleProps{AssumedBy: pods(), Description: description})
	role.AssumeRolePolicy().AddStatements(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: jsii.Strings("sts:TagSession"), Principals: &[]awsiam.IPrincipal{pods()},
	}))
	return role
}

// imageParameters are AWS's own, which have no account, and those given by name.
func imageParameters(own []string) []string {
	out := []string{arn("ssm", *awscdk.Aws_REGION(), "", "parameter/aws/service/*")}
	for _, name := range own {
		out = append(out, arn("ssm", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "parameter/"+strings.TrimPrefix(name, "/")))
	}
	return out
}

// arn writes an ARN of this partition; region and account may be left empty.
func arn(service, region, account, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", *awscdk.Aws_PARTITION(), service, region, account, resource)
}

func ec2(resources ...string) []string {
	var out []string
	for _, r := range resources {
		account := "*"
		if r == "image" || r == "snapshot" { // public ones have no account
			account = ""
		}
		out = append(out, arn("ec2", *awscdk.Aws_REGION(), account, r+"/*"))
	}
	return out
}

func owned(cluster string) string { return "kubernetes.io/cluster/" + cluster }

func launchStatements(p ScalerRoleProps) []Statement {
	created := []string{"fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"}
	requested := map[string]any{
		"aws:RequestTag/" + owned(p.ClusterName): "owned",
		"aws:RequestTag/" + tagCluster:           p.ClusterName,
	}
	tagged := map[string]any{
		"StringEquals": map[string]any{"aws:ResourceTag/" + owned(p.ClusterName): "owned"},
		"StringLike":   map[string]any{"aws:ResourceTag/" + tagPool: "*"},
	}
	creating := map[string]any{"ec2:CreateAction": []string{"RunInstances", "CreateFleet", "CreateLaunchTemplate"}}
	for k, v := range requested {
		creating[k] = v
	}
	poolRequested := map[string]any{"aws:RequestTag/" + tagPool: "*"}
	return []Statement{
		{
			Sid: "AllowLaunchInputs", Actions: []string{"ec2:CreateFleet", "ec2:RunInstances"},
			Resources: ec2("image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"), Wildcard: whyInputs,
		},
		{
			Sid: "AllowOwnLaunchTemplates", Actions: []string{"ec2:CreateFleet", "ec2:RunInstances"},
			Resources: ec2("launch-template"), Conditions: tagged, Wildcard: whyOwn,
		},
		{
			Sid: "AllowTaggedLaunch", Actions: []string{"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"},
			Resources: ec2(created...), Conditions: map[string]any{"StringEquals": requested, "StringLike": poolRequested}, Wildcard: whyCreated,
		},
		{
			Sid: "AllowTagsAtCreation", Actions: []string{"ec2:CreateTags"},
			Resources: ec2(created...), Conditions: map[string]any{"StringEquals": creating, "StringLike": poolRequested}, Wildcard: whyCreated,
		},
		{
			Sid: "AllowTagsOfOwnInstances", Actions: []string{"ec2:CreateTags"}, Resources: ec2("instance"), Wildcard: whyOwn,
			Conditions: map[string]any{
				"StringEquals":              tagged["StringEquals"],
				"StringLike":                tagged["StringLike"],
				"StringEqualsIfExists":      map[string]any{"aws:RequestTag/" + tagCluster: p.ClusterName},
				"ForAllValues:StringEquals": map[string]any{"aws:TagKeys": []string{tagCluster, tagClaim, tagName}},
			},
		},
		{
			Sid: "AllowEndOfOwn", Actions: []string{"ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"},
			Resources: ec2("instance", "launch-template"), Conditions: tagged, Wildcard: whyOwn,
		},
		{
			Sid: "AllowNodeRole", Actions: []string{"iam:PassRole"}, Resources: []string{p.NodeRoleArn},
			Conditions: map[string]any{"StringEquals": map[string]any{"iam:PassedToService": []string{"ec2.amazonaws.com", "ec2.amazonaws.com.cn"}}},
		},
	}
}

func profileStatements(p ScalerRoleProps) []Statement {
	profiles := []string{arn("iam", "", *awscdk.Aws_ACCOUNT_ID(), "instance-profile/*")}
	tags := func(kind string, withCluster bool) map[string]any {
		equals := map[string]any{
			"aws:" + kind + "/" + owned(p.ClusterName): "owned",
			"aws:" + kind + "/" + tagRegion:            *awscdk.Aws_REGION(),
		}
		if withCluster {
			equals["aws:"+kind+"/"+tagCluster] = p.ClusterName
		}
		return equals
	}
	class := func(kinds ...string) map[string]any {
		out := map[string]any{}
		for _, k := range kinds {
			out["aws:"+k+"/"+tagNodeClass] = "*"
		}
		return out
	}
	both := tags("ResourceTag", false)
	for k, v := range tags("RequestTag", true) {
		both[k] = v
	}
	return []Statement{
		{
			Sid: "AllowProfileCreation", Actions: []string{"iam:CreateInstanceProfile"}, Resources: profiles,
			Conditions: map[string]any{"StringEquals": tags("RequestTag", true), "StringLike": class("RequestTag")}, Wildcard: whyNames,
		},
		{
			Sid: "AllowProfileTags", Actions: []string{"iam:TagInstanceProfile"}, Resources: profiles,
			Conditions: map[string]any{"StringEquals": both, "StringLike": class("RequestTag", "ResourceTag")}, Wildcard: whyNames,
		},
		{
			Sid: "AllowOwnProfiles", Actions: []string{"iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"},
			Resources: profiles, Conditions: map[string]any{"StringEquals": tags("ResourceTag", false), "StringLike": class("ResourceTag")}, Wildcard: whyNames,
		},
		{Sid: "AllowProfileReads", Actions: []string{"iam:GetInstanceProfile"}, Resources: profiles, Wildcard: whyNames},
		{
			Sid: "AllowProfileList", Actions: []string{"iam:ListInstanceProfiles"}, Resources: []string{"*"},
			Wildcard: "IAM lists profiles by path and knows no resource for it",
		},
	}
}

func discoveryStatements(p ScalerRoleProps) []Statement {
	s := []Statement{
		{
			Sid: "AllowCluster", Actions: []string{"eks:DescribeCluster"},
			Resources: []string{arn("eks", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "cluster/"+p.ClusterName)},
		},
		{
			Sid: "AllowRegionalReads",
			Actions: []string{
				"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings",
				"ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
				"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
			},
			Resources:  []string{"*"},
			Conditions: map[string]any{"StringEquals": map[string]any{"aws:RequestedRegion": *awscdk.Aws_REGION()}},
			Wildcard:   "EC2 knows no resource for what is described; limited to the region",
		},
		{
			Sid: "AllowImageParameters", Actions: []string{"ssm:GetParameter"},
			Resources: imageParameters(p.ImageParameters),
			Wildcard:  "AWS publishes its images under paths that change with versions; node classes choose among them",
		},
		{
			Sid: "AllowZonalShiftStatus", Actions: []string{"arc-zonal-shift:GetManagedResource"}, Resources: []string{"*"},
			Conditions: map[string]any{"StringEquals": map[string]any{
				"arc-zonal-shift:ResourceIdentifier": arn("eks", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "cluster/"+p.ClusterName),
			}},
			Wildcard: "zonal shifts know the cluster by a condition only; limited to it",
		},
		{
			Sid: "AllowPrices", Actions: []string{"pricing:GetProducts"}, Resources: []string{"*"},
			Wildcard: "the price list knows no resources; it is public",
		},
	}
	if p.Queue != "" {
		s = append(s, Statement{
			Sid: "AllowInterruptionQueue", Actions: []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
			Resources: []string{arn("sqs", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), p.Queue)},
		})
	}
	return s
}

// strategyStatements let programs be fetched from repositories, given by name in this account and region or by ARN.
func strategyStatements(repositories []string) []Statement {
	var resources []string
	for _, r := range repositories {
		if !strings.HasPrefix(r, "arn:") {
			r = arn("ecr", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "repository/"+r)
		}
		resources = append(resources, r)
	}
	return []Statement{
		{Sid: "AllowRegistryLogin", Actions: []string{"ecr:GetAuthorizationToken"}, Resources: []string{"*"}, Wildcard: whyLogin},
		{
			Sid: "AllowStrategyPulls", Actions: []string{"ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, Resources: resources,
			Wildcard: "repositories that who deploys has named, by path where they end with *",
		},
	}
}
