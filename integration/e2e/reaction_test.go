package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-project/weir/core/model"
)

// What is measured: the share of a core that Lambda gives a function with that much memory, and how far away the API server is.
const (
	reactionMemory = 512 << 20
	reactionQuota  = 5800  // microseconds of CPU time in each
	reactionPeriod = 20000 // microseconds: 29% of a core
	reactionTrip   = 20 * time.Millisecond
	reactionPods   = 60
)

// BenchmarkReaction measures the time from an event to the cordon of its node: with a process that has to be started first (cold)
// and with one that runs (warm). docs/operate.md has the figures and the command.
func BenchmarkReaction(b *testing.B) {
	f := newFleet(b)
	bin := buildLambda(b)
	limited, how := limit(b, bin.bootstrap)
	bin.bootstrap = limited
	kubeconfig := farAway(b, restricted(b, f.ControlPlane))
	var cold, warm []time.Duration
	for i := 0; b.Loop(); i++ {
		fn := startFunctionAt(b, bin, kubeconfig, "60")
		cold = append(cold, f.reacts(fn, fmt.Sprintf("cold-%d", i)))
		warm = append(warm, f.reacts(fn, fmt.Sprintf("warm-%d", i)))
	}
	b.ReportMetric(0, "ns/op") // the drains; nobody asked
	for name, times := range map[string][]time.Duration{"cold": cold, "warm": warm} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, name+"-max-ms")
	}
	b.Logf("%s, %v to the API server and back, %d pods on the node, %d times", how, reactionTrip, reactionPods, len(cold))
}

// reacts makes a node with its pods, and measures how long after its event it is cordoned.
func (f *fleet) reacts(fn *function, name string) time.Duration {
	f.t.Helper()
	ctx := f.t.Context()
	full, id := f.name(name), f.instance(name)
	f.bareNode(name, "default")
	now := int64(0)
	for i := range reactionPods {
		if _, err := f.Client.CoreV1().Pods(f.ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)},
			Spec: corev1.PodSpec{NodeName: full, TerminationGracePeriodSeconds: &now, Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}}}, metav1.CreateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
	w, err := f.Client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + full})
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Stop()
	start := time.Now()
	type ended struct {
		answer
		err error
	}
	answered := make(chan ended, 1)
	go func() {
		a, err := fn.invoke(spotEvent("e-"+full, id))
		answered <- ended{a, err}
	}()
	var took time.Duration
	for e := range w.ResultChan() {
		n, ok := e.Object.(*corev1.Node)
		if ok && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == model.TaintDisrupted }) {
			took = time.Since(start)
			break
		}
	}
	if got := <-answered; took == 0 || got.err != nil || got.ErrorMessage != "" || got.Outcomes[0].Evicted != reactionPods {
		f.t.Fatalf("cordoned after %v; answer %+v", took, got)
	}
	return took
}

// limit makes a script that starts the program with the share of a core and the memory of a Lambda, where this machine lets us.
func limit(t testing.TB, program string) (script, how string) {
	t.Helper()
	const v1 = "/sys/fs/cgroup/%s/weir-reaction-%d"
	cpu, memory := fmt.Sprintf(v1, "cpu", os.Getpid()), fmt.Sprintf(v1, "memory", os.Getpid())
	var failed error
	for _, dir := range []string{cpu, memory} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // the processes in it end with the test, not always before it
	}
	if failed == nil {
		for path, value := range map[string]int{filepath.Join(cpu, "cpu.cfs_period_us"): reactionPeriod, filepath.Join(cpu, "cpu.cfs_quota_us"): reactionQuota,
			filepath.Join(memory, "memory.limit_in_bytes"): reactionMemory} {
			failed = errors.Join(failed, os.WriteFile(path, []byte(fmt.Sprint(value)), 0))
		}
	}
	if failed != nil {
		return program, fmt.Sprintf("WITHOUT a limit of CPU and memory (%v)", failed)
	}
	script = filepath.Join(t.TempDir(), "bootstrap")
	text := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && echo $$ > %s/cgroup.procs && exec %s \"$@\"\n", cpu, memory, program)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script, fmt.Sprintf("%.0f%% of a core, %d MiB", 100*float64(reactionQuota)/reactionPeriod, reactionMemory>>20)
}

// farAway is the kubeconfig with an API server that is half a trip away in either direction, also for those who connect.
func farAway(t testing.TB, kubeconfig string) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cfg.Clusters {
		u, err := url.Parse(c.Server)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = slowly(t, u.Host)
		c.Server = u.String()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// slowly hands connections on to the target, each byte half a trip late.
func slowly(t testing.TB, target string) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				time.Sleep(reactionTrip) // the handshake of TCP
				to, err := (&net.Dialer{}).Dial("tcp", target)
				if err != nil {
					_ = from.Close() // who connects sees it
					return
				}
				go late(to, from)
				late(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

// late copies until the end, half a trip late, without making what comes later wait longer.
func late(to io.WriteCloser, from io.Reader) {
	type piece struct {
		at   time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				pieces <- piece{time.Now().Add(reactionTrip / 2), buf[:n]}
			}
			if err != nil {
				return // either end has closed it
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_ = to.Close()
	for range pieces { //nolint:revive // what nobody takes any more
	}
}
