package weircdk

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func TestAlarms(t *testing.T) {
	t.Parallel()
	for name, topic := range map[string]string{"nobody is told": "", "a topic is told": "arn:aws:sns:us-east-1:123456789012:operators"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := synth(t, func(c *Config) { c.AlarmTopic = topic })
			alarms := tp.ofType("AWS::CloudWatch::Alarm")
			for id, want := range map[string]string{
				"AlarmsDeadLetters":        "AWS/SQS ApproximateNumberOfMessagesVisible Maximum of QueueName=${InterruptionDeadLetters.QueueName} above 0 for 1",
				"AlarmsDrainQueueAge":      "AWS/SQS ApproximateAgeOfOldestMessage Maximum of QueueName=${InterruptionDrainQueue.QueueName} above 360 for 3",
				"AlarmsResponderErrors":    "AWS/Lambda Errors Sum of FunctionName=${InterruptionResponder} above 0 for 1",
				"AlarmsResponderThrottles": "AWS/Lambda Throttles Sum of FunctionName=${InterruptionResponder} above 0 for 1",
				"AlarmsDrainerErrors":      "AWS/Lambda Errors Sum of FunctionName=${InterruptionDrainer} above 0 for 1",
			} {
				p := tp.get(t, id).Properties
				dimension := p["Dimensions"].([]any)[0].(map[string]any)
				got := show(p["Namespace"]) + " " + show(p["MetricName"]) + " " + show(p["Statistic"]) + " of " + show(dimension["Name"]) + "=" + show(dimension["Value"]) +
					" above " + show(p["Threshold"]) + " for " + show(p["EvaluationPeriods"])
				if got != want || p["ComparisonOperator"] != "GreaterThanThreshold" || p["Period"] != 60.0 || p["TreatMissingData"] != "notBreaching" {
					t.Errorf("%s is %s\n%s", id, got, show(p))
				}
				told := "-"
				if topic != "" {
					told = topic
				}
				if show(p["AlarmActions"]) != told || show(p["OKActions"]) != told {
					t.Errorf("%s tells %s, and %s when it is over; expected %s", id, show(p["AlarmActions"]), show(p["OKActions"]), told)
				}
				delete(alarms, id)
			}
			if len(alarms) > 0 {
				t.Errorf("alarms that nobody checks: %v", alarms)
			}
		})
	}
}

func TestPrivateEndpoint(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) {
		c.Subnets, c.VPC, c.ClusterSecurityGroup = []string{"subnet-0aaaaaa1", "subnet-0aaaaaa2"}, "vpc-0aaaaaa1", "sg-0aaaaaa1"
	})
	for id, policy := range map[string]string{"InterruptionResponder": "InterruptionNetworkPolicy", "InterruptionDrainer": "InterruptionNetworkPolicy", "ReleaseInstaller": "ReleaseNetworkPolicy"} {
		f := tp.get(t, id)
		if got := show(f.Properties["VpcConfig"]); got != "SecurityGroupIds=${NetworkSecurityGroup.GroupId}; SubnetIds=subnet-0aaaaaa1, subnet-0aaaaaa2" {
			t.Errorf("%s is in %s", id, got)
		}
		if !slices.ContainsFunc(f.DependsOn, func(s string) bool { return bare(s) == policy }) {
			t.Errorf("%s does not wait for %s, without which Lambda refuses it: %v", id, policy, f.DependsOn)
		}
	}
	group := tp.get(t, "NetworkSecurityGroup").Properties
	if group["SecurityGroupIngress"] != nil || group["VpcId"] != "vpc-0aaaaaa1" {
		t.Errorf("security group: %s", show(group))
	}
	var out []string
	for _, e := range group["SecurityGroupEgress"].([]any) {
		out = append(out, show(e))
	}
	equal(t, "egress", out, []string{
		"CidrIp=0.0.0.0/0; Description=API server and AWS; FromPort=443; IpProtocol=tcp; ToPort=443",
		"CidrIpv6=::/0; Description=API server and AWS; FromPort=443; IpProtocol=tcp; ToPort=443",
	})
	in := tp.get(t, "NetworkClusterIngress").Properties
	if got := show(in); got != "Description=Weir functions; FromPort=443; GroupId=sg-0aaaaaa1; IpProtocol=tcp; SourceSecurityGroupId=${NetworkSecurityGroup.GroupId}; ToPort=443" {
		t.Errorf("the cluster lets in %s", got)
	}
}

