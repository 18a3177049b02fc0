package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/kube/live"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/kube/raw"
)

// source names the cluster that a question is about where no file is.
type source struct {
	kubeconfig, context string
	timeout             time.Duration
}

// registerCluster adds the flags of questions that a cluster can answer, too.
func (i *inputs) registerCluster(cmd *cobra.Command) {
	i.register(cmd)
	f := cmd.Flags()
	f.Lookup("filename").Usage = "file, folder or - (standard input) with manifests, YAML or JSON; may be repeated; the cluster of the kubeconfig if left out"
	f.StringVar(&i.cluster.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; KUBECONFIG or ~/.kube/config if left out")
	f.StringVar(&i.cluster.context, "context", "", "context of the kubeconfig; its current one if left out")
	f.DurationVar(&i.cluster.timeout, "request-timeout", 30*time.Second, "for each request to the API server")
	// an error here would mean that the flag does not exist, four lines above
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// ask makes the world of the files, or of the cluster where none is given.
func (i *inputs) ask(ctx context.Context) (*situation, error) {
	if i.cluster.timeout <= 0 {
		return nil, bad("--request-timeout: expected a duration above 0, got %s", i.cluster.timeout)
	}
	if len(i.files) > 0 {
		if c := i.cluster; c.kubeconfig != "" || c.context != "" {
			return nil, bad("-f: expected no cluster beside files, got --kubeconfig %q, --context %q", c.kubeconfig, c.context)
		}
		return i.load()
	}
	return i.situation(func(o load.Options) (*load.Input, error) { return i.cluster.read(ctx, o) })
}

// read is the cluster as it is now.
func (s *source) read(ctx context.Context, o load.Options) (*load.Input, error) {
	cfg, err := raw.Config(s.kubeconfig, s.context)
	if errors.Is(err, raw.ErrNoCluster) {
		return nil, bad("-f: expected at least one file, folder or - (standard input), or a cluster: %w", err)
	}
	if err != nil {
		return nil, badInput{err}
	}
	cfg.Timeout = s.timeout
	in, err := live.Read(ctx, cfg, o)
	var unreadable *load.Error
	switch {
	case errors.Is(err, live.ErrRight):
		return nil, fmt.Errorf("%w\nweir explain rbac prints a ClusterRole with the rights that are needed", err)
	case errors.As(err, &unreadable):
		return nil, badInput{err}
	case err != nil:
		return nil, fmt.Errorf("cluster %s: %w", cfg.Host, err)
	}
	return in, nil
}
