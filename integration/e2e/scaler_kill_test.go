package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/harness"
)

// killed is a cluster in which scalers die.
type killed struct {
	*harness.ControlPlane
	ec2    *sim.Client
	bin    string
	config string
}

// scalerConfig has limits that only a process that stands still comes up against:
// leases, which a living scaler must not lose because a call took long (kills shorten
// those of the dead), and what strategies may take.
const scalerConfig = `apiVersion: config.weir.dev/v1alpha1
kind: ScalerConfiguration
cluster: e2e
account: "111122223333"
region: us-east-1
zones: [us-east-1a, us-east-1b, us-east-1c]
cloud: {kind: sim, address: %q}
ledger: {kind: bolt, path: %q}
strategyBinary: %q
leaderElection: {leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 1s}
metrics: {port: 0}
health: {port: 0}
strategies:
  cost-optimal: {startTimeout: 5m, callTimeout: 60s}
  first-fit: {startTimeout: 5m, callTimeout: 60s}
  savings: {startTimeout: 5m, callTimeout: 60s}
`

// leases are those that a scaler of this configuration holds: its own and Karpenter's.
var leases = []string{"weir-leader-election", "karpenter-leader-election"}

// scaler is a running weir-scaler.
type scaler struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

// start runs a scaler, which dies at the failpoint where one is given.
func (k *killed) start(t *testing.T, failpoint string) *scaler {
	t.Helper()
	s := &scaler{log: filepath.Join(t.TempDir(), "scaler.log"), done: make(chan error, 1)}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(filepath.Join(k.bin, "weir-scaler"), "--config", k.config, "--kubeconfig", k.Kubeconfig)
	s.cmd.Env = append(os.Environ(), "WEIR_FAILPOINT="+failpoint)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.done <- errors.Join(s.cmd.Wait(), out.Close())
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended, unless the test failed half-way
		<-s.done
		if t.Failed() {
			text, _ := os.ReadFile(s.log)
			t.Logf("scaler with failpoint %q said:\n%s", failpoint, text)
		}
	})
	return s
}

// dies waits until the failpoint has struck, and lets the leases of the dead run out.
func (k *killed) dies(t *testing.T, s *scaler) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("the failpoint was not reached")
	}
	if st, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != syscall.SIGKILL {
		t.Fatalf("it ended by itself: %v", s.cmd.ProcessState)
	}
	// The holder stays who it was; the next one waits as for any lease that is not renewed.
	client := k.Client.CoordinationV1().Leases("kube-system")
	for _, name := range leases {
		if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"leaseDurationSeconds":1}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// stops asks it to end, which it must do cleanly and soon.
func (s *scaler) stops(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(patience):
		t.Errorf("still running %v after SIGTERM", patience)
	}
}

const killPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    metadata: {labels: {kill: %[1]s}}
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i]}
        - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: Never
  disruption: {consolidateAfter: Never}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: 6
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 2
      nodeSelector: {kill: %[1]s}
      containers:
        - name: c
          image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
          resources: {requests: {cpu: "1500m", memory: 1Gi}}
