package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/config/live"
	"github.com/weir-project/weir/core/ledger/archive"
	"github.com/weir-project/weir/core/userfile"
)

const ledgerUsage = `weir-scaler ledger works on the ledger of the configuration, with the scaler's own
rights, and takes the same flags:

  weir-scaler ledger ls [PARTITION [PREFIX]]        partitions, or the records of one
  weir-scaler ledger show PARTITION SORT            one record
  weir-scaler ledger show INSTANCE                  all that is remembered about an instance
  weir-scaler ledger export                         everything of this cluster and account, as JSON lines
  weir-scaler ledger import ARCHIVE [--overwrite]   what export wrote; - for standard input

A bolt ledger is read while no scaler has it open. Of a DynamoDB table the records of
--cluster-name, --account and --region are seen.
`

// runLedger carries out a verb on the ledger of the configuration.
func runLedger(ctx context.Context, args, environ []string, stdin io.Reader, stdout io.Writer) (err error) {
	set := pflag.NewFlagSet("weir-scaler ledger", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	flags := live.BindFlags(set)
	format := set.StringP("output", "o", "table", "json or table")
	overwrite := set.Bool("overwrite", false, "import over records that are there")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			_, err := fmt.Fprint(stdout, ledgerUsage)
			return err
		}
		return usageError{fmt.Errorf("%w (weir-scaler ledger --help lists the verbs)", err)}
	}
	words := set.Args()
	if len(words) == 0 {
		return usageError{errors.New("ledger: expected one of ls, show, export, import (--help says more)")}
	}
	if *format != "json" && *format != "table" {
		return usageError{fmt.Errorf("--output: expected json or table, got %q", *format)}
	}
	cfg, err := live.Source{Role: config.Scaler, Path: flags.File, Env: live.Environment(environ), Flags: flags.Given()}.Read()
	if err != nil {
		return err
	}
	if cfg.Ledger.Kind == config.LedgerBolt {
		if _, err := os.Stat(cfg.Ledger.Path); err != nil && words[0] != "import" {
			return usageError{fmt.Errorf("ledger.path: %w", err)} // to look must not make one
		}
	}
	store, err := openLedger(ctx, cfg.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	v := archive.Verbs{
		Store: store, Scope: archive.Scope{Cluster: cfg.Cluster, Account: cfg.Account, Region: cfg.Region},
		Now: time.Now(), In: stdin, Out: stdout, JSON: *format == "json",
	}
	err = verb(ctx, v, words, *overwrite)
	if errors.Is(err, archive.ErrUsage) || errors.Is(err, archive.ErrInput) {
		return usageError{err}
	}
	return err
}

func verb(ctx context.Context, v archive.Verbs, words []string, overwrite bool) error {
	name, rest := words[0], words[1:]
	switch {
	case name == "ls":
		return v.List(ctx, rest)
	case name == "show":
		return v.Show(ctx, rest)
	case name == "export" && len(rest) == 0:
		return v.Export(ctx)
	case name == "import" && len(rest) == 1:
		if rest[0] != "-" {
			f, err := userfile.Open(rest[0])
			if err != nil {
				return fmt.Errorf("%w: %w", archive.ErrUsage, err)
			}
			defer func() { _ = f.Close() }() // it was only read
			v.In = f
		}
		return v.Import(ctx, overwrite)
	}
	return fmt.Errorf("%w: expected ls, show, export or import ARCHIVE, got %q (--help says more)", archive.ErrUsage, words)
}
