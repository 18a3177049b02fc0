package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/strategy"
)

// answers runs the program and splits what it wrote.
func answers(t *testing.T, args ...string) (code int, out, talk string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(args, streams{in: strings.NewReader(""), out: &o, err: &e}, nil)
	return code, o.String(), e.String()
}

// executableNamed is weir-strategy under the name of a built-in, which it then is.
func executableNamed(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", path, "../weir-strategy").CombinedOutput(); err != nil {
		t.Fatalf("building cmd/weir-strategy: %v\n%s", err, out)
	}
	return path
}

func TestDescribePinVerify(t *testing.T) {
	t.Parallel()
	path := executableNamed(t, "first-fit")
	lock := filepath.Join(t.TempDir(), "weir-strategies.lock")
	code, started, talk := answers(t, "strategy", "describe", path, "-o", "json")
	if code != 0 {
		t.Fatalf("describe: %d %s", code, talk)
	}
	_, named, _ := answers(t, "strategy", "describe", "first-fit", "-o", "json")
	var of, builtIn strategyManifest
	for text, m := range map[string]*strategyManifest{started: &of, named: &builtIn} {
		if err := json.Unmarshal([]byte(text), m); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	sum := of.SHA256
	if len(sum) != 64 || of.Path != path {
		t.Errorf("program %s, sha256 %q", of.Path, sum)
	}
	of.Path, of.SHA256 = "", ""
	if diff := cmp.Diff(builtIn, of); diff != "" {
		t.Errorf("the built-in (-) and the same as a process (+):\n%s", diff)
	}
	if _, text, _ := answers(t, "strategy", "describe", "first-fit"); !strings.Contains(text, "contract: instance-selection v1, price") {
		t.Errorf("table:\n%s", text)
	}

	if code, text, talk := answers(t, "strategy", "pin", path, "--lock", lock); code != 0 || !strings.Contains(text, "first-fit 1.0.0 for "+strategy.Platform()+" is sha256 "+sum) {
		t.Errorf("pin: %d %s %s", code, text, talk)
	}
	if code, _, talk := answers(t, "strategy", "pin", "first-fit="+path, "--lock", lock, "--platform", "darwin/arm64", "--version", "1.0.0"); code != 0 {
		t.Errorf("pin for another platform: %d %s", code, talk)
	}
	l, err := strategy.ReadLock(lock)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{strategy.Platform(): sum, "darwin/arm64": sum}, l.Entry("first-fit").SHA256); diff != "" {
		t.Errorf("lock file (-want +got):\n%s", diff)
	}
	if code, text, talk := answers(t, "strategy", "verify", path, "--lock", lock); code != 0 || !strings.Contains(text, "first-fit  ok") {
		t.Errorf("verify: %d %s %s", code, text, talk)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if code, text, _ := answers(t, "strategy", "verify", path, "--lock", lock); code != 1 || !strings.Contains(text, "first-fit  WRONG") || !strings.Contains(text, "locked is "+sum) {
		t.Errorf("verify of another program: %d %s", code, text)
	}
	config := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\nstrategies:\n  mine: {kind: instance-selection, path: %q, sha256: %s}\n", path, sum), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text, _ := answers(t, "strategy", "verify", "--config", config); code != 1 || !strings.Contains(text, "the configuration pins "+sum) {
		t.Errorf("verify of the configuration: %d %s", code, text)
	}
}

func TestStrategyMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "lock")
	if err := os.WriteFile(broken, []byte("{\"version\": 1,\n\"plugins\": 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "kubeconfig") // one that names no cluster
	if err := os.WriteFile(none, []byte("{apiVersion: v1, kind: Config}"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0a", 32)
	for _, tt := range []struct{ args, says string }{
		{"describe", "expected the NAME or PATH of one strategy"},
		{"describe resilent", "did you mean resilient?"},
		{"describe " + plain, "expected an executable file"},
		{"describe ./none", "no such file"},
		{"verify", "expected NAME=PATH, or --config"},
		{"verify a=" + plain + " a=" + plain, "is there twice"},
		{"verify a=" + plain + " --lock " + dir + "/none", "no such file"},
		{"pin", "expected one NAME=PATH"},
		{"pin a=" + plain + " --platform windows/arm64 --lock " + dir + "/l", "--version is missing"},
		{"pin a=" + plain + " --platform a/b --version 1", `--platform: platform "a/b": expected one of`},
		{"verify a=" + plain + " --platform a/b", `--platform: platform "a/b": expected one of`},
		{"verify a=" + plain + " --lock " + broken, broken + ": line 2: plugins: unknown field"},
		{"swap", "expected the NAME of one strategy"},
		{"swap a", "--to: expected IMAGE@sha256:DIGEST"},
		{"swap a --to registry.example/a:latest", "a program is named by its content"},
		{"swap a --to ./a@sha256:" + sum, "the file is in the scaler's pod"},
		{"swap a --to /a@sha256:" + sum + " --program /b", "--program: is for images"},
		{"swap a --reset --to x", "--reset: expected no --to"},
		{"logs", "expected the NAME of one strategy"},
		{"logs a --tail -1", "--tail: expected"},
		{"logs a -o yaml", "expected json or table"},
		{"list --context x --config y", "--config: expected no cluster beside it"},
		{"swap A", `"A": expected the name of a strategy`},
		{"swap a/b --to /a@sha256:" + sum, `"a/b": expected the name of a strategy`},
		{"swap a --to /a@sha256:12", "expected 64 hexadecimal digits"},
		{"swap a --to a@sha256:" + sum, "expected registry/repository@sha256:DIGEST"},
		{"swap a --to r/A:b@sha256:" + sum, "expected registry/repository@sha256:DIGEST"},
		{"swap a --to /a@sha256:" + sum + " --wait -1s", "--wait: expected"},
		{"swap a --reset --request-timeout 0s", "--request-timeout: expected"},
		{"logs a --tail 1001", "--tail: expected"},
		{"logs ../a", "expected the name of a strategy"},
		{"logs a --admin-port 0", "--admin-port: expected a port"},
		{"logs a --kubeconfig ./none", "--kubeconfig: ./none: no such file"},
		{"list --scaler 127.0.0.1:8082", "--scaler: expected a URL"},
		{"list --service-account weir", "--service-account: expected NAMESPACE/NAME"},
		{"list -n Weir_", "--namespace: expected"},
		{"list --release W", "--release: expected"},
		{"list --kubeconfig " + none + " --context x", "context \"x\" does not exist"},
		{"list -n weir --kubeconfig " + none, "no kubeconfig names a cluster"},
	} {
		code, out, talk := answers(t, append([]string{"strategy"}, strings.Fields(tt.args)...)...)
		if code != 2 || out != "" || !strings.Contains(talk, tt.says) {
			t.Errorf("%s: code %d, out %q, %s, want 2 and %q", tt.args, code, out, talk, tt.says)
		}
	}
}

// The list of a cluster shows what an operator looks for, and what is wrong in words.
func TestListOfACluster(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	list := admin.List{Kind: "StrategyList", Scaler: "weir-0", Strategies: []admin.Strategy{
		{Name: "carbon", Kind: "instance-selection", Role: "serving", State: "ready", Version: "1.2.0", Image: "registry.example/team/carbon@sha256:" + strings.Repeat("0a", 32), Sandbox: "landlock 6",
			Calls:   admin.Calls{Total: 1200, Fallbacks: 3, Outcomes: map[string]int64{"ok": 1197, "late": 2, "invalid": 1}, P50Seconds: 0.0021, P99Seconds: 0.35, LastError: "price -1", LastErrorAt: &at},
			Swapped: &admin.Swap{Image: "registry.example/team/carbon@sha256:" + strings.Repeat("0a", 32), By: "ann", At: at}},
		{Name: "savings", Kind: "consolidation", State: "in-process", BuiltIn: true, Healthy: true, Version: "1.0.0"},
	}}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer user-token" || r.URL.Path != admin.Path {
			w.WriteHeader(http.StatusTeapot)
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	plain := httptest.NewServer(srv.Config.Handler)
	t.Cleanup(plain.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: user-token}}]}`, srv.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, talk := answers(t, "strategy", "list", "--kubeconfig", kubeconfig, "--scaler", plain.URL)
	want := `NAME     KIND                STATE                 VERSION  PROGRAM              CALLS  P50    P99    FALLBACKS              SANDBOX     SHADOW
carbon   instance-selection  ready, not answering  1.2.0    carbon@0a0a0a0a0a0a  1200   2.1ms  350ms  3 (2 late, 1 invalid)  landlock 6  -
savings  consolidation       in-process            1.0.0    built in             0      -      -      0                      -           -

carbon: last call that went wrong, at 2026-03-04T12:00:00Z: price -1
carbon: swapped for registry.example/team/carbon@sha256:` + strings.Repeat("0a", 32) + ` by ann at 2026-03-04T12:00:00Z
`
	if diff := cmp.Diff(want, out); code != 0 || talk != "" || diff != "" {
		t.Errorf("code %d, %s (-want +got):\n%s", code, talk, diff)
	}
}
