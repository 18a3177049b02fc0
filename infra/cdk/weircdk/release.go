package weircdk

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecr"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Sizes of the installer: a release is waited for until its pods are ready.
const (
	installSeconds  = 900
	installMemoryMB = 1024
	// answerSeconds is how long CloudFormation waits for an answer: the function's own end
	// and the repetitions of one that was killed.
	answerSeconds = 2700
	keptImages    = 10 // for rollbacks
)

// ReleaseProps of a Release.
type ReleaseProps struct {
	ClusterName, Endpoint, CertificateAuthority string
	Namespace                                   string
	DeployDir                                   string         // folder with the installer's bootstrap, charts and image
	Image                                       string         // an existing image; empty = the folder's is pushed into a repository
	Values                                      map[string]any // of infra/chart, without clusterName and image
	Network                                     *Network       // where the function runs; nil = outside a VPC
	Key                                         *CustomerKey   // of its logs; nil = one of AWS
	Alone                                       bool           // Lambda starts no second run beside one; takes one of the account's concurrent runs
}

// Release installs, upgrades and removes the charts by a custom resource, whose function
// is lambda/deploy. With the stack goes the scaler; definitions, NodePools and machines
// stay.
type Release struct {
	Installer  awslambda.Function
	Resource   awscdk.CustomResource
	Repository awsecr.Repository // nil with an existing image
}

// NewRelease makes the function, its role with its access entry, the image repository
// and the custom resource. The resource has to depend on all that the scaler needs.
func NewRelease(scope constructs.Construct, id string, p ReleaseProps) *Release {
	c := constructs.NewConstruct(scope, jsii.String(id))
	r := &Release{}
	role := awsiam.NewRole(c, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Weir's installer on cluster " + p.ClusterName),
	})
	logs := logGroup(c, "InstallerLogs", p.Key)
	props := &awslambda.FunctionProps{
		Description: jsii.String("Weir: installs, upgrades and removes the charts"),
		Code:        awslambda.Code_FromAsset(jsii.String(p.DeployDir), nil), Handler: jsii.String("bootstrap"),
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(),
		Timeout: awscdk.Duration_Seconds(jsii.Number(installSeconds)), MemorySize: jsii.Number(installMemoryMB),
		LogGroup: logs, Role: role,
	}
	if p.Alone { // a request that comes meanwhile is repeated by Lambda, for hours
		props.ReservedConcurrentExecutions = jsii.Number(1)
	}
	r.Installer = awslambda.NewFunction(c, jsii.String("Installer"), props)
	p.Network.Place(c, role, r.Installer)
	policy := attach(c, "Policy", "Logs of Weir's installer, and whether its cluster is there", role, []Statement{ownLogs(*logs.LogGroupArn()), {
		Sid: "AllowCluster", Actions: []string{"eks:DescribeCluster"},
		Resources: []string{arn("eks", *awscdk.Aws_REGION(), *awscdk.Aws_ACCOUNT_ID(), "cluster/"+p.ClusterName)},
	}})
	// RBAC lets nobody give a right that he has not got, and the chart's cluster roles give
	// many; its definitions and namespace are of the whole cluster, too.
	entry := awseks.NewCfnAccessEntry(c, jsii.String("AccessEntry"), &awseks.CfnAccessEntryProps{
		ClusterName: jsii.String(p.ClusterName), PrincipalArn: role.RoleArn(), Type: jsii.String("STANDARD"),
		AccessPolicies: clusterAdmin(),
	})
	stack := awscdk.Stack_Of(c)
	properties := map[string]any{
		"clusterName": p.ClusterName, "endpoint": p.Endpoint, "certificateAuthority": p.CertificateAuthority,
		"namespace": p.Namespace,
		"values":    stack.ToJsonString(p.Values, nil),
		// Charts and image are in the function's code: a change of theirs is an update.
		"revision": awscdk.FileSystem_Fingerprint(jsii.String(p.DeployDir), nil),
	}
	needs := []constructs.IDependable{policy, entry}
	if p.Image != "" {
		properties["image"] = p.Image
	} else {
		r.Repository = repository(c)
		properties["imageRepository"] = r.Repository.RepositoryUri()
		needs = append(needs, r.Repository, r.allowPushes(c, role))
	}
	r.Resource = awscdk.NewCustomResource(c, jsii.String("Resource"), &awscdk.CustomResourceProps{
		ResourceType: jsii.String("Custom::WeirRelease"), ServiceToken: r.Installer.FunctionArn(),
		ServiceTimeout: awscdk.Duration_Seconds(jsii.Number(answerSeconds)), Properties: &properties,
	})
	r.Resource.Node().AddDependency(needs...)
	return r
}

// repository holds copies of what is in the function's code: it goes with the stack.
func repository(c constructs.Construct) awsecr.Repository {
	return awsecr.NewRepository(c, jsii.String("Repository"), &awsecr.RepositoryProps{
		ImageTagMutability: awsecr.TagMutability_IMMUTABLE, ImageScanOnPush: jsii.Bool(true),
		EmptyOnDelete: jsii.Bool(true), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		LifecycleRules: &[]*awsecr.LifecycleRule{{
			Description: jsii.String("keep what a rollback may want"), MaxImageCount: jsii.Number(keptImages),
			// Images of one architecture have no tag of their own and belong to a tagged index.
			TagStatus: awsecr.TagStatus_TAGGED, TagPatternList: jsii.Strings("*"),
		}},
	})
}

func (r *Release) allowPushes(c constructs.Construct, role awsiam.IRole) constructs.IDependable {
	return attach(c, "PushPolicy", "Images of Weir's installer", role, []Statement{
		{
			Sid: "AllowRegistryLogin", Actions: []string{"ecr:GetAuthorizationToken"}, Resources: []string{"*"},
			Wildcard: whyLogin,
		},
		{
			Sid: "AllowPush",
			Actions: []string{
				"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:CompleteLayerUpload",
				"ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart",
			},
			Resources: []string{*r.Repository.RepositoryArn()},
		},
	})
}

// chartValues are the values of infra/chart that go with the rest of the stack.
func chartValues(cfg Config, ledger *LedgerTable, scaler *ScalerRole) map[string]any {
	config := map[string]any{"region": *awscdk.Aws_REGION(), "account": *awscdk.Aws_ACCOUNT_ID()}
	account := map[string]any{"name": cfg.ServiceAccount}
	values := map[string]any{
		"ledger": "bolt", "config": config, "serviceAccount": account,
		"karpenterLease": map[string]any{"namespace": cfg.KarpenterNamespace},
		"interruption":   map[string]any{"enabled": true, "group": InterruptionGroup},
	}
	if ledger != nil {
		values["ledger"], values["ledgerTable"] = "dynamodb", *ledger.Table.TableName()
	}
	if cfg.Queue != "" {
		config["interruption"] = map[string]any{"queue": cfg.Queue}
	}
	if cfg.Issuer != "" {
		account["annotations"] = map[string]any{"eks.amazonaws.com/role-arn": *scaler.Role.RoleArn()}
	}
	return values
}

// list reads a list of context: names with commas between.
func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
