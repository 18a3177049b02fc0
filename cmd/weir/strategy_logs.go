package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/report"
)

type strategyLogsOptions struct {
	*common
	output
	clusterFlags
	follow bool
	tail   int
}

func newStrategyLogs(c *common) *cobra.Command {
	o := &strategyLogsOptions{common: c}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what a strategy wrote and what the scaler says about it",
		Long: `logs shows the last lines of a strategy, up to a thousand, which the leading scaler keeps in
memory: what the process wrote to its standard output and error, whatever the scaler's own log
level, and what the scaler says about it. With -o json each line is a JSON object.

` + fmt.Sprintf(clusterLong, "get"),
		Example: `  weir strategy logs carbon --context prod
  weir strategy logs carbon --tail 20 --follow -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on as lines come, until interrupted")
	cmd.Flags().IntVar(&o.tail, "tail", 100, "lines from the end to begin with")
	cmd.Flags().StringVarP(&o.format, "output", "o", report.Table, "json or table")
	// an error here would mean that the flag does not exist, one line above
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{report.JSON, report.Table}, cobra.ShellCompDirectiveNoFileComp))
	o.clusterFlags.register(cmd)
	return cmd
}

// keptLines is how many a scaler keeps of a strategy.
const keptLines = 1000

// asked is the strategy, where all flags are as they should be.
func (o *strategyLogsOptions) asked(args []string) (string, error) {
	switch {
	case o.format != report.JSON && o.format != report.Table:
		return "", bad("--output: expected json or table, got %q", o.format)
	case o.tail < 0 || o.tail > keptLines:
		return "", bad("--tail: expected a number from 0 to %d, got %d", keptLines, o.tail)
	}
	name, err := oneStrategy("logs", args)
	if err != nil {
		return "", err
	}
	return name, o.clusterFlags.check()
}

// followEvery is the pause between two looks for new lines.
const followEvery = time.Second

func (o *strategyLogsOptions) run(ctx context.Context, args []string) error {
	name, err := o.asked(args)
	if err != nil {
		return err
	}
	conn, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	after, limit := int64(0), o.tail
	for {
		got, err := conn.client.Logs(ctx, name, after, limit)
		if err != nil {
			if ctx.Err() != nil && o.follow {
				return nil // interrupted, which is how it ends
			}
			return asBadInput(err)
		}
		for _, l := range got.Lines {
			if err := o.line(l); err != nil {
				return err
			}
		}
		if !o.follow {
			return nil
		}
		after, limit = got.Next, keptLines
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

func (o *strategyLogsOptions) line(l admin.Line) error {
	if o.format == report.JSON {
		return json.NewEncoder(o.out).Encode(l)
	}
	return writeLine(o.out, l)
}

func writeLine(w io.Writer, l admin.Line) error {
	text := fmt.Sprintf("%s %-5s %s", l.Time.Format(time.RFC3339), strings.ToUpper(l.Level), l.Message)
	for _, k := range slices.Sorted(maps.Keys(l.Fields)) {
		text += fmt.Sprintf(" %s=%v", k, l.Fields[k])
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
