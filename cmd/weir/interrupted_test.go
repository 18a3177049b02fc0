package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/core/strategy"
)

// countdown is a context that ends when it is asked for the n-th time whether it has.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

func newCountdown(n int64) *countdown {
	c := &countdown{}
	c.Context, c.cancel = context.WithCancel(context.Background())
	c.left.Store(n)
	return c
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// A command that is interrupted ends, whatever it is at, and gives no answer.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input, scenario := filepath.Join(dir, "input.yaml"), filepath.Join(dir, "scenario.yaml")
	for path, text := range map[string]string{input: onePool, scenario: "apiVersion: simulate.weir.dev/v1alpha1\nkind: Scenario\nmetadata: {name: x}\nspec: {start: \"2026-03-02T09:00:00Z\", end: 2h}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := strategy.RecordFiles(recordDay(t, 2), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"simulate", "provision", "-f", input},
		{"simulate", "consolidate", "-f", input},
		{"simulate", "run", "-f", input, "--scenario", scenario},
		{"explain", "pod", "default/a", "-f", input},
		{"explain", "pool", "default", "-f", input},
		{"strategy", "replay", files[0]},
		{"strategy", "bench", "--records", files[0]},
		{"strategy", "bench", "--workload", "a", "--pool", "a", "--shifts", "1000"},
		{"strategy", "bench", "--kind", "consolidation", "--nodes", "20", "--shifts", "1000"},
	} {
		for _, n := range []int64{0, 1} {
			var out, errs bytes.Buffer
			ctx := newCountdown(n)
			code := runUntil(ctx, args, streams{strings.NewReader(""), &out, &errs}, nil)
			if ctx.left.Load() >= 0 {
				t.Errorf("%q: asked less than %d times whether it is interrupted", args, n+1)
			} else if code != exitFailed || out.Len() > 0 || errs.String() != "error: interrupted\n" {
				t.Errorf("%q, interrupted at the %d-th look: code %d, %q, %q", args, n+1, code, out.String(), errs.String())
			}
			ctx.cancel()
		}
	}
}

// A command that listens to nothing, as while it reads what nobody writes, ends as well.
func TestInterruptedWhileReading(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: []string{"weir", "simulate", "provision", "-f", "-"}, Env: os.Environ()}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// more than a pipe holds: when it is written, the command has begun to read
	if _, err := io.WriteString(in, strings.Repeat("# nothing\n", 1<<20/10)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || errs.String() != "error: interrupted\n" {
		t.Errorf("%v after %v, %q", err, time.Since(began), errs.String())
	}
}
