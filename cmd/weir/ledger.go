package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/archive"
	"github.com/weir-project/weir/core/ledger/bolt"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/report"
)

const ledgerLong = `ledger works on the memory of a scaler as it is in a file: a bolt ledger that no
scaler has open, or an archive that export wrote.

A ledger in DynamoDB, or one that a scaler has, is reached with the scaler's own
configuration and rights: the same verbs are those of "weir-scaler ledger", for
instance by kubectl exec.`

func newLedger(c *common) *cobra.Command {
	return group("ledger", "List, show and carry over what a scaler remembers", ledgerLong,
		newLedgerLs(c), newLedgerShow(c), newLedgerExport(c), newLedgerImport(c))
}

type ledgerOptions struct {
	*common
	output
	file      string
	overwrite bool
}

func (o *ledgerOptions) registerFile(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "file", "", "the bolt ledger or the archive")
	// an error here would mean that the flag does not exist, one line above
	_ = cmd.MarkFlagFilename("file")
}

// registerOutput is output without YAML: records are JSON.
func (o *ledgerOptions) registerOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", report.Table, "json or table")
	// an error here would mean that the flag does not exist, one line above
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{report.JSON, report.Table}, cobra.ShellCompDirectiveNoFileComp))
}

func newLedgerLs(c *common) *cobra.Command {
	o := &ledgerOptions{common: c}
	cmd := &cobra.Command{
		Use:   "ls [PARTITION [PREFIX]]",
		Short: "List partitions, or the records of one",
		Long:  `ls lists the partitions with their numbers of records, or the records of one partition.`,
		Example: `  weir ledger ls --file ledger.db
  weir ledger ls demo/notice i-0abc --file archive.jsonl -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd.Context(), func(v archive.Verbs) error { return v.List(cmd.Context(), args) })
		},
	}
	o.registerFile(cmd)
	o.registerOutput(cmd)
	return cmd
}

func newLedgerShow(c *common) *cobra.Command {
	o := &ledgerOptions{common: c}
	cmd := &cobra.Command{
		Use:   "show PARTITION SORT | show INSTANCE",
		Short: "Show a record, or all records about an instance",
		Long:  `show prints one record, or all that is remembered about an instance.`,
		Example: `  weir ledger show demo/claim 0b7d --file ledger.db
  weir ledger show i-0abc --file archive.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd.Context(), func(v archive.Verbs) error { return v.Show(cmd.Context(), args) })
		},
	}
	o.registerFile(cmd)
	o.registerOutput(cmd)
	return cmd
}

func newLedgerExport(c *common) *cobra.Command {
	o := &ledgerOptions{common: c, output: output{format: report.JSON}}
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write everything as an archive",
		Long:    `export writes all records as an archive: JSON lines, of which the first says what it is.`,
		Example: `  weir ledger export --file ledger.db > archive.jsonl`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(v archive.Verbs) error { return v.Export(cmd.Context()) })
		},
	}
	o.registerFile(cmd)
	return cmd
}

func newLedgerImport(c *common) *cobra.Command {
	o := &ledgerOptions{common: c, output: output{format: report.Table}}
	cmd := &cobra.Command{
		Use:   "import ARCHIVE",
		Short: "Write the records of an archive into a bolt ledger",
		Long: `import writes the records of an archive, - for standard input, into a bolt ledger, which
it makes where there is none. Records that are there already stay as they are, unless
--overwrite is given; expired ones are left out.`,
		Example: `  weir ledger import archive.jsonl --file ledger.db`,
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.importFrom(cmd.Context(), args) },
	}
	o.registerFile(cmd)
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "write over records that are there")
	return cmd
}

// with opens the file and calls f with what is in it.
func (o *ledgerOptions) with(ctx context.Context, f func(archive.Verbs) error) (err error) {
	if o.format != report.JSON && o.format != report.Table {
		return bad("--output: expected json or table, got %q", o.format)
	}
	now, err := o.now()
	if err != nil {
		return err
	}
	s, err := openMemory(ctx, o.file, now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = f(archive.Verbs{Store: s, Now: now, In: o.in, Out: o.out, JSON: o.format == report.JSON})
	if errors.Is(err, archive.ErrUsage) {
		return badInput{err}
	}
	return err
}

func (o *ledgerOptions) importFrom(ctx context.Context, args []string) (err error) {
	if len(args) != 1 || o.file == "" {
		return bad("ledger import: expected ARCHIVE and --file LEDGER")
	}
	now, err := o.now()
	if err != nil {
		return err
	}
	in := o.in
	if args[0] != "-" {
		f, err := openFile(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	s, err := bolt.Open(o.file, bolt.Options{})
	if err != nil {
		return badInput{err}
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = archive.Verbs{Store: s, Now: now, In: in, Out: o.out}.Import(ctx, o.overwrite)
	if errors.Is(err, archive.ErrInput) {
		return badInput{fmt.Errorf("%s: %w", args[0], err)}
	}
	return err
}

// openMemory opens a bolt ledger, or takes an archive into memory.
func openMemory(ctx context.Context, path string, now time.Time) (ledger.Store, error) {
	if path == "" {
		return nil, bad("--file is missing: expected a bolt ledger or an archive of one; a ledger in DynamoDB is read by weir-scaler ledger")
	}
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	first := make([]byte, 1)
	if _, err := io.ReadFull(f, first); err != nil {
		return nil, bad("--file: %s: expected a bolt ledger or an archive of one: %w", path, err)
	}
	if first[0] != '{' {
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			return nil, badInput{err}
		}
		return s, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, bad("--file: %w", err)
	}
	s := mem.New()
	if _, err := archive.Import(ctx, s, f, false, now); err != nil {
		return nil, bad("%s: %w", path, err)
	}
	return s, nil
}
