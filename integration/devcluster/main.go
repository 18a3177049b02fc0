package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the scheduler and CronJobs need zones where the machine has none

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as the upstream commands register them
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = `usage: devcluster up [flags]     run a control plane until it is stopped (up -h lists the flags)
       devcluster version        print the Kubernetes version

Components, started by "up": etcd, kube-apiserver, kube-controller-manager, kube-scheduler
`

// Exit codes of the command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the multi-call dispatch: the first argument names what this process is.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "up":
		return runUp(rest, stdout, stderr)
	case "version", "--version":
		fmt.Fprintln(stdout, version.Get().GitVersion)
		return exitOK
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case etcdName:
		if err := runEtcd(rest, stderr); err != nil {
			fmt.Fprintln(stderr, "etcd:", err)
			return exitFailed
		}
		return exitOK
	case apiserverName:
		return runUpstream(apiserver.NewAPIServerCommand(), rest)
	case controllerManagerName:
		return runUpstream(kcm.NewControllerManagerCommand(), rest)
	case schedulerName:
		return runUpstream(scheduler.NewSchedulerCommand(), rest)
	}
	fmt.Fprintf(stderr, "devcluster: unknown command %q\n%s", name, usage)
	return exitUsage
}

// runUpstream runs one unmodified upstream command. Each installs its own signal
// handler and process-wide registries, so a process can only ever run one.
func runUpstream(cmd *cobra.Command, args []string) int {
	cmd.SetArgs(args)
	return cli.Run(cmd)
}

func runUp(args []string, stdout, stderr io.Writer) int {
	o, err := parseUp(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(stderr, "devcluster up:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := up(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "devcluster up:", err)
		return exitFailed
	}
	return exitOK
}
