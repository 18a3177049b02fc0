package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/integration/harness"
)

// programs are the binaries of WEIR_BIN, which make sets, or built for this test.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("WEIR_BIN"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/weir-project/weir/cmd/weir-scaler",
		"github.com/weir-project/weir/cmd/weir-strategy", "github.com/weir-project/weir/integration/simcloud")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	return dir
}

// lines keeps what a process said.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(s + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// begin starts a process that ends with the test, and hands each line of its output to heard. kill ends it at once, with no
// time for anything.
func begin(t *testing.T, heard func(string), path string, args ...string) (kill func()) {
	t.Helper()
	name := filepath.Base(path)
	cmd := exec.Command(path, args...)
	stdin, err := cmd.StdinPipe() // its end is what --with-parent waits for
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, read := &lines{}, make(chan struct{})
	go func() {
		defer close(read)
		// Lines of any length: who stops reading stops the process.
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				said.add(strings.TrimSuffix(line, "\n"))
				heard(strings.TrimSuffix(line, "\n"))
			}
			if err != nil {
				return // the pipe is closed once the process has ended
			}
		}
	}()
	killed := false
	t.Cleanup(func() {
		err := stdin.Close()
		if !killed {
			err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
		}
		if e := cmd.Wait(); e != nil && !strings.Contains(e.Error(), "signal: terminated") && !killed {
			err = errors.Join(err, e)
		}
		err = errors.Join(err, in.Close())
		<-read
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said)
		}
	})
	return func() {
		t.Helper()
		killed = true
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}

// startEC2 starts a simulated EC2 whose machines join the cluster, and go so long after their warning.
func startEC2(t *testing.T, bin string, c *harness.ControlPlane, notice time.Duration) (url string, client *sim.Client) {
	t.Helper()
	ready := make(chan string, 1)
	begin(t, func(line string) {
		if u, ok := strings.CutPrefix(line, "READY url="); ok {
			ready <- u
		}
	}, filepath.Join(bin, "simcloud"), "--with-parent", "--kubeconfig", c.Kubeconfig, "--listen", "127.0.0.1:0", "--cluster", "e2e", "--notice", notice.String())
	select {
	case url := <-ready:
		return url, sim.Dial(url)
	case <-time.After(patience):
		t.Fatal("simcloud is not ready")
		return "", nil
	}
}

// instanceOfNode waits until a node is owned by its claim, and names both.
func instanceOfNode(t testing.TB, c *harness.ControlPlane, name string) (instance, claim string) {
	t.Helper()
	harness.Eventually(t, "node "+name+" is registered", patience, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, o := range n.OwnerReferences {
			if o.Kind == "NodeClaim" {
				claim = o.Name
			}
		}
		if instance = n.Labels["weir.dev/instance-id"]; claim == "" || instance == "" {
			return fmt.Errorf("owners %v and labels %v", n.OwnerReferences, n.Labels)
		}
		return nil
	})
	return instance, claim
}

// oneMachinePerClaim compares what runs in EC2 with the claims.
func oneMachinePerClaim(t *testing.T, c *harness.ControlPlane, ec2 *sim.Client) {
	t.Helper()
	harness.Eventually(t, "one machine for each claim", patience, func(ctx context.Context) error {
		machines, err := ec2.Machines(ctx)
		if err != nil {
			return err
		}
		claims, err := c.Dynamic.Resource(v1.NodeClaims).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var running []string
		for _, m := range machines {
			if !m.Gone() {
				running = append(running, m.ID)
			}
		}
		if len(running) != len(claims.Items) {
			return fmt.Errorf("%d machines run, %d claims are there", len(running), len(claims.Items))
		}
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == "karpenter.sh/disrupted" }) {
				return fmt.Errorf("node %s is still cordoned", n.Name)
			}
		}
		return nil
	})
}
