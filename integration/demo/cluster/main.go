// Command cluster plays the demo on a real control plane: the seed's manifests, a
// spot interruption, and machines given back, with weir-scaler as it runs in a
// cluster, a simulated EC2, and fake kubelets that join its machines.
//
// WEIR_DEVCLUSTER names the binary of integration/devcluster; with KUBECONFIG set
// that cluster is used instead. Everything that it starts ends with it, however it
// ends, and what it has made in a cluster of yours is removed. With --keep it stays at the end until it is interrupted, for kubectl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-project/weir/core/cloud/sim"
)

type options struct {
	devcluster, simcloud, scaler, strategy string
	manifests                              string
	consolidateAfter                       string
	limit                                  time.Duration
	keep                                   bool
}

func init() { runtime.LockOSThread() } // children are told of the death of the thread that started them

func main() {
	var o options
	bin := os.Getenv("WEIR_BIN")
	flag.StringVar(&o.devcluster, "devcluster", os.Getenv("WEIR_DEVCLUSTER"), "binary of integration/devcluster; not needed where KUBECONFIG is set")
	flag.StringVar(&o.simcloud, "simcloud", filepath.Join(bin, "simcloud"), "binary of integration/simcloud")
	flag.StringVar(&o.scaler, "scaler", filepath.Join(bin, "weir-scaler"), "binary of cmd/weir-scaler")
	flag.StringVar(&o.strategy, "strategy", filepath.Join(bin, "weir-strategy"), "binary of cmd/weir-strategy")
	flag.StringVar(&o.manifests, "manifests", "integration/demo", "folder of the demo's manifests")
	flag.StringVar(&o.consolidateAfter, "consolidate-after", "30s", "of the pool demo-spot, so that nobody waits; 10m is the manifest's")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "how long any step may take")
	flag.BoolVar(&o.keep, "keep", false, "stay at the end until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted && (err == nil || errors.Is(err, context.Canceled)):
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	var started []*child
	defer func() {
		for i := len(started) - 1; i >= 0; i-- {
			err = errors.Join(err, started[i].stop())
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			for _, c := range started {
				c.tail(os.Stderr)
			}
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	begin := func(c *child, e error) (*child, error) {
		if c != nil {
			started = append(started, c)
		}
		return c, e
	}

	out := newTeller(os.Stdout)
	kubeconfig := os.Getenv("KUBECONFIG")
	foreign := kubeconfig != ""
	if !foreign {
		if o.devcluster == "" {
			return errors.New("neither KUBECONFIG nor WEIR_DEVCLUSTER is set")
		}
		out.title("Starting a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler")
		c, err := begin(start(dir, "devcluster", o.devcluster, "up", "--with-parent", "--dir", filepath.Join(dir, "cluster")))
		if err != nil {
			return err
		}
		if kubeconfig, err = c.ready(ctx, "kubeconfig", 2*time.Minute); err != nil {
			return err
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	cfg.QPS, cfg.Burst = 200, 400
	k, err := newKube(cfg)
	if err != nil {
		return err
	}
	out.say("cluster", "kubectl --kubeconfig "+kubeconfig+" get nodepools,nodeclaims,nodes,pods")
	if err := k.installCRDs(ctx, o.limit); err != nil {
		return err
	}
	cloud, err := begin(start(dir, "simcloud", o.simcloud, "--with-parent", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--cluster", "seed"))
	if err != nil {
		return err
	}
	url, err := cloud.ready(ctx, "url", 30*time.Second)
	if err != nil {
		return err
	}
	out.say("cluster", "simulated EC2 at "+url+" (/control/instances, /control/bill, /control/events)")
	scaler, err := begin(start(dir, "weir-scaler", o.scaler, scalerArgs(dir, kubeconfig, url, o.strategy)...))
	if err != nil {
		return err
	}
	story := &story{o: o, k: k, ec2: sim.Dial(url), out: out, scaler: scaler, start: time.Now()}
	failed := story.play(ctx)
	if o.keep && failed == nil {
		out.title("Everything stays until you interrupt it (Ctrl-C)")
		<-ctx.Done()
	}
	if foreign {
		out.title("Removing what the demo has made in this cluster; the definitions stay")
		failed = errors.Join(failed, k.remove(context.WithoutCancel(ctx), o.limit))
	}
	return failed
}

func scalerArgs(dir, kubeconfig, url, strategy string) []string {
	return []string{"--kubeconfig", kubeconfig, "--cluster-name", "seed", "--region", "us-east-1", "--account", "111122223333",
		"--zones", "us-east-1a,us-east-1b,us-east-1c", "--cloud", "sim", "--cloud-address", url,
		"--ledger", "bolt", "--ledger-path", filepath.Join(dir, "ledger.db"), "--strategy-binary", strategy,
		"--metrics-port", "0", "--health-probe-port", "0"}
}
