package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const waitLimit = 5 * time.Minute

// running is a "devcluster up" of this test binary.
type running struct {
	dir    string
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *syncBuffer
	config *rest.Config
	client kubernetes.Interface
	exited chan struct{}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func startUp(t *testing.T, args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{dir: t.TempDir(), stderr: &syncBuffer{}, exited: make(chan struct{})}
	r.cmd = exec.Command(self, append([]string{"up", "--with-parent", "--dir", r.dir}, args...)...)
	r.cmd.Stderr = r.stderr
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		_ = r.cmd.Wait() // the tests look at ProcessState
		close(r.exited)
	}()
	t.Cleanup(func() {
		if err := r.cmd.Process.Kill(); err != nil && err != os.ErrProcessDone {
			t.Error(err)
		}
		<-r.exited
	})
	if readErr != nil {
		<-r.exited
		return r // the caller looks at stderr
	}
	path, ok := strings.CutPrefix(strings.Fields(line)[1], "kubeconfig=")
	if !strings.HasPrefix(line, "READY ") || !ok {
		t.Fatalf("first line %q, want READY kubeconfig=...", line)
	}
	if r.config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		t.Fatal(err)
	}
	if r.client, err = kubernetes.NewForConfig(r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) pid(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func (r *running) pids(t *testing.T) (pids []int) {
	t.Helper()
	for _, name := range append([]string{etcdName}, upstreamNames...) {
		pids = append(pids, r.pid(t, name))
	}
	return pids
}

func eventually(t *testing.T, what string, ok func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitLimit, true, func(ctx context.Context) (bool, error) {
		last = ok(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v, last: %v", what, err, last)
	}
}

func eventuallyGone(t *testing.T, pids []int) {
	t.Helper()
	eventually(t, "components end", func(context.Context) error {
		for _, pid := range pids {
			// A zombie still has its id but waits only to be collected.
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !bytes.Contains(b, []byte(") Z ")) {
				return fmt.Errorf("process %d lives: %s", pid, b)
			}
		}
		return nil
	})
}

func TestPodsAreScheduledAndStopLeavesNothing(t *testing.T) {
	t.Parallel()
	r := startUp(t)
	if r.client == nil {
		t.Fatal(r.stderr)
	}
	pids := r.pids(t)
	t.Run("a pod is bound to a ready node", func(t *testing.T) { podIsBound(t, r) })
	t.Run("roles are enforced", func(t *testing.T) { rolesAreEnforced(t, r) })
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	if code := r.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d after SIGTERM, want 0; stderr: %s", code, r.stderr)
	}
	eventuallyGone(t, pids)
}

func podIsBound(t *testing.T, r *running) {
	ctx := t.Context()
	pod, err := r.client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod is unschedulable without a node", func(ctx context.Context) error {
		p, err := r.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", p.Status.Conditions)
	})
	node, err := r.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	if _, err := r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod is bound", func(ctx context.Context) error {
		p, err := r.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.NodeName != node.Name {
			return fmt.Errorf("node name %q, conditions %v", p.Spec.NodeName, p.Status.Conditions)
		}
		return nil
	})
}

func rolesAreEnforced(t *testing.T, r *running) {
	token, err := r.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(r.config)
	cfg.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:default:default"; got != want {
		t.Errorf("user %q, want %q", got, want)
	}
	if _, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets: error %v, want forbidden", err)
	}
}

func TestFailedComponentIsNamedWithItsLog(t *testing.T) {
	t.Parallel()
	r := startUp(t, "--extra-arg", "kube-apiserver=--no-such-flag=1")
	if r.client != nil {
		t.Fatal("the cluster became ready")
	}
	if code := r.cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	for _, want := range []string{"kube-apiserver ended by itself: exit status 1", "kube-apiserver.log", "unknown flag: --no-such-flag"} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("no %q in stderr:\n%s", want, r.stderr)
		}
	}
}

func TestClosedStdinStopsAllAndCrashesAreRestarted(t *testing.T) {
	t.Parallel()
	r := startUp(t, "--restart")
	if r.client == nil {
		t.Fatal(r.stderr)
	}
	before := r.pid(t, schedulerName)
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "scheduler has a new process", func(context.Context) error {
		b, err := os.ReadFile(filepath.Join(r.dir, schedulerName+".pid"))
		if err != nil {
			return err
		}
		if string(b) == fmt.Sprintln(before) || len(b) == 0 {
			return fmt.Errorf("pid file %q", b)
		}
		return nil
	})
	pids := r.pids(t)
	if err := r.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	if code := r.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d after stdin was closed, want 0; stderr: %s", code, r.stderr)
	}
	eventuallyGone(t, pids)
}

func TestKilledParentTakesComponentsAlong(t *testing.T) {
	t.Parallel()
	r := startUp(t)
	if r.client == nil {
		t.Fatal(r.stderr)
	}
	pids := r.pids(t)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	eventuallyGone(t, pids)
}
