package userdata_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// input is a claim of one family whose class has the given kubelet settings, as JSON.
func input(t testing.TB, family, kubelet string) userdata.Input {
	t.Helper()
	in := userdata.Input{
		Family: family,
		Cluster: userdata.Cluster{Name: "prod", Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16",
			DNS: "10.100.0.10"},
		Labels: map[string]string{
			"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "team": "a", "acme.io/rack": "r7",
			"kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "eu-west-1a", "node-restriction.kubernetes.io/x": "y", "x.k8s.io/y": "z",
		},
		Taints:  []model.Taint{{Key: "dedicated", Effect: model.NoSchedule}, {Key: "team", Value: "a", Effect: model.NoExecute}},
		MaxPods: 58,
	}
	if kubelet != "" {
		var class awsv1.EC2NodeClass
		text := `{"spec":{"amiFamily":"` + family + `","kubelet":` + kubelet + `}}`
		if err := json.Unmarshal([]byte(text), &class); err != nil {
			t.Fatal(err)
		}
		config, errs := class.Spec.KubeletConfig()
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		in.Kubelet, in.KubeletRaw = config, class.Spec.Kubelet.Raw
	}
	return in
}

func render(t testing.TB, in userdata.Input) userdata.Output {
	t.Helper()
	out, err := userdata.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const everySetting = `{"maxPods":20,"podsPerCore":5,"kubeReserved":{"cpu":"100m","memory":"300Mi"},"systemReserved":{"memory":"100Mi"},
	"evictionHard":{"memory.available":"5%","nodefs.available":"10%"},"evictionSoft":{"memory.available":"10%"},"evictionSoftGracePeriod":{"memory.available":"1m0s"},
	"evictionMaxPodGracePeriod":30,"imageGCHighThresholdPercent":80,"imageGCLowThresholdPercent":70,"cpuCFSQuota":false,"clusterDNS":["10.0.0.2"]}`

func TestGolden(t *testing.T) {
	t.Parallel()
	withoutPodsPerCore := strings.Replace(everySetting, `"podsPerCore":5,`, "", 1)
	for name, in := range map[string]userdata.Input{
		"al2023":               input(t, awsv1.FamilyAL2023, ""),
		"al2023-kubelet":       input(t, awsv1.FamilyAL2023, everySetting),
		"al2023-script":        with(input(t, awsv1.FamilyAL2023, ""), "#!/bin/bash\necho hello\n"),
		"al2023-raid":          raid(input(t, awsv1.FamilyAL2023, ""), ""),
		"al2":                  input(t, awsv1.FamilyAL2, ""),
		"al2-kubelet":          input(t, awsv1.FamilyAL2, everySetting),
		"al2-ipv6-raid":        raid(ipv6(input(t, awsv1.FamilyAL2, "")), ""),
		"bottlerocket":         input(t, awsv1.FamilyBottlerocket, ""),
		"bottlerocket-kubelet": input(t, awsv1.FamilyBottlerocket, withoutPodsPerCore),
		"bottlerocket-user":    with(input(t, awsv1.FamilyBottlerocket, ""), "[settings.kubernetes.node-labels]\n\"acme.io/rack\" = \"user\"\n\"acme.io/row\" = \"3\"\n[settings.ntp]\ntime-servers = [\"a\"]\n"),
		"bottlerocket-raid":    raid(input(t, awsv1.FamilyBottlerocket, ""), "1.47.0"),
		"bottlerocket-raid-45": raid(input(t, awsv1.FamilyBottlerocket, ""), "v1.45.1"),
		"windows2022":          with(input(t, awsv1.FamilyWindows2022, everySetting), "Write-Host 'hello'\n"),
		// The user's documents come first, each as it was.
		"al2-user-mime":    with(input(t, awsv1.FamilyAL2, ""), archiveOfUser),
		"al2023-user-mime": with(input(t, awsv1.FamilyAL2023, ""), archiveOfUser),
		"al2023-user-node-config": with(input(t, awsv1.FamilyAL2023, ""),
			"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: |\n      [plugins.\"io.containerd.grpc.v1.cri\".registry]\n      config_path = \"/etc/containerd/certs.d\"\n  kubelet:\n    config:\n      registryPullQPS: 100\n"),
		// nodeadm takes whatever kubelets know.
		"al2023-kubelet-others": input(t, awsv1.FamilyAL2023, `{"maxPods":58,"registryPullQPS":100,"serializeImagePulls":false,"topologyManagerPolicy":"single-numa-node","cpuManagerPolicy":"static",
			"featureGates":{"X":true},"containerLogMaxSize":"50Mi","evictionMinimumReclaim":{"memory.available":"50Mi"},"shutdownGracePeriod":"30s","allowedUnsafeSysctls":["net.*"]}`),
		"al2023-ipv6": ipv6(input(t, awsv1.FamilyAL2023, "")),
		// What is not ours stays: registries, host containers, bootstrap containers, a kubelet's other settings.
		"bottlerocket-registries": with(input(t, awsv1.FamilyBottlerocket, ""), registriesOfUser),
		"bottlerocket-raid-user": with(raid(input(t, awsv1.FamilyBottlerocket, ""), "latest"),
			"[settings.bootstrap-commands.010-mine]\ncommands = [[\"apiclient\", \"set\", \"motd=hi\"]]\nmode = \"always\"\nessential = false\n"),
		"windows2019":  input(t, awsv1.FamilyWindows2019, ""),
		"windows2025":  with(input(t, awsv1.FamilyWindows2025, ""), "Write-Host \"it's\"\n"),
		"custom-empty": input(t, awsv1.FamilyCustom, ""),
		"custom":       with(input(t, awsv1.FamilyCustom, ""), "anything at all"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := render(t, in)
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, got.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got.Text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := render(t, in); string(again.Text) != string(got.Text) {
				t.Error("the same input gave another text")
			}
		})
	}
}

