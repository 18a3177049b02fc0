package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/report"
)

type strategySwapOptions struct {
	*common
	output
	clusterFlags
	to, program string
	reset       bool
	wait        time.Duration
}

func newStrategySwap(c *common) *cobra.Command {
	o := &strategySwapOptions{common: c}
	cmd := &cobra.Command{
		Use:   "swap NAME",
		Short: "Run another program as a strategy, without a new pod",
		Long: `swap has the scaler run another program under the name of a strategy that its configuration
has, or that is built in: an OCI artifact or image by digest, or a file that is in the scaler's
pod by its SHA-256. The new one is started, asked to describe and configure itself and tried on
problems; then plans are made with it. Until then, and if it fails, the one before goes on; for
a while after it is looked at, and taken back if it does worse (swap in the configuration).

What is wanted is written beside the configuration and stays when the scaler is started anew
or another leads. It ends with --reset, or when the configuration names another program.

swap waits until the new program is in service. Exit code 1: it is not, and why.

` + fmt.Sprintf(clusterLong, "update"),
		Example: `  weir strategy swap carbon --to registry.example/team/carbon@sha256:3f1c…
  weir strategy swap carbon --to /strategies/carbon/carbon@sha256:9a0e… --context prod
  weir strategy swap carbon --reset`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "IMAGE@sha256:DIGEST, or the PATH of a file in the scaler's pod with @sha256: and its SHA-256")
	f.StringVar(&o.program, "program", "", "the program in the image; its entry point or only file if left out")
	f.BoolVar(&o.reset, "reset", false, "back to the program of the configuration")
	f.DurationVar(&o.wait, "wait", 2*time.Minute, "for how long to wait until it is in service; 0 = not at all")
	o.output.register(cmd)
	o.clusterFlags.register(cmd)
	return cmd
}

// request is what the flags ask for.
func (o *strategySwapOptions) request() (admin.SwapRequest, error) {
	if o.reset {
		if o.to != "" || o.program != "" {
			return admin.SwapRequest{}, bad("--reset: expected no --to and no --program beside it")
		}
		return admin.SwapRequest{Reset: true}, nil
	}
	name, sum, pinned := strings.Cut(o.to, "@sha256:")
	switch {
	case o.to == "":
		return admin.SwapRequest{}, bad("--to: expected IMAGE@sha256:DIGEST or PATH@sha256:SUM, or --reset")
	case !pinned || name == "":
		return admin.SwapRequest{}, bad("--to: %s: expected @sha256: and 64 hexadecimal digits at the end: a program is named by its content", o.to)
	case strings.HasPrefix(name, "."):
		return admin.SwapRequest{}, bad("--to: %s: expected an absolute path: the file is in the scaler's pod, not here", name)
	case strings.HasPrefix(name, "/"):
		if o.program != "" {
			return admin.SwapRequest{}, bad("--program: is for images, and --to is a path")
		}
		return admin.SwapRequest{Path: name, SHA256: sum}, nil
	}
	return admin.SwapRequest{Image: o.to, Path: o.program}, nil
}

// swapReport is the answer of weir strategy swap.
type swapReport struct {
	Kind     string          `json:"kind"` // StrategySwap
	Name     string          `json:"name"`
	From     string          `json:"from"`
	To       string          `json:"to"`
	Strategy *admin.Strategy `json:"strategy,omitempty"` // in service
}

func (o *strategySwapOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) != 1 {
		return bad("strategy swap: expected the NAME of one strategy, got %d arguments", len(args))
	}
	want, err := o.request()
	if err != nil {
		return err
	}
	conn, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	got, err := conn.client.Swap(ctx, args[0], want)
	if err != nil {
		return asBadInput(err)
	}
	out := &swapReport{Kind: got.Kind, Name: got.Name, From: got.From, To: got.To}
	if o.wait > 0 {
		if out.Strategy, err = awaitSwap(ctx, &conn.client, got, want.Reset, o.wait); err != nil {
			return fmt.Errorf("strategy %s: %w", got.Name, err)
		}
	}
	return report.Write(o.out, o.format, out)
}

// asBadInput marks answers that say that what was asked for is wrong.
func asBadInput(err error) error {
	var s *admin.StatusError
	if errors.As(err, &s) && (s.Code == 400 || s.Code == 404 || s.Code == 422) {
		return badInput{err}
	}
	return err
}

// lookEvery is the pause between two looks at what has become of a swap.
const lookEvery = 500 * time.Millisecond

// awaitSwap waits until what is wanted is in service, and says why it is not.
func awaitSwap(ctx context.Context, c *admin.Client, want *admin.SwapAnswer, reset bool, limit time.Duration) (*admin.Strategy, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why := "the scaler has not taken it up"
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		l, err := c.List(ctx)
		if err == nil {
			for i := range l.Strategies {
				s := &l.Strategies[i]
				if s.Name != want.Name {
					continue
				}
				if !reset && s.Swapped != nil && s.Swapped.RolledBack != "" && s.Swapped.Program() == want.To {
					return nil, fmt.Errorf("%s was taken back: %s", want.To, s.Swapped.RolledBack)
				}
				there := s.AsWanted && (reset && s.Swapped == nil || s.Swapped != nil && s.Swapped.Program() == want.To)
				if there && (s.State == "ready" || s.State == "in-process") {
					return s, nil
				}
				if s.Pending || there {
					if why = s.State; s.LastError != "" {
						why += ": " + s.LastError
					}
				}
			}
		} else if ctx.Err() == nil {
			why = err.Error()
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is not in service after %v, the one before goes on: %s", want.To, limit, why)
		}
	}
}

// WriteTable says it in a sentence.
func (r *swapReport) WriteTable(w io.Writer) error {
	text := fmt.Sprintf("strategy %s: %s is wanted instead of %s", r.Name, r.To, r.From)
	if s := r.Strategy; s != nil {
		text = fmt.Sprintf("strategy %s: %s (version %s) is in service instead of %s", r.Name, r.To, s.Version, r.From)
		if s.Trial != nil && s.Trial.State == "probation" {
			text += ", on probation"
		}
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
