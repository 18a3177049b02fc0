// Command weir-scaler runs Weir in a cluster: it watches, plans and carries out.
//
// It is wiring only. Configuration comes from a file (--config), the environment and
// flags, those of Karpenter included; what is decided is decided in core/control and
// below. Exit codes: 0 stopped on request; 1 failed; 2 the configuration is wrong or
// asks for something that this version does not have.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // for budgets in a time zone: the image has no such files

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/config/live"
)

// version is set by the linker for releases.
var version = "devel"

// usageError is a mistake of whoever started the program: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	if args := os.Args[1:]; len(args) > 0 && args[0] == "ledger" {
		err = runLedger(ctx, args[1:], os.Environ(), os.Stdin, os.Stdout)
	} else {
		err = run(ctx, args, os.Environ(), os.Stdout)
	}
	var usage usageError
	var bad config.Errors
	switch {
	case err == nil:
	case errors.As(err, &usage), errors.As(err, &bad):
		fmt.Fprintln(os.Stderr, "weir-scaler:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "weir-scaler:", err)
		os.Exit(1)
	}
}

// run reads the configuration and serves until the context ends.
func run(ctx context.Context, args, environ []string, stdout io.Writer) error {
	set := pflag.NewFlagSet("weir-scaler", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	flags := live.BindFlags(set)
	showVersion := set.Bool("version", false, "print the version and exit")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(stdout, "weir-scaler runs Weir in a cluster.\n\n%s\n%s", set.FlagUsages(), ledgerUsage)
			return nil
		}
		return usageError{fmt.Errorf("%w (--help lists the flags)", err)}
	}
	if *showVersion {
		fmt.Fprintln(stdout, "weir-scaler", version)
		return nil
	}
	if set.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: everything is a flag (--help lists them)", set.Arg(0))}
	}
	given := flags.Given()
	// --cloud sim=URL is short for --cloud sim --cloud-address URL.
	if kind, address, ok := strings.Cut(given["cloud"], "="); ok {
		given["cloud"], given["cloud-address"] = kind, address
	}
	env := live.Environment(environ)
	source := live.Source{Role: config.Scaler, Path: flags.File, Env: env, Flags: given}
	cfg, err := source.Read()
	if err != nil {
		return err
	}
	failAt, err := parseFailpoints(env["WEIR_FAILPOINT"])
	if err != nil {
		return usageError{err}
	}
	log, err := newLogger(cfg.Log)
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = log.Sync() }() // stdout of a terminal cannot be synced
	for _, w := range cfg.Warnings {
		log.Warn("configuration", zap.String("warning", w))
	}
	if cfg.MemoryLimit > 0 {
		debug.SetMemoryLimit(cfg.MemoryLimit / 10 * 9)
	}
	return serve(ctx, source, cfg, failAt, log)
}

func newLogger(c config.Log) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	zc := zap.NewProductionConfig()
	zc.Level = zap.NewAtomicLevelAt(level)
	zc.Sampling = nil // a decision must never be missing from the log
	zc.OutputPaths, zc.ErrorOutputPaths = c.OutputPaths, c.ErrorOutputPaths
	zc.EncoderConfig.TimeKey, zc.EncoderConfig.EncodeTime = "time", zapcore.ISO8601TimeEncoder
	zc.DisableCaller, zc.DisableStacktrace = true, true
	log, err := zc.Build()
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return log.With(zap.String("version", version)), nil
}
