package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/strategy"
)

type strategyPinOptions struct {
	*common
	output
	lock, platform, version string
}

func newStrategyPin(c *common) *cobra.Command {
	o := &strategyPinOptions{common: c}
	cmd := &cobra.Command{
		Use:   "pin NAME=PATH",
		Short: "Write a program into the lock file",
		Long: `pin writes name, version and SHA-256 of a strategy's program into the lock file, which it makes
where there is none. A host with a lock file (strategyLock in the configuration) runs nothing else.

The program is started and asked for its version; one for another platform cannot be, so that
--version says it. The same version for another platform is added; another version takes the
place of the one before, on all platforms. A path alone is named by its file.`,
		Example: `  weir strategy pin carbon=./carbon
  weir strategy pin carbon=./carbon-arm64 --platform linux/arm64 --version 1.2.0`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.lock, "lock", strategy.LockFile, "lock file")
	f.StringVar(&o.platform, "platform", strategy.Platform(), "platform that the program is for")
	f.StringVar(&o.version, "version", "", "version of the strategy; it is asked for it if left out")
	o.register(cmd)
	return cmd
}

// strategyPinned is the answer of weir strategy pin.
type strategyPinned struct {
	Kind     string `json:"kind"` // StrategyPin
	Lock     string `json:"lock"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
	SHA256   string `json:"sha256"`
	Replaces string `json:"replaces,omitempty"` // version
}

func (o *strategyPinOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) != 1 {
		return bad("strategy pin: expected one NAME=PATH, got %d arguments", len(args))
	}
	if err := strategy.CheckPlatform(o.platform); err != nil {
		return bad("--platform: %w", err)
	}
	programs, err := named(args)
	if err != nil {
		return err
	}
	lock, err := strategy.ReadLock(o.lock)
	if errors.Is(err, fs.ErrNotExist) {
		lock, err = &strategy.Lock{}, nil
	}
	if err != nil {
		return badInput{err}
	}
	out := &strategyPinned{Kind: "StrategyPin", Lock: o.lock, Platform: o.platform, Version: o.version}
	for name, path := range programs {
		out.Name = name
		if err := o.sum(ctx, out, path); err != nil {
			return err
		}
	}
	if e := lock.Entry(out.Name); e != nil && e.Version != out.Version {
		out.Replaces = e.Version
	}
	if err := lock.Pin(out.Name, out.Version, out.SHA256, out.Platform); err != nil {
		return badInput{err}
	}
	if err := lock.Write(o.lock); err != nil {
		return err
	}
	return o.answer(o.format, out)
}

// sum fills in what is known of the program: of one that is started, what ran.
func (o *strategyPinOptions) sum(ctx context.Context, out *strategyPinned, path string) error {
	if o.version != "" {
		var err error
		out.SHA256, err = fileSum(path)
		return err
	}
	if o.platform != strategy.Platform() {
		return bad("--version is missing: a program for %s cannot be started here and asked", o.platform)
	}
	if err := executable(path); err != nil {
		return err
	}
	spec := strategy.Spell(pathOf(path))
	spec.Name = out.Name
	p := newPicks(&config.Loaded{Config: config.Default()})
	p.specs[out.Name], p.flags[out.Name] = spec, pickedByFlag{path: path}
	m, err := inspect(ctx, p, out.Name)
	if err != nil {
		return err
	}
	out.Version, out.SHA256 = m.Version, m.SHA256
	return nil
}

// pathOf has a separator in it, so that it is not taken for the name of a built-in.
func pathOf(path string) string {
	if path == "" || path[0] == '/' {
		return path
	}
	return "./" + path
}

// WriteTable says it in a sentence.
func (p *strategyPinned) WriteTable(w io.Writer) error {
	text := fmt.Sprintf("%s: %s %s for %s is sha256 %s", p.Lock, p.Name, p.Version, p.Platform, p.SHA256)
	if p.Replaces != "" {
		text += ", instead of version " + p.Replaces
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