`

// settled waits until all pods of a pool run and there is one machine for each of its claims.
func (k *killed) settled(t *testing.T, pool string) {
	t.Helper()
	k.WaitPods(t, metav1.NamespaceDefault, "app="+pool, 6, patience, harness.PodReady)
	harness.Eventually(t, "one machine for each claim", patience, func(ctx context.Context) error {
		return k.accounts(ctx, pool)
	})
}

// accounts compares what was bought for a pool with its claims.
func (k *killed) accounts(ctx context.Context, pool string) error {
	claims, err := k.Dynamic.Resource(v1.NodeClaims).List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + pool})
	if err != nil {
		return err
	}
	owner := map[string]string{}
	for _, c := range claims.Items {
		status, _ := c.Object["status"].(map[string]any)
		pid, _ := status["providerID"].(string)
		if pid == "" {
			return fmt.Errorf("claim %s has no instance", c.GetName())
		}
		owner[pid[strings.LastIndex(pid, "/")+1:]] = c.GetName()
	}
	machines, err := k.ec2.Machines(ctx)
	if err != nil {
		return err
	}
	bought := map[string]string{}
	for _, m := range machines {
		if m.Tags["karpenter.sh/nodepool"] != pool {
			continue
		}
		if other := bought[m.Claim]; other != "" {
			return fmt.Errorf("claim %s bought %s and %s", m.Claim, other, m.ID)
		}
		bought[m.Claim] = m.ID
		if owner[m.ID] == "" && !m.Gone() {
			return fmt.Errorf("instance %s has no claim", m.ID)
		}
		delete(owner, m.ID)
	}
	if len(owner) > 0 {
		return fmt.Errorf("claims without a machine: %v", owner)
	}
	return nil
}

// TestScalerDies kills the scaler at moments where a careless one would lose a machine, or buy it twice.
func TestScalerDies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some minutes")
	}
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace)) // its own: the scaler looks after all of it
	c.InstallCRDs(t, crds.FS)
	bin := programs(t)
	url, ec2 := startEC2(t, bin, c, deadline)
	k := &killed{ControlPlane: c, ec2: ec2, bin: bin, config: filepath.Join(t.TempDir(), "config.yaml")}
	memory := filepath.Join(t.TempDir(), "ledger.db")
	text := fmt.Sprintf(scalerConfig, url, memory, filepath.Join(bin, "weir-strategy"))
	if err := os.WriteFile(k.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	class, err := os.ReadFile("../demo/seed/ec2-node-class-default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, metav1.NamespaceDefault, string(class))

	for i, x := range []struct {
		name, at string
		lost     bool // the ledger with it, as a node does that dies with an emptyDir
	}{
		{"claims exist, nothing says what to buy", "CreateClaim:after", false},
		{"before the launch call", "SendLaunch:before", false},
		{"after it and before anything says so", "SendLaunch:after", false},
		{"likewise, and the ledger is lost", "SendLaunch:after", true},
		{"after the record", "CloseLaunch:after", false},
	} {
		t.Run("launch/"+x.name, func(t *testing.T) {
			pool := fmt.Sprintf("kill-%d", i)
			s := k.start(t, x.at)
			c.Apply(t, metav1.NamespaceDefault, fmt.Sprintf(killPool, pool))
			k.dies(t, s)
			if x.lost {
				if err := os.Remove(memory); err != nil {
					t.Fatal(err)
				}
			}
			s = k.start(t, "")
			k.settled(t, pool)
			s.stops(t)
		})
	}
	for _, at := range []string{
		"Evict:after",      // in the middle of a drain
		"Terminate:before", // drained, nothing ended yet
		"Terminate:after",  // ended, and nobody knows
	} {
		t.Run("end/"+at, func(t *testing.T) {
			pool := "kill-0"
			claims, err := c.Dynamic.Resource(v1.NodeClaims).List(t.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + pool})
			if err != nil || len(claims.Items) == 0 {
				t.Fatalf("%d claims (%v)", len(claims.Items), err)
			}
			name := claims.Items[0].GetName()
			s := k.start(t, at)
			if err := c.Dynamic.Resource(v1.NodeClaims).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			k.dies(t, s)
			s = k.start(t, "")
			harness.Eventually(t, "the claim is gone", patience, func(ctx context.Context) error {
				_, err := c.Dynamic.Resource(v1.NodeClaims).Get(ctx, name, metav1.GetOptions{})
				switch {
				case err == nil:
					return fmt.Errorf("claim %s is there", name)
				case !apierrors.IsNotFound(err):
					return err
				}
				return nil
			})
			k.settled(t, pool)
			s.stops(t)
		})
	}
	harness.Eventually(t, "no node is left over or cordoned", patience, func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if !strings.HasPrefix(n.Labels["kill"], "kill-") || hasTaint(n, "karpenter.sh/disrupted") {
				return fmt.Errorf("node %s: labels %v, taints %v", n.Name, n.Labels, n.Spec.Taints)
			}
		}
		return nil
	})
	t.Run("consolidation", k.consolidates)
}

func hasTaint(n corev1.Node, key string) bool {
	for _, x := range n.Spec.Taints {
		if x.Key == key {
			return true
		}
	}
	return false
}