const archiveOfUser = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\n\n--BOUNDARY\nContent-Type: text/cloud-config\n\n#cloud-config\npackages: [x]\n" +
	"--BOUNDARY\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/sh\necho hello\n--BOUNDARY--\n"

const registriesOfUser = `[settings.container-registry]
[[settings.container-registry.mirrors]]
registry = "*"
endpoint = ["https://mirror.acme.io"]
[[settings.container-registry.credentials]]
registry = "docker.io"
auth = "dXNlcjpwYXNz"
[settings.host-containers.admin]
enabled = true
[settings.bootstrap-containers.setup]
source = "acme.io/setup:1"
mode = "once"
[settings.kubernetes]
registry-qps = 20
allowed-unsafe-sysctls = ["net.*"]
max-pods = 4
cluster-name = "other"
[settings.kubernetes.node-taints]
mine = ["yes:NoSchedule"]
`

func with(in userdata.Input, user string) userdata.Input { in.User = user; return in }

func raid(in userdata.Input, image string) userdata.Input {
	in.RAID0, in.ImageVersion = true, image
	return in
}

func ipv6(in userdata.Input) userdata.Input { in.Cluster.DNS = "fd00::a"; return in }

// documents takes a MIME archive apart the way cloud-init does.
func documents(t testing.TB, text []byte) (kinds, bodies []string) {
	t.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_, boundary, _ := strings.Cut(msg.Header.Get("Content-Type"), `boundary="`)
	for r := multipart.NewReader(msg.Body, strings.TrimSuffix(boundary, `"`)); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return kinds, bodies
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		kinds, bodies = append(kinds, p.Header.Get("Content-Type")), append(bodies, string(body))
	}
}

// Case B089: nodeadm merges top to bottom, so that the generated document comes last and node and plan agree.
func TestGeneratedNodeConfigComesLast(t *testing.T) {
	t.Parallel()
	in := with(input(t, awsv1.FamilyAL2023, `{"maxPods":20}`),
		"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 42\n      registryPullQPS: 100\n")
	in.MaxPods = 20
	out := render(t, in)
	kinds, bodies := documents(t, out.Text)
	if diff := cmp.Diff([]string{"application/node.eks.aws", "application/node.eks.aws"}, kinds); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for i, want := range []string{"maxPods: 42", "maxPods: 20"} {
		if !strings.Contains(bodies[i], want) {
			t.Errorf("document %d lacks %s:\n%s", i, want, bodies[i])
		}
	}
	if !strings.Contains(bodies[0], "registryPullQPS: 100") {
		t.Error("the user's other settings are lost")
	}
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "maxPods") || !strings.Contains(out.Warnings[0], "42") {
		t.Errorf("warnings %q, want one about maxPods 42", out.Warnings)
	}
	same := with(in, strings.Replace(in.User, "42", "20", 1))
	if w := render(t, same).Warnings; len(w) > 0 {
		t.Errorf("warnings %q though nothing is overridden", w)
	}
}

