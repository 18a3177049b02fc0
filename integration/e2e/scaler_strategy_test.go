package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

// ownTime is what Weir may take from pods that wait to the machines for them being
// bought. What follows belongs to others: EC2 and the kubelets take their delays, and
// kube-scheduler looks at a pod again after a back-off of its own, of up to ten seconds.
const ownTime = 10 * time.Second

// TestStrategiesOfALivingScaler runs the seed on the real control plane: ten pods become
// bound at the price of cost-optimal; another strategy in the configuration changes the
// next plan of the same process; and strategies that are killed in the middle of a
// batch lose nothing and come back.
func TestStrategiesOfALivingScaler(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	c := harness.Cluster(t, harness.NodeMonitorGrace(30*time.Second)) // its own: the scaler looks after all of it
	c.InstallCRDs(t, crds.FS)
	bin := programs(t)
	url, ec2 := startEC2(t, bin, c)
	k := &killed{ControlPlane: c, ec2: ec2, bin: bin, config: filepath.Join(t.TempDir(), "config.yaml")}
	text := fmt.Sprintf(scalerConfig, url, filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(bin, "weir-strategy"))
	configure := func(text string) {
		t.Helper()
		// written beside and renamed, as editors and kubelets do
		if err := os.WriteFile(k.config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(k.config+".new", k.config); err != nil {
			t.Fatal(err)
		}
	}
	configure(text)
	for _, f := range []string{"ec2-node-class-default.yaml", "node-pool-default-amd.yaml"} {
		manifest, err := os.ReadFile("../demo/seed/" + f)
		if err != nil {
			t.Fatal(err)
		}
		c.Apply(t, metav1.NamespaceDefault, string(manifest))
	}
	s := k.start(t, "")
	s.says(t, `"msg":"leading"`)

	k.deploy(t, "first")
	if got, want := k.types(t), []string{"c6a.2xlarge", "m6a.4xlarge"}; !slices.Equal(got, want) {
		t.Errorf("cost-optimal bought %v, want %v: 0.9972 USD/h, the cheapest possible", got, want)
	}
	created, bound := k.times(t, "first")
	bought := k.lastBought(t)
	t.Logf("after the pods: machines bought %v, pods bound %v", bought.Sub(created), bound.Sub(created))
	if took := bought.Sub(created); took > ownTime {
		t.Errorf("from waiting to bought: %v, want at most %v", took, ownTime)
	}

	pids := k.strategies(t, s)
	if len(pids) == 0 {
		t.Fatal("no strategy runs as a process of its own")
	}
	configure(text + "bindings: {instanceSelection: first-fit}\n")
	s.says(t, `"strategy":"first-fit","strategyVersion":"1.0.0","state":"ready"`)
	k.deploy(t, "second")
	if got := k.types(t); !slices.ContainsFunc(got, func(name string) bool { return strings.HasSuffix(name, ".8xlarge") }) {
		t.Errorf("after the change to first-fit the machines are %v, want one large one among them", got)
	}

	c.Apply(t, metav1.NamespaceDefault, deployment("third"))
	harness.Eventually(t, "pods of the third workload wait for a machine", time.Minute, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=third"})
		if err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return harness.PodUnschedulable(&p) == nil }) {
			err = fmt.Errorf("none of %d pods is unschedulable", len(pods.Items))
		}
		return err
	})
	before := k.strategies(t, s)
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill strategy process %d: %v", pid, err)
		}
	}
	c.WaitPods(t, metav1.NamespaceDefault, "app=third", 10, time.Minute, harness.PodReady)
	harness.Eventually(t, "one machine for each claim", time.Minute, func(ctx context.Context) error { return k.accounts(ctx, "default-amd") })
	harness.Eventually(t, "the strategies are back", time.Minute, func(context.Context) error {
		now := k.strategies(t, s)
		if len(now) < len(before) || slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) }) {
			return fmt.Errorf("processes %v before, %v now", before, now)
		}
		return nil
	})
	s.stops(t)
	if left := k.strategies(t, s); len(left) > 0 {
		t.Errorf("the scaler has ended, strategies %v have not", left)
	}
}

// says waits until the scaler has written something to its log.
func (s *scaler) says(t *testing.T, what string) {
	t.Helper()
	harness.Eventually(t, "the scaler says "+what, time.Minute, func(context.Context) error {
		said, err := os.ReadFile(s.log)
		if err == nil && !strings.Contains(string(said), what) {
			err = fmt.Errorf("not yet")
		}
		return err
	})
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

// deploy runs ten pods of the seed's size and waits until they are ready.
func (k *killed) deploy(t *testing.T, name string) {
	t.Helper()
	k.Apply(t, metav1.NamespaceDefault, deployment(name))
	k.WaitPods(t, metav1.NamespaceDefault, "app="+name, 10, 90*time.Second, harness.PodReady)
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

// times are when the first pod of a workload was created and when the last one was bound.
func (k *killed) times(t *testing.T, app string) (created, bound time.Time) {
	t.Helper()
	pods, err := k.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of %s (%v)", len(pods.Items), app, err)
	}
	for _, p := range pods.Items {
		if at := p.CreationTimestamp.Time; created.IsZero() || at.Before(created) {
			created = at
		}
		for _, c := range p.Status.Conditions {
			if at := c.LastTransitionTime.Time; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && at.After(bound) {
				bound = at
			}
		}
	}
	return created, bound
}

// lastBought is when the latest machine was bought.
func (k *killed) lastBought(t *testing.T) time.Time {
	t.Helper()
	machines, err := k.ec2.Machines(t.Context())
	if err != nil || len(machines) == 0 {
		t.Fatalf("%d machines (%v)", len(machines), err)
	}
	var last time.Time
	for _, m := range machines {
		if m.Launched.After(last) {
			last = m.Launched
		}
	}
	return last
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
