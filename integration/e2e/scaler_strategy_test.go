package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

// TestStrategiesOfALivingScaler runs the seed on the real control plane: ten pods become
// bound at the price of cost-optimal; another strategy in the configuration makes the
// next plan of the same process; a strategy that does not answer holds up nothing but
// its plan; and strategies that are killed in the middle of a batch lose nothing and
// come back.
func TestStrategiesOfALivingScaler(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace)) // its own: the scaler looks after all of it
	c.InstallCRDs(t, crds.FS)
	bin := programs(t)
	url, ec2 := startEC2(t, bin, c, deadline)
	k := &killed{ControlPlane: c, ec2: ec2, bin: bin, config: filepath.Join(t.TempDir(), "config.yaml")}
	held := t.TempDir()
	text := fmt.Sprintf(scalerConfig, url, filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(bin, "weir-strategy")) + heldSpec(t, held)
	k.configure(t, text)
	for _, f := range []string{"ec2-node-class-default.yaml", "node-pool-default-amd.yaml"} {
		manifest, err := os.ReadFile("../demo/seed/" + f)
		if err != nil {
			t.Fatal(err)
		}
		c.Apply(t, metav1.NamespaceDefault, string(manifest))
	}

	// All ten wait before the scaler is there to see the first: one batch, however slow the machine.
	c.Apply(t, metav1.NamespaceDefault, deployment("first"))
	c.WaitPods(t, metav1.NamespaceDefault, "app=first", 10, patience, harness.PodUnschedulable)
	s := k.start(t, "")
	s.says(t, `"msg":"leading"`)
	c.WaitPods(t, metav1.NamespaceDefault, "app=first", 10, patience, harness.PodReady)
	if got, want := k.types(t), []string{"c6a.2xlarge", "m6a.4xlarge"}; !slices.Equal(got, want) {
		t.Errorf("cost-optimal bought %v, want %v: 0.9972 USD/h, the cheapest possible", got, want)
	}
	k.tells(t, s)

	if first := k.strategies(t, s); len(first) == 0 {
		t.Fatal("no strategy runs as a process of its own")
	}
	k.configure(t, text+"bindings: {instanceSelection: first-fit}\n")
	s.says(t, `"msg":"configuration of strategies is in service"`, `"instanceSelection":"first-fit"`)
	c.Apply(t, metav1.NamespaceDefault, deployment("second"))
	c.WaitPods(t, metav1.NamespaceDefault, "app=second", 10, patience, harness.PodReady)
	s.says(t, `"msg":"planned"`, `"strategy":"first-fit 1.0.0"`)
	t.Logf("machines of both: %v", k.types(t))

	k.configure(t, text+"bindings: {instanceSelection: "+heldName+"}\n")
	s.says(t, `"msg":"configuration of strategies is in service"`, `"instanceSelection":"`+heldName+`"`)
	k.killStrategies(t, s, held)

	left := k.strategies(t, s)
	s.stops(t)
	harness.Eventually(t, "the scaler's strategies end with it", patience, func(context.Context) error {
		for _, pid := range left {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
				return fmt.Errorf("process %d is there: %s", pid, stat)
			}
		}
		return nil
	})
}

// killStrategies kills all strategies of a scaler while one of them is asked for
// prices and has not answered, and waits until nothing is to be seen of it.
func (k *killed) killStrategies(t *testing.T, s *scaler, held string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(held, holdFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.Apply(t, metav1.NamespaceDefault, deployment("third"))
	s.says(t, askedLine)
	k.lives(t, s) // although its plan does not come
	if err := os.Remove(filepath.Join(held, holdFile)); err != nil {
		t.Fatal(err)
	}
	before := k.strategies(t, s)
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill strategy process %d: %v", pid, err)
		}
	}
	s.says(t, `"msg":"strategy did not answer, another did"`, `"strategy":"`+heldName+`"`)
	if !s.said(t, `"strategy":"`+heldName+`"`, `"outcome":"dead"`) {
		t.Log("this machine was so slow that the call had been given up before the kill")
	}
	s.measures(t, map[string]float64{`weir_strategy_restarts_total{strategy="` + heldName + `"}`: 1})
	k.WaitPods(t, metav1.NamespaceDefault, "app=third", 10, patience, harness.PodReady)
	harness.Eventually(t, "one machine for each claim", patience, func(ctx context.Context) error { return k.accounts(ctx, "default-amd") })
	harness.Eventually(t, "the strategies are back", patience, func(context.Context) error {
		now := k.strategies(t, s)
		if len(now) < len(before) || slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) }) {
			return fmt.Errorf("processes %v before, %v now", before, now)
		}
		return nil
	})
}

