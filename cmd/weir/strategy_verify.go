package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/strategy"
)

type strategyVerifyOptions struct {
	*common
	output
	config, lock, platform string
}

func newStrategyVerify(c *common) *cobra.Command {
	o := &strategyVerifyOptions{common: c}
	cmd := &cobra.Command{
		Use:   "verify [NAME=PATH...]",
		Short: "Hold programs against their pins and the lock file",
		Long: `verify computes the SHA-256 of programs and compares it with the pins of the configuration and
with the lock file. It starts none of them. Without arguments it verifies the strategies of the
configuration whose programs are files here. Exit code 1: something is not what it should be.`,
		Example: `  weir strategy verify --config weir.yaml
  weir strategy verify carbon=./carbon --lock weir-strategies.lock
  weir strategy verify carbon=./carbon-arm64 --lock weir-strategies.lock --platform linux/arm64 -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration file of the controller")
	f.StringVar(&o.lock, "lock", "", "lock file; that of the configuration (strategyLock) if left out")
	f.StringVar(&o.platform, "platform", strategy.Platform(), "platform that the programs are for")
	o.register(cmd)
	return cmd
}

// strategyChecks is the answer of weir strategy verify.
type strategyChecks struct {
	Kind       string          `json:"kind"` // StrategyVerification
	Strategies []strategyCheck `json:"strategies"`
}

type strategyCheck struct {
	Name   string   `json:"name"`
	Path   string   `json:"path,omitempty"`
	SHA256 string   `json:"sha256,omitempty"` // of the file
	Pinned string   `json:"pinned,omitempty"` // in the configuration
	Locked bool     `json:"locked"`           // the lock file has this content
	OK     bool     `json:"ok"`
	Faults []string `json:"faults,omitempty"`
}

func (o *strategyVerifyOptions) run(args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := strategy.CheckPlatform(o.platform); err != nil {
		return bad("--platform: %w", err)
	}
	cfg, err := (&inputs{common: o.common, config: o.config}).configuration()
	if err != nil {
		return err
	}
	var lock *strategy.Lock
	if path := cmp.Or(o.lock, cfg.StrategyLock); path != "" {
		if lock, err = strategy.ReadLock(path); err != nil {
			return badInput{err}
		}
	}
	programs, err := named(args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		for name, s := range cfg.Strategies {
			if s.Path != "" && s.Image == "" {
				programs[name] = s.Path
			}
		}
	}
	if len(programs) == 0 {
		return bad("strategy verify: expected NAME=PATH, or --config with strategies that have a path")
	}
	out := &strategyChecks{Kind: "StrategyVerification"}
	wrong := 0
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		c := verify(name, programs[name], cfg.Strategies[name].SHA256, lock, o.platform)
		if !c.OK {
			wrong++
		}
		out.Strategies = append(out.Strategies, c)
	}
	if err := o.answer(o.format, out); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d strategies are not what they should be", wrong, len(programs))
	}
	return nil
}

// named reads arguments NAME=PATH; a path alone is named by its file.
func named(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range args {
		name, path, ok := strings.Cut(a, "=")
		if !ok {
			name, path = filepath.Base(a), a
		}
		if name == "" || path == "" {
			return nil, bad("%q: expected NAME=PATH, or a path", a)
		}
		if _, twice := out[name]; twice {
			return nil, bad("strategy %q is there twice: expected NAME=PATH with another name", name)
		}
		out[name] = path
	}
	return out, nil
}

func verify(name, path, pinned string, lock *strategy.Lock, platform string) strategyCheck {
	c := strategyCheck{Name: name, Path: path, Pinned: pinned}
	sum, err := fileSum(path)
	if err != nil {
		c.Faults = append(c.Faults, err.Error())
		return c
	}
	c.SHA256 = sum
	if pinned != "" && !strings.EqualFold(pinned, sum) {
		c.Faults = append(c.Faults, "the configuration pins "+pinned)
	}
	if lock != nil {
		if err := lock.Check(name, "", sum, platform); err != nil {
			c.Faults = append(c.Faults, err.Error())
		} else {
			c.Locked = true
		}
	}
	if pinned == "" && lock == nil {
		c.Faults = append(c.Faults, "nothing pins it: neither the configuration nor a lock file")
	}
	c.OK = len(c.Faults) == 0
	return c
}

// fileSum is the SHA-256 of a file that can be executed.
func fileSum(path string) (string, error) {
	if err := executable(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// executable is nil for a file that can be executed.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return bad("%s: expected an executable file: %w", path, reason(err))
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return bad("%s: expected an executable file", path)
	}
	return nil
}

// reason is an error without the path that it happened to.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// WriteTable shows a line for each strategy, and what is wrong below.
func (s *strategyChecks) WriteTable(w io.Writer) error {
	rows := [][]string{{"NAME", "RESULT", "PINNED", "LOCKED", "SHA256", "PATH"}}
	var faults []string
	for _, c := range s.Strategies {
		result, pinned, locked := "ok", "-", "-"
		if !c.OK {
			result = "WRONG"
		}
		if c.Pinned != "" {
			pinned = "yes"
		}
		if c.Locked {
			locked = "yes"
		}
		rows = append(rows, []string{c.Name, result, pinned, locked, cmp.Or(c.SHA256, "-"), c.Path})
		for _, f := range c.Faults {
			faults = append(faults, c.Name+": "+f)
		}
	}
	if err := writeRows(w, rows); err != nil {
		return err
	}
	for i, f := range faults {
		if i == 0 {
			f = "\n" + f
		}
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return nil
}
