package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the components: the first argument of the re-executed binary, and the
// stem of log, pid and kubeconfig files.
const (
	etcdName              = "etcd"
	apiserverName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
)

// upstreamNames are the components whose flags --extra-arg may extend.
var upstreamNames = []string{apiserverName, controllerManagerName, schedulerName}

// cluster knows where everything is: directory, ports and the flags made of them.
type cluster struct {
	dir                                        string
	apiPort, etcdPort, etcdPeer, schedulerPort int
	nodeMonitorGrace                           time.Duration
	extraArgs                                  map[string][]string
}

// newCluster picks ports and writes certificates and kubeconfigs. It drops the
// logs of an earlier run, and its etcd data unless it is to be kept.
func newCluster(o *upOptions) (*cluster, error) {
	c := &cluster{dir: o.dir, apiPort: o.port, nodeMonitorGrace: o.nodeMonitorGrace, extraArgs: o.extraArgs}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	if c.apiPort == 0 {
		c.apiPort = ports[0]
	}
	c.etcdPort, c.etcdPeer, c.schedulerPort = ports[1], ports[2], ports[3]
	for _, name := range append([]string{etcdName}, upstreamNames...) {
		if err := os.RemoveAll(c.path(name + ".log")); err != nil {
			return nil, fmt.Errorf("drop old log: %w", err)
		}
	}
	if !o.keepData {
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return nil, fmt.Errorf("drop old data: %w", err)
		}
	}
	p, err := newPKI()
	if err != nil {
		return nil, err
	}
	if err := p.save(c.dir); err != nil {
		return nil, err
	}
	return c, errors.Join(
		p.writeKubeconfig(c.adminKubeconfig(), c.url(), "devcluster-admin", "system:masters"),
		p.writeKubeconfig(c.kubeconfig(controllerManagerName), c.url(), "system:kube-controller-manager"),
		p.writeKubeconfig(c.kubeconfig(schedulerName), c.url(), "system:kube-scheduler"),
	)
}

// Ports are chosen below those that kernels give to outgoing connections and to
// whoever asks for any: nobody is given one by chance between its choice and its use,
// which for a component that is started again is any time.
const (
	lowestPort  = 10000
	highestPort = 29999
)

// freePorts returns n different ports that nobody listens on. All are held until
// the last is found. Another process may still take one on purpose, which the
// component that wants it reports.
func freePorts(n int) (ports []int, err error) {
	var last error
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // never accepted on: nothing to lose
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports: %w", n, last)
}

func (c *cluster) path(name string) string       { return filepath.Join(c.dir, name) }
func (c *cluster) kubeconfig(name string) string { return c.path(name + ".kubeconfig") }
func (c *cluster) adminKubeconfig() string       { return c.kubeconfig("admin") }
func (c *cluster) url() string                   { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }
func (c *cluster) schedulerURL() string          { return fmt.Sprintf("https://127.0.0.1:%d", c.schedulerPort) }
func (c *cluster) etcdURL() string               { return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort) }

func (c *cluster) etcdArgs() []string {
	return []string{
		"--dir=" + c.path("etcd"),
		"--client=" + c.etcdURL(),
		fmt.Sprintf("--peer=http://127.0.0.1:%d", c.etcdPeer),
	}
}

func (c *cluster) apiserverArgs() []string {
	return append([]string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // 127.0.0.1 is no legal address of an endpoint
		fmt.Sprintf("--secure-port=%d", c.apiPort),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + c.path("serving.crt"),
		"--tls-private-key-file=" + c.path("serving.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true", // as daemonsets of real clusters ask for it
		"--enable-bootstrap-token-auth=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("service-account.crt"),
		"--service-account-signing-key-file=" + c.path("service-account.key"),
		"--requestheader-client-ca-file=" + c.path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.path("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.path("front-proxy-client.key"),
		"--enable-priority-and-fairness=false", // one user, no need to queue; starts sooner
		"--profiling=false",
	}, c.extraArgs[apiserverName]...)
}

func (c *cluster) controllerManagerArgs() []string {
	kubeconfig := c.kubeconfig(controllerManagerName)
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.path("service-account.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--cluster-signing-cert-file=" + c.path("ca.crt"),
		"--cluster-signing-key-file=" + c.path("ca.key"),
		"--node-monitor-grace-period=" + c.nodeMonitorGrace.String(),
		// A quarter of the grace, so that a short grace is not drowned by the
		// period between two looks; 5s is the upstream default.
		"--node-monitor-period=" + min(5*time.Second, c.nodeMonitorGrace/4).String(),
		"--profiling=false",
		// The default of 20 calls per second would make tests wait for pods of large deployments.
		"--kube-api-qps=300", "--kube-api-burst=500",
	}, c.extraArgs[controllerManagerName]...)
}

func (c *cluster) schedulerArgs() []string {
	kubeconfig := c.kubeconfig(schedulerName)
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.schedulerPort), // for its /readyz
		"--tls-cert-file=" + c.path("serving.crt"),
		"--tls-private-key-file=" + c.path("serving.key"),
		"--leader-elect=false",
		"--profiling=false",
		"--kube-api-qps=300", "--kube-api-burst=500",
	}, c.extraArgs[schedulerName]...)
}
