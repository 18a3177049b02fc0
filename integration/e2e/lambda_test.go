package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

// binaries are the function, built as it is deployed, and the emulator of its runtime.
type binaries struct{ bootstrap, emulator string }

// buildLambda takes the binaries of WEIR_LAMBDA and WEIR_RIE, which make sets, or builds them.
func buildLambda(t testing.TB) binaries {
	t.Helper()
	b := binaries{bootstrap: os.Getenv("WEIR_LAMBDA"), emulator: os.Getenv("WEIR_RIE")}
	if b.bootstrap != "" && b.emulator != "" {
		return b
	}
	b.bootstrap = filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", b.bootstrap, "github.com/weir-project/weir/lambda/interruption")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the function: %v\n%s", err, out)
	}
	tool := exec.Command("go", "tool", "-n", "-modfile=tools.mod", "aws-lambda-rie") // builds it, and says where it is
	tool.Dir = filepath.Join("..", "..")
	out, err := tool.Output()
	if err != nil {
		t.Fatalf("build the emulator: %v", err)
	}
	b.emulator = strings.TrimSpace(string(out))
	return b
}

// TestLambda runs the real binary under the emulator of its runtime, against a real API server.
func TestLambda(t *testing.T) {
	t.Parallel()
	harness.Cluster(t)
	b := buildLambda(t)
	for name, test := range map[string]func(*testing.T, binaries){
		"drains the node":    lambdaDrains,
		"batch":              lambdaBatch,
		"hands garbage back": lambdaHandsGarbageBack,
		"every kind":         lambdaKnowsEveryKind,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// function is the interruption function under the emulator.
type function struct {
	t    testing.TB
	url  string
	said *output
}

// output is what a process says; it may be read while it speaks.
type output struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// cordons are the times from the start of an invocation to a cordon that the function has reported so far.
func (f *function) cordons() (times []time.Duration) {
	f.t.Helper()
	for line := range strings.Lines(f.said.String()) {
		at := strings.IndexByte(line, '{')
		if at < 0 || !strings.Contains(line, respond.MetricTimeToCordon) {
			continue
		}
		var m struct{ TimeToCordon []float64 }
		if err := json.Unmarshal([]byte(line[at:]), &m); err != nil {
			f.t.Fatalf("metric %q: %v", line, err)
		}
		for _, ms := range m.TimeToCordon {
			times = append(times, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	return times
}

// startFunction starts the function against the cluster. timeout is that of its invocations, in seconds.
func startFunction(t *testing.T, b binaries, c *harness.ControlPlane, timeout string) *function {
	t.Helper()
	return startFunctionAt(t, b, restricted(t, c), timeout)
}

func startFunctionAt(t testing.TB, b binaries, kubeconfig, timeout string) *function {
	t.Helper()
	address := harness.FreeAddress(t)
	cmd := exec.Command(b.emulator, "--runtime-interface-emulator-address", address, "--runtime-api-address", harness.FreeAddress(t), b.bootstrap)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig, "CLUSTER_NAME=e2e", "WEIR_ACCOUNT=111122223333",
		"AWS_REGION=us-east-1", "AWS_LAMBDA_FUNCTION_TIMEOUT=" + timeout,
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the emulator's child ends with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // by a signal, or its output says why
	}()
	t.Cleanup(func() {
		// The whole group, or the function would outlive its emulator. One that has ended by itself is none.
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("end the emulator: %v", err)
		}
		<-ended
		if t.Failed() {
			t.Logf("emulator and function said:\n%s", out.String())
		}
	})
	f := &function{t: t, said: out, url: "http://" + address + "/2015-03-31/functions/function/invocations"}
	harness.Eventually(t, "emulator", patience, func(ctx context.Context) error {
		select {
		case <-ended:
			t.Fatal("the emulator has ended")
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return f
}

// restricted is a kubeconfig with the rights of the function, which are those of its manifest.
func restricted(t testing.TB, c *harness.ControlPlane) string {
	t.Helper()
	role, err := os.ReadFile(filepath.Join("..", "..", "lambda", "interruption", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, "", string(role))
	cfg, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range cfg.AuthInfos {
		who.Impersonate, who.ImpersonateGroups = "interruption", []string{"weir:interruption"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer is what the function says; ErrorMessage is set where it failed.
type answer struct {
	Outcomes []struct {
		Event, Instance, Node, Reason string
		Action                        interrupt.Action
		Done                          bool
		Evicted, Waiting              int
	}
	BatchItemFailures []struct{ ItemIdentifier string }
	ErrorMessage      string
}

func (f *function) invoke(payload string) (answer, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(payload))
	if err != nil {
		return answer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return answer{}, fmt.Errorf("answer %q: %w", body, err)
	}
	return a, nil
}

func (f *function) mustInvoke(payload string) answer {
	f.t.Helper()
	a, err := f.invoke(payload)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// deadline is how long the machines of these tests have after their warning: far more
// than a drain takes, for what is tested is that it ends well, not how fast.
const deadline = 10 * time.Minute

// spotEvent is the event for an instance that ends after the deadline, two minutes after
// the event's own time. The ARN beside it holds a zone, as AWS' does.
func spotEvent(id, instance string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":"111122223333","time":%q,"region":"us-east-1",
		"resources":["arn:aws:ec2:us-east-1a:instance/%s"],"detail":{"instance-id":%q,"instance-action":"terminate"}}`, id, time.Now().Add(deadline-event.SpotNotice).UTC().Format(time.RFC3339), instance, instance)
}

func sqsBatch(t *testing.T, bodies ...string) string {
	t.Helper()
	var records []map[string]string
	for i, b := range bodies {
		records = append(records, map[string]string{"messageId": fmt.Sprintf("m%d", i+1), "body": b})
	}
	b, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fleet is the nodes of one test, in a namespace whose pods run on no others.
type fleet struct {
	*harness.ControlPlane
	t        testing.TB
	ns       string
	kubelets *fakekubelet.Kubelets // nil before the first node
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	c := harness.Cluster(t)
	c.InstallCRDs(t, crds.FS)
	return &fleet{ControlPlane: c, t: t, ns: c.Namespace(t)}
}

// kubelet runs the nodes from the first one on until the test ends.
func (f *fleet) kubelet() *fakekubelet.Kubelets {
	f.t.Helper()
	if f.kubelets != nil {
		return f.kubelets
	}
	k, err := fakekubelet.New(fakekubelet.Config{Client: f.Client, Logger: zaptest.NewLogger(f.t, zaptest.Level(zap.ErrorLevel)), PodStopTime: time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	f.kubelets = k
	return k
}

// instance is the id of the machine under the node of that name.
func (f *fleet) instance(name string) string {
	return fmt.Sprintf("i-%s-%s", strings.TrimPrefix(f.ns, "test-"), name)
}

func (f *fleet) name(name string) string { return f.ns + "-" + name }

// node starts a node whose name says nothing about its instance, with its claim unless it is not ours.
func (f *fleet) node(name string, labelled, managed bool) {
	f.t.Helper()
	full := f.name(name)
	provider := model.ProviderID("us-east-1a", f.instance(name))
	labels := map[string]string{"fleet": f.ns, model.LabelInstanceType: "m5.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.Spot}
	if labelled {
		labels[model.LabelInstanceID] = f.instance(name)
	}
	var claim *unstructured.Unstructured
	if managed {
		labels[model.LabelPool] = "default"
		claim = f.claim(full, provider)
	}
	if _, err := f.kubelet().Start(context.Background(), fakekubelet.NodeSpec{ // until the fleet ends
		Name: full, ProviderID: provider, Labels: labels,
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58")},
	}); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := f.Client.CoreV1().Nodes().Delete(context.Background(), full, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			f.t.Error(err)
		}
	})
	harness.Eventually(f.t, "node "+full, patience, func(ctx context.Context) error {
		n, err := f.Client.CoreV1().Nodes().Get(ctx, full, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if claim != nil && len(n.OwnerReferences) == 0 {
			patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","name":%q,"uid":%q,"blockOwnerDeletion":true}]}}`, claim.GetName(), claim.GetUID())
			if _, err := f.Client.CoreV1().Nodes().Patch(ctx, full, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
				return nil
			}
		}
		return errors.New("not ready")
	})
}

func (f *fleet) claim(name, provider string) *unstructured.Unstructured {
	f.t.Helper()
	claim := f.Apply(f.t, "", fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: %s, finalizers: [karpenter.sh/termination], labels: {karpenter.sh/nodepool: default}}
spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
`, name))[0]
	claims := f.Dynamic.Resource(v1.NodeClaims)
	f.t.Cleanup(func() {
		_, err := claims.Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = claims.Delete(context.Background(), name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			f.t.Error(err)
		}
	})
	if _, err := claims.Patch(f.t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"providerID":%q}}`, provider), metav1.PatchOptions{}, "status"); err != nil {
		f.t.Fatal(err)
	}
	return claim
}

// workload runs replicas of a Deployment on the fleet, with a budget of its own.
func (f *fleet) workload(name string, replicas int, budget string) {
	f.t.Helper()
	f.Apply(f.t, f.ns, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {fleet: %[3]s}
      containers: [{name: main, image: example.com/none, resources: {requests: {cpu: 100m}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {%[4]s, selector: {matchLabels: {app: %[1]s}}}
`, name, replicas, f.ns, budget))
	harness.Eventually(f.t, "pods of "+name, patience, func(ctx context.Context) error {
		on, err := f.ready(ctx, name)
		if err != nil {
			return err
		}
		if len(on) != replicas {
			return fmt.Errorf("%d of %d are ready", len(on), replicas)
		}
		pdb, err := f.Client.PolicyV1().PodDisruptionBudgets(f.ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && int(pdb.Status.CurrentHealthy) != replicas {
			err = errors.New("the budget has not counted yet")
		}
		return err
	})
}

// ready are the ready pods of a workload that stay, by node.
func (f *fleet) ready(ctx context.Context, app string) ([]string, error) {
	pods, err := f.Client.CoreV1().Pods(f.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var on []string
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				on = append(on, strings.TrimPrefix(p.Spec.NodeName, f.ns+"-"))
			}
		}
	}
	return on, nil
}

func (f *fleet) mustReady(app string) []string {
	f.t.Helper()
	on, err := f.ready(f.t.Context(), app)
	if err != nil {
		f.t.Fatal(err)
	}
	return on
}

// watchBudget fails the test when fewer ready pods than the budget wants are there, until it is stopped.
func (f *fleet) watchBudget(app string, least int) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			pods, err := f.ready(f.t.Context(), app)
			if err == nil && len(pods) < least && ctx.Err() == nil {
				f.t.Errorf("%d ready pods of %s, the budget wants %d", len(pods), app, least)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// state is what matters of a node and its claim.
type nodeState struct {
	Tainted, Deleting bool
	Face              interrupt.Face
	Events            []string // of the claim and the node, by reason
}

func (f *fleet) state(name string) nodeState {
	f.t.Helper()
	full := f.name(name)
	n, err := f.Client.CoreV1().Nodes().Get(f.t.Context(), full, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var s nodeState
	for _, taint := range n.Spec.Taints {
		s.Tainted = s.Tainted || taint.Key == model.TaintDisrupted && taint.Effect == corev1.TaintEffectNoSchedule && taint.Value == ""
	}
	claim, err := f.Dynamic.Resource(v1.NodeClaims).Get(f.t.Context(), full, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s
	}
	if err != nil {
		f.t.Fatal(err)
	}
	s.Deleting = claim.GetDeletionTimestamp() != nil
	if s.Face, _, err = interrupt.ReadFace(claim.GetAnnotations()); err != nil {
		f.t.Error(err)
	}
	events, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).List(f.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + full + ",source=karpenter"})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range events.Items {
		s.Events = append(s.Events, e.InvolvedObject.Kind+" "+e.Reason)
	}
	return s
}

// No scaler lives. The function cordons, taints and drains all the same, and keeps to the budget.
func lambdaDrains(t *testing.T, b binaries) {
	f := newFleet(t)
	f.node("old", true, true)
	f.workload("web", 4, "minAvailable: 3")
	f.node("new", true, true)
	fn := startFunction(t, b, f.ControlPlane, "300")
	earliest := time.Now().Add(deadline).Truncate(time.Second) // events tell full seconds
	warning := spotEvent("e-"+f.ns, f.instance("old"))
	latest := time.Now().Add(deadline)

	stop := f.watchBudget("web", 3)
	got := fn.mustInvoke(warning)
	stop()
	if got.ErrorMessage != "" || len(got.Outcomes) != 1 || !got.Outcomes[0].Done || got.Outcomes[0].Action != interrupt.Drain || got.Outcomes[0].Evicted != 4 || got.Outcomes[0].Node != f.name("old") {
		t.Fatalf("answer %+v", got)
	}
	s := f.state("old")
	if !s.Tainted || !s.Deleting || s.Face.Kind != model.NoticeSpot || s.Face.EventID != "e-"+f.ns || s.Face.Deadline.Before(earliest) || s.Face.Deadline.After(latest) {
		t.Errorf("node and claim %+v", s)
	}
	if diff := cmp.Diff(map[string]bool{"NodeClaim SpotInterrupted": true, "Node SpotInterrupted": true}, set(s.Events)); diff != "" || len(s.Events) != 2 {
		t.Errorf("events %v (-want +got):\n%s", s.Events, diff)
	}
	if s := f.state("new"); s.Tainted || s.Deleting {
		t.Errorf("the other node %+v", s)
	}
	harness.Eventually(t, "pods on the other node", patience, func(ctx context.Context) error {
		on, err := f.ready(ctx, "web")
		if err == nil && (len(on) != 4 || set(on)["old"]) {
			err = fmt.Errorf("ready on %v", on)
		}
		return err
	})

	// The same event again, alone and in a batch, does nothing again.
	before := f.state("old")
	again := fn.mustInvoke(warning)
	if again.ErrorMessage != "" || len(again.Outcomes) != 1 || !again.Outcomes[0].Done || again.Outcomes[0].Evicted != 0 {
		t.Errorf("answer to the same event: %+v", again)
	}
	if got := fn.mustInvoke(sqsBatch(t, warning, warning)); got.ErrorMessage != "" || len(got.BatchItemFailures) != 0 {
		t.Errorf("answer to a batch of the same event: %+v", got)
	}
	if diff := cmp.Diff(before, f.state("old")); diff != "" {
		t.Errorf("the same event changed something:\n%s", diff)
	}
}

// Garbage does not stop the rest of a batch, and a budget that allows nothing has the message come again.
func lambdaBatch(t *testing.T, b binaries) {
	f := newFleet(t)
	f.node("held", true, true)
	f.workload("held", 1, "maxUnavailable: 0")
	f.node("bare", false, true) // without the label of the instance: found by its provider id
	f.node("theirs", true, false)
	fn := startFunction(t, b, f.ControlPlane, "45")
	bad := `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":42}}`
	batch := sqsBatch(t, "abcd", "{}", bad, spotEvent("a-"+f.ns, f.instance("held")), spotEvent("b-"+f.ns, f.instance("bare")),
		spotEvent("c-"+f.ns, f.instance("theirs")), spotEvent("d-"+f.ns, "i-0eee0000000000009"))

	failed := func(a answer) []string {
		ids := []string{}
		for _, x := range a.BatchItemFailures {
			ids = append(ids, x.ItemIdentifier)
		}
		return ids
	}
	got := fn.mustInvoke(batch)
	if diff := cmp.Diff([]string{"m4"}, failed(got)); diff != "" || got.ErrorMessage != "" {
		t.Errorf("answer %+v, failures (-want +got):\n%s", got, diff)
	}
	for name, want := range map[string]bool{"held": true, "bare": true, "theirs": false} {
		if s := f.state(name); s.Tainted != want || s.Deleting != want {
			t.Errorf("node %s: %+v, want it tainted and its claim deleted: %v", name, s, want)
		}
	}
	if on := f.mustReady("held"); len(on) != 1 || on[0] != "held" {
		t.Errorf("the pod whose budget allows nothing runs on %v", on)
	}

	// The budget allows it now; the message comes again.
	if err := f.Client.PolicyV1().PodDisruptionBudgets(f.ns).Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := failed(fn.mustInvoke(batch)); len(got) != 0 {
		t.Errorf("failures %v after the budget was taken away", got)
	}
	if on := f.mustReady("held"); set(on)["held"] {
		t.Errorf("ready on %v", on)
	}
}

// An event that cannot be read and comes alone is an error, so that the dead-letter queue of the function gets it.
func lambdaHandsGarbageBack(t *testing.T, b binaries) {
	fn := startFunction(t, b, harness.Cluster(t), "60")
	for _, payload := range []string{"{}", "abcd"} {
		if got := fn.mustInvoke(payload); !strings.Contains(got.ErrorMessage, "event cannot be read") {
			t.Errorf("%s: answer %+v", payload, got)
		}
	}
	if got := fn.mustInvoke(`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"running"}}`); got.ErrorMessage != "" || got.Outcomes[0].Action != interrupt.Ignore {
		t.Errorf("answer %+v, want it ignored", got)
	}
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, x := range list {
		m[x] = true
	}
	return m
}