func TestMIMEOfTheUserStaysAsItIs(t *testing.T) {
	t.Parallel()
	user := "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\r\n\r\n--BOUNDARY\r\nContent-Type: text/cloud-config\r\n\r\n#cloud-config\r\npackages: [x]\r\n" +
		"--BOUNDARY\r\nContent-Type: text/x-shellscript\r\n\r\n#!/bin/sh\r\necho --//\r\n--//\r\n--BOUNDARY--\r\n"
	for _, family := range []string{awsv1.FamilyAL2023, awsv1.FamilyAL2} {
		out := render(t, with(input(t, family, ""), user))
		kinds, bodies := documents(t, out.Text)
		if len(kinds) != 3 || kinds[0] != "text/cloud-config" || kinds[1] != "text/x-shellscript" {
			t.Fatalf("%s: documents %q", family, kinds)
		}
		if strings.TrimSpace(bodies[0]) != "#cloud-config\npackages: [x]" || strings.TrimSpace(bodies[1]) != "#!/bin/sh\necho --//\n--//" {
			t.Errorf("%s: bodies %q", family, bodies[:2])
		}
		if strings.Contains(string(out.Text), "\r") {
			t.Errorf("%s: carriage returns are kept", family)
		}
	}
}

// A cloud-config is YAML too and must not be taken for a NodeConfig.
func TestCloudConfigIsOne(t *testing.T) {
	t.Parallel()
	kinds, _ := documents(t, render(t, with(input(t, awsv1.FamilyAL2023, ""), "#cloud-config\npackages: [x]\n")).Text)
	if kinds[0] != `text/cloud-config; charset="us-ascii"` {
		t.Errorf("kinds %q", kinds)
	}
}