// tells wants the metrics of a scaler that has bought two machines, and an event for a
// pod that no machine can take.
func (k *killed) tells(t *testing.T, s *scaler) {
	t.Helper()
	s.measures(t, map[string]float64{
		"weir_active": 1, "karpenter_cluster_state_synced": 1, "weir_ledger_up": 1,
		`weir_launched_instances_total{capacity_type="on-demand",nodepool="default-amd"}`: 2,
		`karpenter_nodes_created_total{nodepool="default-amd"`:                            2,
		`weir_strategy_up{strategy="cost-optimal"}`:                                       1,
	})
	k.Apply(t, metav1.NamespaceDefault, `
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "1000"}}}]}
`)
	harness.Eventually(t, "an event says why the pod waits", patience, func(ctx context.Context) error {
		list, err := k.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=huge,reason=FailedScheduling,source=karpenter"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if strings.Contains(e.Message, "default-amd") {
				return nil
			}
		}
		return fmt.Errorf("events %+v", list.Items)
	})
	if err := k.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "huge", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// measures waits until the sum of the series that begin so is at least each of these.
func (s *scaler) measures(t *testing.T, want map[string]float64) {
	t.Helper()
	harness.Eventually(t, "metrics", patience, func(context.Context) error {
		code, text := s.get(t, "metrics", "/metrics")
		if code != http.StatusOK {
			return fmt.Errorf("status %d", code)
		}
		got := map[string]float64{}
		for line := range strings.Lines(text) {
			for series := range want {
				rest, ok := strings.CutPrefix(line, series)
				if !ok || rest[0] != ' ' && rest[0] != ',' && rest[0] != '{' {
					continue
				}
				v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
				if err != nil {
					return err
				}
				got[series] += v
			}
		}
		for series, least := range want {
			if got[series] < least {
				return fmt.Errorf("%s is %v, want at least %v", series, got[series], least)
			}
		}
		return nil
	})
}

// heldSpec configures the strategy that this test binary is.
func heldSpec(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  %s: {kind: instance-selection, path: %q, sha256: %x, allowUnsandboxed: true, memoryLimit: %d, startTimeout: 5m, callTimeout: 60s, config: {Dir: %q}}\n",
		heldName, self, sum.Sum(nil), 2<<30, dir)
}

// configure writes the configuration beside and renames it, as editors and kubelets do.
func (k *killed) configure(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(k.config+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(k.config+".new", k.config); err != nil {
		t.Fatal(err)
	}
}

// lives wants a scaler that answers its probes and renews both of its leases.
func (k *killed) lives(t *testing.T, s *scaler) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := s.get(t, "health", path); code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, code, text)
		}
	}
	client := k.Client.CoordinationV1().Leases("kube-system")
	for _, name := range leases {
		var first *metav1.MicroTime
		harness.Eventually(t, "lease "+name+" is renewed", patience, func(ctx context.Context) error {
			l, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if first == nil {
				first = l.Spec.RenewTime
			}
			if l.Spec.RenewTime.Equal(first) {
				return fmt.Errorf("renewed at %v", first)
			}
			return nil
		})
	}
}

// says waits until the scaler has written a line with all of these parts to its log.
func (s *scaler) says(t *testing.T, parts ...string) {
	t.Helper()
	harness.Eventually(t, "the scaler says "+strings.Join(parts, " "), patience, func(context.Context) error {
		if !s.said(t, parts...) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

func (s *scaler) said(t *testing.T, parts ...string) bool {
	t.Helper()
	return s.line(t, parts...) != ""
}

// line is the first full line of the log with all of these parts, empty where there is none.
func (s *scaler) line(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			return line
		}
	}
	return ""
}

// address is that of one of the scaler's servers, health, metrics or admin, which listen
// on any port.
func (s *scaler) address(t *testing.T, server string) string {
	t.Helper()
	var listening struct{ Address string }
	harness.Eventually(t, "server "+server+" listens", patience, func(context.Context) error {
		return json.Unmarshal([]byte(s.line(t, `"msg":"listening"`, `"server":"`+server+`"`)), &listening)
	})
	_, port, err := net.SplitHostPort(listening.Address)
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// get asks one of the scaler's servers.
func (s *scaler) get(t *testing.T, server, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address(t, server)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func deployment(name string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: 10
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: inflate
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
          resources: {requests: {cpu: "2", memory: 4Gi}}
`, name)
}

// types lists the instance types of the machines that run.
func (k *killed) types(t *testing.T) []string {
	t.Helper()
	machines, err := k.ec2.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range machines {
		if !m.Gone() {
			out = append(out, m.Type)
		}
	}
	slices.Sort(out)
	return out
}

// strategies lists the strategy processes of a scaler by pid.
func (k *killed) strategies(t *testing.T, s *scaler) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, d := range dirs {
		stat, err := os.ReadFile(d)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state parent ...; the name may hold anything but ends with the last parenthesis
		_, rest, ok := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(s.cmd.Process.Pid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	slices.Sort(out)
	return out
}
