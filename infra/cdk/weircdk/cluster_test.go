package weircdk

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

func TestNewCluster(t *testing.T) {
	t.Parallel()
	tp := synthStack(t, variants["cluster"])
	p := tp.get(t, "EKSCluster").Properties
	if p["Name"] != "demo" || p["Version"] != "1.34" {
		t.Errorf("cluster %v of version %v", p["Name"], p["Version"])
	}
	// Weir's functions and nodes come in by access entries.
	if got := show(p["AccessConfig"]); got != "AuthenticationMode=API; BootstrapClusterCreatorAdminPermissions=false" {
		t.Errorf("access: %s", got)
	}
	if got := show(tp.get(t, "EKSAdmin").Properties["PrincipalArn"]); got != "arn:aws:iam::123456789012:role/Admin" {
		t.Errorf("%s administers it", got)
	}
	var addons []string
	for _, r := range tp.ofType("AWS::EKS::Addon") {
		addons = append(addons, show(r.Properties["AddonName"]))
	}
	slices.Sort(addons)
	if got := strings.Join(addons, " "); got != "coredns eks-pod-identity-agent kube-proxy vpc-cni" {
		t.Errorf("add-ons: %s", got)
	}
	group := tp.get(t, "EKSSystem").Properties
	if got := show(group["ScalingConfig"]); got != "DesiredSize=2; MaxSize=2; MinSize=2" {
		t.Errorf("nodes that nothing scales: %s", got)
	}
	if got, tagged := show(group["Subnets"]), show(tp.get(t, "DiscoveryTags").Properties["Create"]); !strings.Contains(tagged, `"${EKSCluster.ClusterSecurityGroupId}"`) || !strings.Contains(tagged, `"`+strings.Split(got, ", ")[0]+`"`) {
		t.Errorf("nodes are in %s, tagged are %s", got, tagged)
	}
	for id, r := range tp.Resources {
		if strings.HasPrefix(r.Type, "AWS::EKS::") && id != "EKSCluster" && !slices.ContainsFunc(r.DependsOn, func(d string) bool { return bare(d) == "EKSCluster" }) {
			t.Errorf("%s does not wait for the cluster: %v", id, r.DependsOn)
		}
	}
}

// Weir's stack takes the facts of the cluster from the other one, and asks for no tags.
func TestWeirOnANewCluster(t *testing.T) {
	t.Parallel()
	tp := synthStack(t, func(app awscdk.App, c Config) awscdk.Stack { newCluster(&c); return NewStacks(app, c)[1] })
	for id, text := range map[string]string{
		"Release": show(tp.get(t, "Release").Properties), "InterruptionResponder": show(tp.get(t, "InterruptionResponder").Properties["Environment"]),
	} {
		for _, fact := range []string{"Endpoint", "CertificateAuthorityData"} {
			if !strings.Contains(text, "Fn::ImportValue=Weir-demo-Cluster:ExportsOutputFnGetAttEKSCluster") || !strings.Contains(text, fact) {
				t.Errorf("%s does not take %s from the cluster's stack: %s", id, fact, text)
			}
		}
	}
	if _, told := tp.Outputs["ToTag"]; told {
		t.Error("the stack asks for tags that the other one sets")
	}
}
