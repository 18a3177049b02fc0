package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

// operators are two service accounts: ann may look and swap, bob may only look.
const operators = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: ann}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: bob}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: eve}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: looks}
rules: [{nonResourceURLs: [/weir/strategies, /weir/strategies/*], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: swaps}
rules: [{nonResourceURLs: [/weir/strategies/*], verbs: [update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: looks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: looks}
subjects: [{kind: ServiceAccount, name: ann, namespace: default}, {kind: ServiceAccount, name: bob, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: swaps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: swaps}
subjects: [{kind: ServiceAccount, name: ann, namespace: default}]
`

// operated is a cluster with two scalers whose strategies are looked after by weir strategy.
type operated struct {
	*killed
	weir string // program
}

// TestOperatingStrategies runs two scalers and the operator's command against them: who
// may swaps a strategy, who may not is refused, a follower says who leads, and when the
// leader is killed the next one runs what was wanted.
func TestOperatingStrategies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace)) // its own: the scalers look after all of it
	c.InstallCRDs(t, crds.FS)
	bin := programs(t)
	url, ec2 := startEC2(t, bin, c, deadline)
	c.Apply(t, metav1.NamespaceDefault, operators)
	o := &operated{killed: &killed{ControlPlane: c, ec2: ec2, bin: bin}, weir: command(t)}

	// The programs are what weir-strategy is under these names.
	first, second := o.program(t, "first-fit"), o.program(t, "resilient")
	scaler := func() *scaler {
		k := *o.killed
		k.config = filepath.Join(t.TempDir(), "config.yaml")
		k.configure(t, fmt.Sprintf(scalerConfig, url, filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(bin, "weir-strategy"))+
			fmt.Sprintf("  mine: {kind: instance-selection, path: %q, sha256: %s, allowUnsandboxed: true, startTimeout: 5m, callTimeout: 60s}\n", first.path, first.sum)+
			fmt.Sprintf("admin: {enabled: true, port: 0}\nstrategyFolder: %q\n", filepath.Join(t.TempDir(), "strategies")))
		return k.start(t, "")
	}
	one := scaler()
	one.says(t, `"msg":"leading"`)
	two := scaler()
	two.says(t, `"msg":"listening"`, `"server":"admin"`)

	o.refusals(t, one, two, second)
	text := o.must(t, one, "ann", "swap", "mine", "--wait", "5m", "--to", second.path+"@sha256:"+second.sum)
	for _, want := range []string{second.path + "@sha256:" + second.sum, "is in service instead of " + first.path} {
		if !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
	o.runs(t, one, second, "ann")
	if text := o.must(t, one, "bob", "logs", "mine", "-o", "json"); !strings.Contains(text, `"message":"strategy is ready"`) || !strings.Contains(text, second.sum) {
		t.Errorf("logs:\n%s", text)
	}

	if err := one.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o.dies(t, one)
	two.says(t, `"msg":"leading"`)
	o.runs(t, two, second, "ann")
	o.tells(t, second)

	third := o.program(t, "capacity-mix")
	image := push(t, third)
	if text := o.must(t, two, "ann", "swap", "mine", "--wait", "5m", "--to", image); !strings.Contains(text, image) {
		t.Errorf("swap for an image: %s", text)
	}
	o.runs(t, two, third, "ann")
	if text := o.must(t, two, "ann", "swap", "mine", "--wait", "5m", "--reset"); !strings.Contains(text, first.sum) {
		t.Errorf("reset: %s", text)
	}
	o.runs(t, two, first, "")
	two.stops(t)
}

// refusals are answers that say no, and change nothing.
func (o *operated) refusals(t *testing.T, leader, follower *scaler, to program) {
	t.Helper()
	for _, tt := range []struct {
		name string
		s    *scaler
		as   string
		args []string
		code int
		says string
	}{
		{"may only look", leader, "bob", []string{"swap", "mine", "--to", to.path + "@sha256:" + to.sum}, 1, `user "system:serviceaccount:default:bob" may not update /weir/strategies/mine/swap`},
		{"may not look", leader, "eve", []string{"list"}, 1, "may not get /weir/strategies"},
		{"no such strategy", leader, "ann", []string{"swap", "yours", "--to", to.path + "@sha256:" + to.sum}, 2, `there is no strategy "yours"`},
		{"a tag", leader, "ann", []string{"swap", "mine", "--to", "registry.example/mine:1.0"}, 2, "expected @sha256: and 64 hexadecimal digits at the end"},
		{"no such file", leader, "ann", []string{"swap", "mine", "--to", "/does/not/exist@sha256:" + to.sum, "--wait", "3s"}, 1, "the one before goes on"},
	} {
		code, text := o.run(t, tt.s, tt.as, tt.args...)
		if code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("%s: code %d, %s, want %d and %q", tt.name, code, text, tt.code, tt.says)
		}
	}
	o.must(t, leader, "ann", "swap", "mine", "--wait", "5m", "--reset")
	// The follower may learn of the leader a moment later.
	harness.Eventually(t, "the follower says who leads", patience, func(context.Context) error {
		if code, text := o.run(t, follower, "ann", "list"); code != 1 || !strings.Contains(text, "does not lead: lease kube-system/weir-leader-election is held by") {
			return fmt.Errorf("code %d: %s", code, text)
		}
		return nil
	})
}

// runs waits until a scaler serves with the program.
func (o *operated) runs(t *testing.T, s *scaler, want program, by string) {
	t.Helper()
	harness.Eventually(t, "strategy mine is "+want.path, patience, func(context.Context) error {
		var l admin.List
		if err := json.Unmarshal([]byte(o.must(t, s, "bob", "list", "-o", "json")), &l); err != nil {
			return err
		}
		for _, x := range l.Strategies {
			if x.Name != "mine" || x.Pending || x.Role == "last-good" {
				continue
			}
			swapped := ""
			if x.Swapped != nil {
				swapped = strings.TrimPrefix(x.Swapped.By, "system:serviceaccount:default:")
			}
			if x.SHA256 != want.sum || x.State != "ready" || swapped != by {
				return fmt.Errorf("%+v, swapped by %q", x, swapped)
			}
			return nil
		}
		return fmt.Errorf("it is not there: %+v", l)
	})
}

// tells wants the state beside the swaps, with no token in either.
func (o *operated) tells(t *testing.T, want program) {
	t.Helper()
	harness.Eventually(t, "the state is written", patience, func(ctx context.Context) error {
		for name, parts := range map[string][]string{"weir-strategies-status": {"sha256: " + want.sum, "state: ready"}, "weir-strategies": {"by: system:serviceaccount:default:ann"}} {
			cm, err := o.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			text := fmt.Sprint(cm.Data)
			for _, p := range parts {
				if !strings.Contains(text, p) {
					return fmt.Errorf("ConfigMap %s lacks %q: %s", name, p, text)
				}
			}
		}
		return nil
	})
}

type program struct{ path, sum string }

// program is weir-strategy under another name, by which it knows what it is.
func (o *operated) program(t *testing.T, name string) program {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.bin, "weir-strategy"))
	if err != nil {
		t.Fatal(err)
	}
	// The name makes it another program: what comes after an executable's sections is not looked at.
	data = append(data, name...)
	p := program{path: filepath.Join(t.TempDir(), name), sum: fmt.Sprintf("%x", sha256.Sum256(data))}
	if err := os.WriteFile(p.path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// push puts a program into a registry as an artifact of one file and answers its name by digest.
func push(t *testing.T, p program) string {
	t.Helper()
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	data, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.oci.empty.v1+json"),
		mutate.Addendum{Layer: static.NewLayer(data, "application/octet-stream"), Annotations: map[string]string{"org.opencontainers.image.title": filepath.Base(p.path)}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(strings.TrimPrefix(srv.URL, "http://") + "/team/" + filepath.Base(p.path) + ":latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(digest.String()).String()
}

// command is the operator's program.
func command(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("WEIR_BIN"); dir != "" {
		return filepath.Join(dir, "weir")
	}
	path := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/weir-project/weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v\n%s", err, out)
	}
	return path
}

// kubeconfig is that of a service account, with a token.
func (o *operated) kubeconfig(t *testing.T, account string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), account)
	seconds := int64(3600)
	token, err := o.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: o.Config.Host, CertificateAuthority: o.Config.CAFile, CertificateAuthorityData: o.Config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs weir strategy as a service account against a scaler, at the scaler's own
// address; TestForwardThroughAnAPIServer goes through the API server.
func (o *operated) run(t *testing.T, s *scaler, as string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(o.weir, append(append([]string{"strategy"}, args...), "--kubeconfig", o.kubeconfig(t, as), "--scaler", "http://"+s.address(t, "admin"))...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (o *operated) must(t *testing.T, s *scaler, as string, args ...string) string {
	t.Helper()
	code, text := o.run(t, s, as, args...)
	if code != 0 {
		t.Fatalf("weir strategy %s: code %d: %s", strings.Join(args, " "), code, text)
	}
	return text
}
