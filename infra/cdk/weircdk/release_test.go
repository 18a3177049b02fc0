package weircdk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	r := tp.get(t, "Release")
	p := r.Properties
	if r.Type != "Custom::WeirRelease" || show(p["ServiceToken"]) != "${ReleaseInstaller.Arn}" || p["ServiceTimeout"] != "2700" {
		t.Errorf("release is a %s of %s, answered within %v s", r.Type, show(p["ServiceToken"]), p["ServiceTimeout"])
	}
	// What lambda/deploy reads; it refuses what it does not know.
	known := []string{"clusterName", "endpoint", "certificateAuthority", "namespace", "values", "image", "imageRepository", "chartVersion", "revision", "wait", "region"}
	for name, v := range p {
		if name != "ServiceToken" && name != "ServiceTimeout" && !slices.Contains(known, name) {
			t.Errorf("property %s (%s) is unknown to the installer", name, show(v))
		}
	}
	got := map[string]string{}
	for _, name := range []string{"clusterName", "endpoint", "certificateAuthority", "namespace", "image"} {
		got[name] = show(p[name])
	}
	want := map[string]string{"clusterName": "demo", "endpoint": "https://api.example", "certificateAuthority": authority, "namespace": "weir-system", "image": "-"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties (-expected +is):\n%s", diff)
	}
	if repo := show(p["imageRepository"]); !strings.HasSuffix(repo, "/${ReleaseRepository}") || !strings.Contains(repo, ".dkr.ecr.") {
		t.Errorf("images are pushed to %s", repo)
	}
	if rev := show(p["revision"]); !fingerprint.MatchString(rev) {
		t.Errorf("revision is %q, expected the fingerprint of the installer's folder", rev)
	}
}

func TestChartValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"required": {func(*Config) {}, `{"config": {"account": "${AWS::AccountId}", "region": "${AWS::Region}"},
			"interruption": {"enabled": true, "group": "weir:interruption"}, "karpenterLease": {"namespace": "kube-system"},
			"ledger": "dynamodb", "ledgerTable": "${LedgerTable}", "serviceAccount": {"name": "weir"}}`},
		"without a ledger": {func(c *Config) { c.Ledger = LedgerNone }, `{"config": {"account": "${AWS::AccountId}", "region": "${AWS::Region}"},
			"interruption": {"enabled": true, "group": "weir:interruption"}, "karpenterLease": {"namespace": "kube-system"},
			"ledger": "bolt", "serviceAccount": {"name": "weir"}}`},
		"everything": {func(c *Config) { everything(c); c.KarpenterNamespace, c.ServiceAccount = "karpenter", "scaler" },
			`{"config": {"account": "${AWS::AccountId}", "region": "${AWS::Region}", "interruption": {"queue": "karpenter"}},
			"interruption": {"enabled": true, "group": "weir:interruption"}, "karpenterLease": {"namespace": "karpenter"},
			"ledger": "dynamodb", "ledgerTable": "shared-ledger",
			"serviceAccount": {"name": "scaler", "annotations": {"eks.amazonaws.com/role-arn": "${ScalerRole.Arn}"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := synth(t, tc.change)
			given := show(tp.get(t, "Release").Properties["values"])
			var got, want any
			if err := json.Unmarshal([]byte(given), &got); err != nil {
				t.Fatalf("values %s: %v", given, err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("values (-expected +is):\n%s", diff)
			}
			if output := show(tp.Outputs["ChartValues"].(map[string]any)["Value"]); output != given {
				t.Errorf("output ChartValues is %s, the release has %s", output, given)
			}
		})
	}
}

// The chart refuses values that it does not know, and so does its configuration.
func TestChartKnowsTheValues(t *testing.T) {
	t.Parallel()
	file := func(path string) []byte {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var schema map[string]any
	if err := json.Unmarshal(file("infra/chart/values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	configuration := string(file("docs/reference/configuration.md"))
	var walk func(path string, value, schema any)
	walk = func(path string, value, schema any) {
		fields, ok := value.(map[string]any)
		if !ok {
			if field, of := strings.CutPrefix(path, "config."); of && !strings.Contains(configuration, "| `"+field+"` |") {
				t.Errorf("%s is no field of the configuration", path)
			}
			return
		}
		s, _ := schema.(map[string]any)
		properties, _ := s["properties"].(map[string]any)
		for name, v := range fields {
			sub, known := properties[name]
			if !known && s["additionalProperties"] == false || known && sub == false {
				t.Errorf("%s is refused by the schema of the chart", strings.TrimPrefix(path+"."+name, "."))
			}
			walk(strings.TrimPrefix(path+"."+name, "."), v, sub)
		}
	}
	for _, change := range []func(*Config){func(*Config) {}, everything} {
		var values any
		if err := json.Unmarshal([]byte(show(synth(t, change).get(t, "Release").Properties["values"])), &values); err != nil {
			t.Fatal(err)
		}
		walk("", values, schema)
	}
}

// What a release needs is there before it begins, and still there when it is removed.
func TestReleaseComesLastAndGoesFirst(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	var needs []string
	for _, id := range tp.get(t, "Release").DependsOn {
		needs = append(needs, bare(id))
	}
	for _, id := range []string{
		"LedgerTable", "ScalerRole", "ScalerRoleAssociation", "ScalerRoleLaunchPolicy", "ScalerRoleProfilePolicy", "ScalerRoleDiscoveryPolicy", "ScalerRoleLedgerPolicy",
		"NodeRole", "NodeRoleAccessEntry", "InterruptionAccessEntry", "ReleaseAccessEntry", "ReleasePolicy", "ReleasePushPolicy", "ReleaseRepository",
	} {
		if !slices.Contains(needs, id) {
			t.Errorf("the release does not wait for %s: %v", id, needs)
		}
	}
	for id, r := range tp.Resources {
		for _, d := range r.DependsOn {
			if bare(d) == "Release" {
				t.Errorf("%s waits for the release", id)
			}
		}
	}
}

func TestInstaller(t *testing.T) {
	t.Parallel()
	tp := standard(t)
	p := tp.get(t, "ReleaseInstaller").Properties
	equal(t, "installer", map[string]any{"runtime": p["Runtime"], "architectures": p["Architectures"], "memory": p["MemorySize"], "handler": p["Handler"], "timeout": p["Timeout"],
		"reserved": p["ReservedConcurrentExecutions"], "vpc": p["VpcConfig"], "environment": p["Environment"]},
		map[string]any{"runtime": "provided.al2023", "architectures": []any{"arm64"}, "memory": 1024, "handler": "bootstrap", "timeout": 900,
			"reserved": 1, "vpc": nil, "environment": nil})
	if _, ok := tp.Resources["ReleaseInstallerEventInvokeConfig"]; ok {
		t.Error("a run that was killed is not repeated: there is a configuration of invocations")
	}
	entry := tp.get(t, "ReleaseAccessEntry").Properties
	if got, want := show(entry), "AccessPolicies=AccessScope=Type=cluster; PolicyArn=arn:${AWS::Partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy; ClusterName=demo; PrincipalArn=${ReleaseRole.Arn}; Type=STANDARD"; got != want {
		t.Errorf("access entry is\n%s, expected\n%s", got, want)
	}
	repo := tp.get(t, "ReleaseRepository")
	if repo.DeletionPolicy != "Delete" || repo.Properties["EmptyOnDelete"] != true || repo.Properties["ImageTagMutability"] != "IMMUTABLE" {
		t.Errorf("repository: deletion %s, %s", repo.DeletionPolicy, show(repo.Properties))
	}
}

func TestAnExistingImageIsNotPushed(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Image = "registry.example/weir@sha256:" + strings.Repeat("a", 64) })
	p := tp.get(t, "Release").Properties
	if p["imageRepository"] != nil || show(p["image"]) != "registry.example/weir@sha256:"+strings.Repeat("a", 64) {
		t.Errorf("image %s, repository %s", show(p["image"]), show(p["imageRepository"]))
	}
	if n := len(tp.ofType("AWS::ECR::Repository")); n != 0 {
		t.Errorf("%d repositories", n)
	}
	for _, s := range statements(tp) {
		if strings.Contains(show(s.data["Action"]), "ecr:") {
			t.Errorf("rights on a registry: %s", s)
		}
	}
}

// Who installs the charts otherwise gets everything else, and the values to use.
func TestWithoutCharts(t *testing.T) {
	t.Parallel()
	tp := synth(t, func(c *Config) { c.Chart, c.DeployDir = ChartNone, "nowhere" })
	for id, r := range tp.Resources {
		if strings.HasPrefix(id, "Release") || strings.HasPrefix(r.Type, "Custom::") {
			t.Errorf("%s (%s) is made", id, r.Type)
		}
	}
	if got := show(tp.Outputs["ChartValues"].(map[string]any)["Value"]); !strings.Contains(got, `"ledgerTable":"${LedgerTable}"`) {
		t.Errorf("output ChartValues is %s", got)
	}
}