func TestGivenSecurityGroupsAreUsed(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Subnets, c.SecurityGroups = []string{"subnet-0aaaaaa1"}, []string{"sg-0aaaaaa1"} })
	if got := show(tp.get(t, "InterruptionDrainer").Properties["VpcConfig"]); got != "SecurityGroupIds=sg-0aaaaaa1; SubnetIds=subnet-0aaaaaa1" {
		t.Errorf("the drainer is in %s", got)
	}
	for id, r := range tp.Resources {
		if strings.HasPrefix(r.Type, "AWS::EC2::") {
			t.Errorf("%s is made", id)
		}
	}
}

// Two clusters on one table: the second stack makes none, and its roles have rights on
// the first one's alone.
func TestExistingTableIsShared(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Table = "Weir-first-LedgerTable" })
	if n := len(tp.ofType("AWS::DynamoDB::Table")) + len(tp.ofType("AWS::DynamoDB::GlobalTable")); n != 0 {
		t.Errorf("%d tables are made", n)
	}
	const arn = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/Weir-first-LedgerTable"
	rights := 0
	for _, s := range statements(tp) {
		if strings.Contains(show(s.data["Action"]), "dynamodb:") {
			rights++
			if got := show(s.data["Resource"]); got != arn && got != arn+"/index/instance" {
				t.Errorf("rights on %s", got)
			}
		}
	}
	if rights != 5 {
		t.Errorf("%d statements on tables, expected 5", rights)
	}
	if got := show(tp.get(t, "InterruptionDrainer").Properties["Environment"]); !strings.Contains(got, "WEIR_LEDGER_TABLE=Weir-first-LedgerTable") {
		t.Errorf("the drainer is told %s", got)
	}
}

func TestPermissionsBoundaryIsOnEveryRole(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"Boundary": "arn:${AWS::Partition}:iam::${AWS::AccountId}:policy/Boundary",
		"arn:aws:iam::123456789012:policy/x/Boundary": "arn:aws:iam::123456789012:policy/x/Boundary",
	} {
		tp := synth(t, func(c *Config) { everything(c); c.NodeRole, c.PermissionsBoundary = "", given })
		roles := tp.ofType("AWS::IAM::Role")
		if len(roles) != 5 {
			t.Errorf("%d roles, expected those of nodes, scaler, functions, installer and tags", len(roles))
		}
		for id, r := range roles {
			if got := show(r.Properties["PermissionsBoundary"]); got != want {
				t.Errorf("%s is bounded by %s, expected %s", id, got, want)
			}
		}
	}
}

func TestIRSA(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Issuer = "oidc.eks.us-east-1.amazonaws.com/id/ABC" })
	if n := len(tp.ofType("AWS::EKS::PodIdentityAssociation")); n != 0 {
		t.Errorf("%d associations beside IRSA", n)
	}
	trust := show(tp.get(t, "ScalerRole").Properties["AssumeRolePolicyDocument"])
	for _, want := range []string{
		"Action=sts:AssumeRoleWithWebIdentity", "Federated=arn:${AWS::Partition}:iam::${AWS::AccountId}:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/ABC",
		"oidc.eks.us-east-1.amazonaws.com/id/ABC:aud=sts.amazonaws.com", "oidc.eks.us-east-1.amazonaws.com/id/ABC:sub=system:serviceaccount:weir-system:weir",
	} {
		if !strings.Contains(trust, want) {
			t.Errorf("trust does not have %s: %s", want, trust)
		}
	}
}

func TestNodeRoleWithAPath(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.NodeRole = "teams/blue/Nodes" })
	for _, s := range statements(tp) {
		if s.data["Sid"] == "AllowNodeRole" && show(s.data["Resource"]) != "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/teams/blue/Nodes" {
			t.Errorf("the scaler may pass %s", show(s.data["Resource"]))
		}
	}
	if got := show(tp.Outputs["NodeRoleName"].(map[string]any)["Value"]); got != "Nodes" {
		t.Errorf("node classes are to name %q, expected the role without its path", got)
	}
}