// Case B088: labels are merged, and a taint without value keeps its colon.
func TestBottlerocketMergesLabelsAndWritesTaintsInFull(t *testing.T) {
	t.Parallel()
	in := with(input(t, awsv1.FamilyBottlerocket, ""), "[settings.kubernetes.node-labels]\n\"acme.io/row\" = \"r7\"\nteam = \"user\"\n")
	var doc struct {
		Settings struct {
			Kubernetes struct {
				Labels map[string]string   `toml:"node-labels"`
				Taints map[string][]string `toml:"node-taints"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	if err := toml.Unmarshal(render(t, in).Text, &doc); err != nil {
		t.Fatal(err)
	}
	k := doc.Settings.Kubernetes
	if k.Labels["acme.io/row"] != "r7" || k.Labels["team"] != "a" || k.Labels["karpenter.sh/nodepool"] != "default" {
		t.Errorf("labels %v", k.Labels)
	}
	want := map[string][]string{"dedicated": {":NoSchedule"}, "team": {"a:NoExecute"}, "karpenter.sh/unregistered": {":NoExecute"}}
	if diff := cmp.Diff(want, k.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// Admission refuses kubelets that set labels of these domains: the node would never join.
func TestKubeletsSetNoLabelsTheyMayNotSet(t *testing.T) {
	t.Parallel()
	for _, family := range []string{awsv1.FamilyAL2023, awsv1.FamilyAL2, awsv1.FamilyBottlerocket, awsv1.FamilyWindows2022} {
		text := string(render(t, input(t, family, "")).Text)
		for _, label := range []string{"topology.kubernetes.io/zone", "kubernetes.io/arch", "node-restriction.kubernetes.io/x", "x.k8s.io/y"} {
			if strings.Contains(text, label) {
				t.Errorf("%s sets %s", family, label)
			}
		}
		for _, label := range []string{"karpenter.sh/do-not-sync-taints", "acme.io/rack", "karpenter.sh/unregistered"} {
			if !strings.Contains(text, label) {
				t.Errorf("%s lacks %s", family, label)
			}
		}
	}
}

func TestWhatIsNotOfItsFamilyIsRefused(t *testing.T) {
	t.Parallel()
	missing := func(f func(*userdata.Cluster)) userdata.Input {
		in := input(t, awsv1.FamilyAL2023, "")
		f(&in.Cluster)
		return in
	}
	for name, tc := range map[string]struct {
		in   userdata.Input
		want string
	}{
		"a script for Bottlerocket":         {with(input(t, awsv1.FamilyBottlerocket, ""), "#!/bin/bash\necho x\n"), "not TOML"},
		"a number where a table is due":     {with(input(t, awsv1.FamilyBottlerocket, ""), "settings = 3\n"), "settings is int64, expected a table"},
		"powershell tags":                   {with(input(t, awsv1.FamilyWindows2022, ""), "<PowerShell>\nx\n</powershell>"), "<powershell>"},
		"another object than a NodeConfig":  {with(input(t, awsv1.FamilyAL2023, ""), "apiVersion: v1\nkind: Pod\n"), "expected a NodeConfig"},
		"an archive without boundary":       {with(input(t, awsv1.FamilyAL2023, ""), "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"), "boundary"},
		"an archive that is cut":            {with(input(t, awsv1.FamilyAL2, ""), "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: text/x-shellscript\n\necho x"), "document 1"},
		"a document in base64":              {with(input(t, awsv1.FamilyAL2, ""), "Content-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Transfer-Encoding: base64\n\neA==\n--B--\n"), "base64"},
		"more than EC2 takes":               {with(input(t, awsv1.FamilyAL2023, ""), "#!/bin/sh\n"+strings.Repeat("x", userdata.Limit)), "at most 16384"},
		"no service CIDR":                   {missing(func(c *userdata.Cluster) { c.ServiceCIDR = "" }), "service CIDR"},
		"no endpoint":                       {missing(func(c *userdata.Cluster) { c.Endpoint = "" }), "cluster endpoint"},
		"a family that is none":             {input(t, "Ubuntu", ""), `unknown family "Ubuntu"`},
		"RAID0 on an image that is too old": {raid(input(t, awsv1.FamilyBottlerocket, ""), "1.21.9"), "1.22.0"},
		"DNS that is no address":            {input(t, awsv1.FamilyAL2, `{"clusterDNS":["x"]}`), "clusterDNS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := userdata.Render(tc.in)
			var e *userdata.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// What of the user's settings does not hold is said: those that the planner counts on, and taints, which the pool owns.
func TestBottlerocketSaysWhatDoesNotHold(t *testing.T) {
	t.Parallel()
	got := render(t, with(input(t, awsv1.FamilyBottlerocket, ""), registriesOfUser)).Warnings
	want := []string{
		"spec.userData: settings.kubernetes.cluster-name is other, nodes run with prod",
		"spec.userData: settings.kubernetes.max-pods is 4, nodes run with 58",
		"spec.userData: settings.kubernetes.node-taints is replaced by the taints of the NodePool",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNearTheLimitIsSaid(t *testing.T) {
	t.Parallel()
	out := render(t, with(input(t, awsv1.FamilyAL2023, ""), "#!/bin/sh\n"+strings.Repeat("x", userdata.Near-500)))
	if !slices.ContainsFunc(out.Warnings, func(w string) bool { return strings.Contains(w, "16384") }) {
		t.Errorf("%d bytes, warnings %q", len(out.Text), out.Warnings)
	}
}

// A shell reads back what was quoted, whatever is in it.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"", "#!/bin/sh\n", "a: b", "MIME-Version: 1.0\n\n", "Content-Type: multipart/mixed; boundary=x\n\n--x--", "[settings]\n", "settings.kubernetes = 1", "--//\n--//--\n"} {
		f.Add(s)
	}
	families := []string{awsv1.FamilyAL2023, awsv1.FamilyAL2, awsv1.FamilyBottlerocket, awsv1.FamilyWindows2019, awsv1.FamilyCustom}
	f.Fuzz(func(t *testing.T, user string) {
		for _, family := range families {
			in := with(input(t, family, ""), user)
			out, err := userdata.Render(in)
			if err != nil {
				var e *userdata.Error
				if !errors.As(err, &e) {
					t.Fatalf("%s: an error without field: %v", family, err)
				}
				continue
			}
			if len(out.Text) > userdata.Limit {
				t.Fatalf("%s: %d bytes", family, len(out.Text))
			}
			switch family {
			case awsv1.FamilyAL2023:
				_, bodies := documents(t, out.Text)
				var doc map[string]any
				if err := yaml.Unmarshal([]byte(bodies[len(bodies)-1]), &doc); err != nil || doc["kind"] != "NodeConfig" {
					t.Fatalf("the last document is %q", bodies[len(bodies)-1])
				}
			case awsv1.FamilyBottlerocket:
				var doc map[string]any
				if err := toml.Unmarshal(out.Text, &doc); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Whatever archive a user sends, each of its documents comes through, in order and unchanged but for carriage returns and
// the newlines at its end.
func FuzzArchive(f *testing.F) {
	f.Add("#!/bin/sh\necho x\n", "#cloud-config\npackages: [x]\n", "BOUNDARY")
	f.Add("--//\n--//--\n", "", "x")
	f.Add("a\r\nb", "\n\n", "=_0")
	f.Add("Content-Type: text/plain\n\nx", "--BOUNDARY-", "BOUNDARY-")
	f.Fuzz(func(t *testing.T, a, b, boundary string) {
		var user strings.Builder
		w := multipart.NewWriter(&user)
		if w.SetBoundary(boundary) != nil || strings.Contains("\n"+a+"\n"+b, "--"+boundary) {
			t.Skip("a boundary that is none, or stands in a part")
		}
		user.WriteString("MIME-Version: 1.0\nContent-Type: " + mime.FormatMediaType("multipart/mixed", map[string]string{"boundary": boundary}) + "\n\n")
		for _, body := range []string{a, b} {
			p, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {"text/plain"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(p, body); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := userdata.Render(with(input(t, awsv1.FamilyAL2, ""), user.String()))
		if err != nil {
			var e *userdata.Error
			if !errors.As(err, &e) {
				t.Fatalf("an error without field: %v", err)
			}
			t.Skip("too long, or a boundary that headers cannot carry")
		}
		kinds, bodies := documents(t, out.Text)
		if len(kinds) != 3 {
			t.Fatalf("documents %q", kinds)
		}
		clean := func(s string) string { return strings.TrimRight(strings.ReplaceAll(s, "\r", ""), "\n") }
		for i, want := range []string{a, b} {
			if clean(bodies[i]) != clean(want) {
				t.Fatalf("document %d: %q, sent %q", i, bodies[i], want)
			}
		}
	})
}

// Whatever settings a user has, those that are not ours come through.
func FuzzSettings(f *testing.F) {
	f.Add(registriesOfUser)
	f.Add("[settings.kubernetes]\nmax-pods = 4\n")
	f.Add("a = 1979-05-27T07:32:00Z\nb = [1, 2.5, inf]\n")
	f.Add("[[a]]\nb = {c = 'd'}\n")
	f.Add("settings = []\n")
	f.Fuzz(func(t *testing.T, user string) {
		out, err := userdata.Render(with(input(t, awsv1.FamilyBottlerocket, ""), user))
		if err != nil {
			return // FuzzRender looks at errors
		}
		var before, after map[string]any
		if err := toml.Unmarshal([]byte(user), &before); err != nil {
			t.Fatalf("what is no TOML was taken: %v", err)
		}
		if err := toml.Unmarshal(out.Text, &after); err != nil {
			t.Fatal(err)
		}
		for k, v := range before {
			if k != "settings" && fmt.Sprint(v) != fmt.Sprint(after[k]) {
				t.Fatalf("%s: %v became %v", k, v, after[k])
			}
		}
		settings, _ := before["settings"].(map[string]any)
		now, _ := after["settings"].(map[string]any)
		for k, v := range settings {
			if k != "kubernetes" && fmt.Sprint(v) != fmt.Sprint(now[k]) {
				t.Fatalf("settings.%s: %v became %v", k, v, now[k])
			}
		}
	})
}
