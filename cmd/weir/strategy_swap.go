package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/config"
)

type strategySwapOptions struct {
	*common
	output
	clusterFlags
	to, program string
	reset       bool
	back, retry bool
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

With --back the version that was in service before takes the strategy's place again, at once,
whether this one came by command or by the configuration. What was taken back, so or by the
scaler itself, is not tried again until --retry, --reset or a newer word.

swap waits until the new program is in service. Exit code 1: it is not, and why.

` + fmt.Sprintf(clusterLong, "update"),
		Example: `  weir strategy swap carbon --to registry.example/team/carbon@sha256:3f1c…
  weir strategy swap carbon --to /strategies/carbon/carbon@sha256:9a0e… --context prod
  weir strategy swap carbon --reset
  weir strategy swap carbon --back
  weir strategy swap carbon --retry`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "IMAGE@sha256:DIGEST, or the PATH of a file in the scaler's pod with @sha256: and its SHA-256")
	f.StringVar(&o.program, "program", "", "the program in the image; its entry point or only file if left out")
	f.BoolVar(&o.reset, "reset", false, "back to the program of the configuration")
	f.BoolVar(&o.back, "back", false, "back to the version that was in service before this one")
	f.BoolVar(&o.retry, "retry", false, "try once more what was taken back")
	f.DurationVar(&o.wait, "wait", 2*time.Minute, "for how long to wait until it is in service; 0 = not at all")
	o.output.register(cmd)
	o.clusterFlags.register(cmd)
	return cmd
}

// asked is the strategy and what the flags ask for it, all checked.
func (o *strategySwapOptions) asked(args []string) (string, admin.SwapRequest, error) {
	if err := o.output.check(); err != nil {
		return "", admin.SwapRequest{}, err
	}
	name, err := oneStrategy("swap", args)
	if err != nil {
		return "", admin.SwapRequest{}, err
	}
	if o.wait < 0 {
		return "", admin.SwapRequest{}, bad("--wait: expected a duration of at least 0, got %v", o.wait)
	}
	want, err := o.request()
	if err != nil {
		return "", admin.SwapRequest{}, err
	}
	return name, want, o.clusterFlags.check()
}

// request is what the flags ask for.
func (o *strategySwapOptions) request() (admin.SwapRequest, error) {
	others := 0
	for _, flag := range []struct {
		name  string
		given bool
	}{{"reset", o.reset}, {"back", o.back}, {"retry", o.retry}} {
		if !flag.given {
			continue
		}
		if others++; others > 1 {
			return admin.SwapRequest{}, bad("--%s: expected only one of --reset, --back and --retry", flag.name)
		}
		if o.to != "" || o.program != "" {
			return admin.SwapRequest{}, bad("--%s: expected no --to and no --program beside it", flag.name)
		}
	}
	if others > 0 {
		return admin.SwapRequest{Reset: o.reset, Back: o.back, Retry: o.retry}, nil
	}
	name, sum, pinned := strings.Cut(o.to, "@sha256:")
	switch {
	case o.to == "":
		return admin.SwapRequest{}, bad("--to: expected IMAGE@sha256:DIGEST or PATH@sha256:SUM, or --reset, --back or --retry")
	case !pinned || name == "":
		return admin.SwapRequest{}, bad("--to: %s: expected @sha256: and 64 hexadecimal digits at the end: a program is named by its content", o.to)
	case !digestForm.MatchString(sum):
		return admin.SwapRequest{}, bad("--to: %s: expected 64 hexadecimal digits in small letters after @sha256:, got %q", o.to, sum)
	case strings.HasPrefix(name, "."):
		return admin.SwapRequest{}, bad("--to: %s: expected an absolute path: the file is in the scaler's pod, not here", name)
	case strings.HasPrefix(name, "/"):
		if o.program != "" {
			return admin.SwapRequest{}, bad("--program: is for images, and --to is a path")
		}
		return admin.SwapRequest{Path: name, SHA256: sum}, nil
	}
	if !config.PinnedImage(o.to) {
		return admin.SwapRequest{}, bad("--to: %s: expected registry/repository@sha256:DIGEST", o.to)
	}
	return admin.SwapRequest{Image: o.to, Path: o.program}, nil
}

// digestForm is a SHA-256.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// swapReport is the answer of weir strategy swap.
type swapReport struct {
	Kind     string          `json:"kind"` // StrategySwap
	Name     string          `json:"name"`
	From     string          `json:"from"`
	To       string          `json:"to"`
	Back     bool            `json:"back,omitempty"`     // from and to are versions, and to is in service
	Strategy *admin.Strategy `json:"strategy,omitempty"` // in service
}

func (o *strategySwapOptions) run(ctx context.Context, args []string) error {
	name, want, err := o.asked(args)
	if err != nil {
		return err
	}
	conn, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	got, err := conn.client.Swap(ctx, name, want)
	if err != nil {
		return asBadInput(err)
	}
	out := &swapReport{Kind: got.Kind, Name: got.Name, From: got.From, To: got.To}
	out.Back = want.Back
	if o.wait > 0 && !want.Back { // which is done when it is answered
		if out.Strategy, err = awaitSwap(ctx, &conn.client, got, o.wait); err != nil {
			return fmt.Errorf("strategy %s: %w", got.Name, err)
		}
	}
	return o.answer(o.format, out)
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
func awaitSwap(ctx context.Context, c *admin.Client, want *admin.SwapAnswer, limit time.Duration) (*admin.Strategy, error) {
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
				if why, ok := takenBack(s, want); ok {
					return nil, fmt.Errorf("%s was taken back: %s", want.To, why)
				}
				if s.Name != want.Name {
					continue
				}
				stillBack := s.RollBack != nil && s.RollBack.Strategy == s.Name
				there := s.AsWanted && !stillBack && (!want.Swapped && s.Swapped == nil || s.Swapped != nil && s.Swapped.Program() == want.To)
				if there && (s.State == "ready" || s.State == "in-process") {
					return s, nil
				}
				if s.Pending || there {
					why = progress(s, l.Strategies)
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

// takenBack says why what is wanted was taken back since, if it was.
func takenBack(s *admin.Strategy, want *admin.SwapAnswer) (why string, ok bool) {
	switch swap, back := s.Swapped, s.RollBack; {
	case s.Name == want.Name && want.Swapped && swap != nil && swap.RolledBack != "" && swap.Program() == want.To:
		return swap.RolledBack, true
	case back != nil && back.Strategy == want.Name && back.At.After(want.At):
		return back.Why, true
	}
	return "", false
}

// progress is how far a strategy has come that is to be in service, and whom it waits for.
func progress(s *admin.Strategy, all []admin.Strategy) string {
	why := told(s)
	if s.WaitsFor == "" || s.WaitsFor == s.Name {
		return why
	}
	why += "; its configuration waits for strategy " + s.WaitsFor
	for i := range all { // what is to come is behind what is there
		if x := &all[len(all)-1-i]; x.Name == s.WaitsFor {
			return why + ", which is " + told(x)
		}
	}
	return why
}

func told(s *admin.Strategy) string {
	if s.LastError == "" {
		return s.State
	}
	return s.State + ": " + s.LastError
}

// WriteTable says it in a sentence.
func (r *swapReport) WriteTable(w io.Writer) error {
	text := fmt.Sprintf("strategy %s: %s is wanted instead of %s", r.Name, r.To, r.From)
	if r.Back {
		text = fmt.Sprintf("strategy %s: %s is in service again instead of %s", r.Name, r.To, r.From)
	}
	if s := r.Strategy; s != nil {
		text = fmt.Sprintf("strategy %s: %s (version %s) is in service instead of %s", r.Name, r.To, s.Version, r.From)
		if s.Trial != nil && s.Trial.State == "probation" {
			text += ", on probation"
		}
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