func TestDiscoveryTags(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) {
		c.DiscoverySubnets, c.DiscoverySecurityGroups = []string{"subnet-0aaaaaa1", "subnet-0aaaaaa2"}, []string{"sg-0aaaaaa1"}
	})
	p := tp.get(t, "DiscoveryTags").Properties
	const call = `{"action":"CreateTags","parameters":{"Resources":["subnet-0aaaaaa1","subnet-0aaaaaa2","sg-0aaaaaa1"],"Tags":[{"Key":"karpenter.sh/discovery","Value":"demo"}]},"physicalResourceId":{"id":"discovery-tags@demo"},"service":"ec2"}`
	if p["Create"] != call || p["Update"] != call || p["Delete"] != nil {
		t.Errorf("calls: create %v\nupdate %v\ndelete %v; expected %s, and none at the end", p["Create"], p["Update"], p["Delete"], call)
	}
	if _, told := tp.Outputs["ToTag"]; told {
		t.Error("the stack asks for tags that it sets")
	}
	if got := show(standard(t).Outputs["ToTag"].(map[string]any)["Value"]); !strings.Contains(got, "aws ec2 create-tags --tags Key=karpenter.sh/discovery,Value=demo") {
		t.Errorf("without ids the stack says %q", got)
	}
}

func TestReservedConcurrency(t *testing.T) {
	t.Parallel()
	none := synth(t, func(c *Config) { c.ReservedConcurrency = 0 })
	for id, want := range map[string]string{"InterruptionDrainer": "10", "ReleaseInstaller": "1"} { // two installers at once would fight
		if got := show(standard(t).get(t, id).Properties["ReservedConcurrentExecutions"]); got != want {
			t.Errorf("%s has %s runs of its own, expected %s", id, got, want)
		}
		if got := none.get(t, id).Properties["ReservedConcurrentExecutions"]; got != nil { // 0 would stop it
			t.Errorf("%s has %v runs of its own", id, got)
		}
	}
}

// Each part stands in a stack of somebody else's, too.
func TestPartsStandAlone(t *testing.T) {
	synthMu.Lock()
	defer synthMu.Unlock()
	cfg := config(t)
	for name, tc := range map[string]struct {
		make func(awscdk.Stack)
		want string // a type that the part makes
	}{
		"table": {func(s awscdk.Stack) { NewLedgerTable(s, "X", "", nil) }, "AWS::DynamoDB::Table"},
		"nodes": {func(s awscdk.Stack) { NewNodeRole(s, "X", "demo", "") }, "AWS::EKS::AccessEntry"},
		"network": {func(s awscdk.Stack) {
			NewNetwork(s, "X", NetworkProps{Subnets: []string{"subnet-0aaaaaa1"}, VPC: "vpc-0aaaaaa1"})
		}, "AWS::EC2::SecurityGroup"},
		"tags": {func(s awscdk.Stack) { NewDiscoveryTags(s, "X", "demo", []string{"subnet-0aaaaaa1"}, nil, nil) }, "Custom::WeirDiscoveryTags"},
		"scaler": {func(s awscdk.Stack) {
			NewScalerRole(s, "X", ScalerRoleProps{ClusterName: "demo", Namespace: "n", ServiceAccount: "s", NodeRoleArn: "arn:aws:iam::123456789012:role/x", Ledger: NewLedgerTable(s, "L", "t", nil)})
		}, "AWS::EKS::PodIdentityAssociation"},
		"interruption": {func(s awscdk.Stack) {
			i := NewInterruption(s, "X", InterruptionProps{ClusterName: "demo", Endpoint: "https://x", CertificateAuthority: authority, LambdaDir: cfg.LambdaDir, Ledger: NewLedgerTable(s, "L", "t", nil)})
			NewAlarms(s, "A", i, "")
		}, "AWS::CloudWatch::Alarm"},
		"release": {func(s awscdk.Stack) {
			NewRelease(s, "X", ReleaseProps{ClusterName: "demo", Endpoint: "https://x", CertificateAuthority: authority, Namespace: "n", DeployDir: cfg.DeployDir, Values: map[string]any{"ledger": "bolt"}})
		}, "Custom::WeirRelease"},
	} {
		app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
		stack := awscdk.NewStack(app, jsii.String("Other"), nil)
		tc.make(stack)
		tp := read(t, stack)
		if len(tp.ofType(tc.want)) == 0 {
			t.Errorf("%s makes no %s: %v", name, tc.want, tp.Resources)
		}
	}
}
