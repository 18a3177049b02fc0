package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Environment variables that are read.
const (
	EnvKubeconfig = "KUBECONFIG"
	EnvDevcluster = "WEIR_DEVCLUSTER"
)

// Component is a process of a cluster that the harness started.
type Component string

// The components of a devcluster.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
)

// ControlPlane is a cluster that is ready: pods can be created and are scheduled.
type ControlPlane struct {
	// Kubeconfig is the path of an administrator's kubeconfig, for processes under test.
	Kubeconfig string
	// Config has no client-side rate limit. Copy it before changing it.
	Config  *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Mapper learns of new CRDs by itself.
	Mapper *restmapper.DeferredDiscoveryRESTMapper

	dir string // state directory of the devcluster, empty for a cluster of KUBECONFIG
}

// Option changes how a devcluster is started. It has no effect on the cluster of KUBECONFIG.
type Option func(*options)

type options struct{ args []string }

// NodeMonitorGrace is the age of a node's lease, at least a second, from which on the node is NotReady; 30 s by default.
func NodeMonitorGrace(d time.Duration) Option {
	return func(o *options) { o.args = append(o.args, "--node-monitor-grace-period="+d.String()) }
}

// RestartComponents has components started again when they end, for tests that kill them.
func RestartComponents() Option {
	return func(o *options) { o.args = append(o.args, "--restart") }
}

// ExtraArg passes a flag such as "--v=4" to a component other than etcd.
func ExtraArg(c Component, flag string) Option {
	return func(o *options) { o.args = append(o.args, "--extra-arg", string(c)+"="+flag) }
}

// errNoCluster is why tests are skipped.
var errNoCluster = errors.New("no cluster: set " + EnvDevcluster + " to the devcluster binary (make devcluster builds it) or " +
	EnvKubeconfig + " to the kubeconfig of a cluster for tests")

// shared is the cluster of this test binary, started when the first test asks for it.
var shared struct {
	on    bool
	opts  []Option
	once  sync.Once
	plane *ControlPlane
	stop  func() error
	err   error
}

// Shared runs the tests of a package with one cluster for all of them and returns the exit code. The cluster is started
// when the first test asks for it.
func Shared(m *testing.M, opts ...Option) int {
	shared.on, shared.opts = true, opts
	code := m.Run()
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "harness: stop the shared cluster:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Cluster returns a ready cluster, or skips the test where there is none to be had. It is the one of Shared, where that is
// used and no options are given; otherwise one of the test's own, which ends with the test.
func Cluster(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	var plane *ControlPlane
	var err error
	if shared.on && len(opts) == 0 {
		shared.once.Do(func() { shared.plane, shared.stop, shared.err = open(shared.opts) })
		plane, err = shared.plane, shared.err
	} else {
		var stop func() error
		plane, stop, err = open(opts)
		if err == nil {
			t.Cleanup(func() {
				if err := stop(); err != nil {
					t.Errorf("stop the cluster: %v", err)
				}
			})
		}
	}
	if errors.Is(err, errNoCluster) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	return plane
}

// open finds or starts a cluster. stop is never nil when err is.
func open(opts []Option) (plane *ControlPlane, stop func() error, err error) {
	if path := os.Getenv(EnvKubeconfig); path != "" {
		plane, err = connect(path)
		return plane, func() error { return nil }, err
	}
	binary := os.Getenv(EnvDevcluster)
	if binary == "" {
		return nil, nil, errNoCluster
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	p, err := startDevcluster(binary, o.args)
	if err != nil {
		return nil, nil, err
	}
	plane, err = connect(p.kubeconfig)
	if err != nil {
		return nil, nil, errors.Join(err, p.stop())
	}
	plane.dir = p.dir
	return plane, p.stop, nil
}

func connect(kubeconfig string) (*ControlPlane, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	cfg.QPS = -1 // no limit
	cfg.UserAgent = "weir-harness"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", kubeconfig, err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("dynamic client of %s: %w", kubeconfig, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("discovery client of %s: %w", kubeconfig, err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("cluster of %s: %w", kubeconfig, err)
	}
	return &ControlPlane{
		Kubeconfig: kubeconfig, Config: cfg, Client: client, Dynamic: dyn,
		Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
	}, nil
}

// Signal sends a signal to a component of a cluster that the harness started: SIGKILL for a crash, SIGSTOP and SIGCONT for
// one that hangs. Start the cluster with RestartComponents for the first. The test is skipped on the cluster of KUBECONFIG.
func (c *ControlPlane) Signal(t testing.TB, component Component, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(c.PID(t, component), sig); err != nil {
		t.Fatalf("send %v to %s: %v", sig, component, err)
	}
}

// PID is the process id of a component of a cluster that the harness started. It changes when the component is restarted.
func (c *ControlPlane) PID(t testing.TB, component Component) int {
	t.Helper()
	if c.dir == "" {
		t.Skipf("the processes of the cluster of %s are not ours", EnvKubeconfig)
	}
	b, err := os.ReadFile(filepath.Join(c.dir, string(component)+".pid"))
	if err != nil {
		t.Fatalf("process id of %s: %v", component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatalf("process id of %s: %v", component, err)
	}
	return pid
}
