package weircdk

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// metadataWildcards names, in the metadata of a policy, the reason of each statement
// whose resources are patterns, by its Sid.
const metadataWildcards = "weir.dev/wildcard-resources"

// Statement allows some actions on some resources.
type Statement struct {
	Sid        string
	Actions    []string
	Resources  []string
	Conditions map[string]any // operator -> key -> value
	Wildcard   string         // why Resources have a "*"; empty where they have none
	Deny       bool           // it forbids, where others allow
}

// attach makes a managed policy of the statements and gives it to the role. A managed
// policy rather than an inline one: its limit of 6,144 characters is its own.
func attach(scope constructs.Construct, id, description string, role awsiam.IRole, statements []Statement) awsiam.ManagedPolicy {
	p := awsiam.NewManagedPolicy(scope, jsii.String(id), &awsiam.ManagedPolicyProps{
		Description: jsii.String(description),
		Roles:       &[]awsiam.IRole{role},
	})
	wildcards, patterns := map[string]any{}, map[string]string{}
	for _, s := range statements {
		props := &awsiam.PolicyStatementProps{
			Sid: jsii.String(s.Sid), Actions: jsii.Strings(s.Actions...), Resources: jsii.Strings(s.Resources...),
		}
		if len(s.Conditions) > 0 {
			props.Conditions = &s.Conditions
		}
		if s.Deny {
			props.Effect = awsiam.Effect_DENY
		}
		p.AddStatements(awsiam.NewPolicyStatement(props))
		if s.Wildcard == "" {
			continue
		}
		wildcards[s.Sid] = s.Wildcard
		for _, r := range s.Resources {
			if strings.Contains(r, "*") && !slices.Contains(strings.Split(patterns[r], "; "), s.Wildcard) {
				patterns[r] = strings.TrimPrefix(patterns[r]+"; "+s.Wildcard, "; ")
			}
		}
	}
	if len(wildcards) > 0 {
		p.Node().DefaultChild().(awsiam.CfnManagedPolicy).AddMetadata(jsii.String(metadataWildcards), wildcards)
		accept(p, "AwsSolutions-IAM5", "Resource::", patterns)
	}
	return p
}

// accept tells cdk-nag the reason of each finding of a rule on a construct, by the
// finding's name without its prefix.
func accept(c constructs.Construct, rule, prefix string, reasons map[string]string) {
	named := strings.NewReplacer(
		*awscdk.Aws_PARTITION(), "<AWS::Partition>", *awscdk.Aws_REGION(), "<AWS::Region>", *awscdk.Aws_ACCOUNT_ID(), "<AWS::AccountId>")
	var list []*cdknag.NagPackSuppression
	for _, finding := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, &cdknag.NagPackSuppression{
			Id: jsii.String(rule), Reason: jsii.String(reasons[finding]), AppliesTo: &[]any{prefix + named.Replace(finding)},
		})
	}
	cdknag.NagSuppressions_AddResourceSuppressions(c, &list, jsii.Bool(true))
}
