package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// metadataWildcards names, in the metadata of a policy, the reason of each statement
// that allows the resource "*", by its Sid.
const metadataWildcards = "weir.dev/wildcard-resources"

// Statement allows some actions on some resources.
type Statement struct {
	Sid        string
	Actions    []string
	Resources  []string
	Conditions map[string]any // operator -> key -> value
	Wildcard   string         // why Resources is "*"; empty where it is not
}

// attach makes a managed policy of the statements and gives it to the role. A managed
// policy rather than an inline one: its limit of 6,144 characters is its own.
func attach(scope constructs.Construct, id, description string, role awsiam.IRole, statements []Statement) awsiam.ManagedPolicy {
	p := awsiam.NewManagedPolicy(scope, jsii.String(id), &awsiam.ManagedPolicyProps{
		Description: jsii.String(description),
		Roles:       &[]awsiam.IRole{role},
	})
	wildcards := map[string]any{}
	for _, s := range statements {
		props := &awsiam.PolicyStatementProps{
			Sid: jsii.String(s.Sid), Actions: jsii.Strings(s.Actions...), Resources: jsii.Strings(s.Resources...),
		}
		if len(s.Conditions) > 0 {
			props.Conditions = &s.Conditions
		}
		p.AddStatements(awsiam.NewPolicyStatement(props))
		if s.Wildcard != "" {
			wildcards[s.Sid] = s.Wildcard
		}
	}
	if len(wildcards) > 0 {
		p.Node().DefaultChild().(awsiam.CfnManagedPolicy).AddMetadata(jsii.String(metadataWildcards), wildcards)
	}
	return p
}
