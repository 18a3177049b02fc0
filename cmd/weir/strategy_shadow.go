package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/strategy"
)

func newStrategyShadow(c *common) *cobra.Command {
	return group("shadow", "Sum up what candidates would have done",
		`shadow is about candidates that watch: strategies that the scaler's configuration names under
shadow. They see every problem, in the background, and never act.`,
		newShadowReport(c))
}

type shadowReportOptions struct {
	*common
	output
}

func newShadowReport(c *common) *cobra.Command {
	o := &shadowReportOptions{common: c}
	cmd := &cobra.Command{
		Use:   "report FILE|FOLDER...",
		Short: "Sum up what shadows would have done beside those who act",
		Long: `report reads what shadows made of the problems that there were, as the scaler records it in
strategyRecords.folder, and sums it up for each candidate: how often it failed, how fast it
answered, what its plans would have cost at the market beside those that were made, and where
its verdicts on moves are others, with examples. Of one that finds moves by itself it also says
what its plans would have given back.

Sums are over plans: each priced the pods that waited then. A plan that leaves pods without a
place is cheap for that reason, so look at those first.`,
		Example: `  weir strategy shadow report /var/cache/weir/records
  weir strategy shadow report shadow-20260304T120000.jsonl -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.register(cmd)
	return cmd
}

func (o *shadowReportOptions) run(args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) == 0 {
		return bad("strategy shadow report: expected at least one FILE or FOLDER of records")
	}
	rep, err := strategy.ReadShadows(args)
	if err != nil {
		return badInput{err}
	}
	return o.answer(o.format, shadowText{rep})
}

// shadowText shows a report as text; the other formats are the report's own.
type shadowText struct{ *strategy.ShadowReport }

// WriteTable shows one paragraph for each candidate.
func (r shadowText) WriteTable(w io.Writer) error {
	l := &textLines{w: w}
	for i := range r.Candidates {
		if i > 0 {
			l.printf("\n")
		}
		writeCandidate(l, &r.Candidates[i])
	}
	for _, s := range r.Warnings {
		l.printf("warning: %s\n", s)
	}
	return l.err
}

func writeCandidate(l *textLines, c *strategy.ShadowSummary) {
	const stamp = "2006-01-02 15:04"
	l.printf("%s %s, %s to %s\n", c.Strategy, strings.Join(c.Versions, ", "), c.First.UTC().Format(stamp), c.Last.UTC().Format(stamp))
	failed := 0
	var why []string
	for _, out := range []strategy.Outcome{strategy.Dead, strategy.Late, strategy.Invalid, strategy.Empty, strategy.Refused} {
		if n := c.Failures[out]; n > 0 {
			failed += n
			why = append(why, fmt.Sprintf("%d %s", n, out))
		}
	}
	l.printf("  calls         %d, %d without an answer", c.Calls, failed)
	if len(why) > 0 {
		l.printf(" (%s)", strings.Join(why, ", "))
	}
	l.printf("; p50 %.3f s, p99 %.3f s\n", c.P50Seconds, c.P99Seconds)
	if c.FirstError != "" {
		l.printf("  first error   %s\n", c.FirstError)
	}
	p := c.Plans
	if p.Compared > 0 {
		l.printf("  plans         %d compared: %d cheaper, %d dearer\n", p.Compared, p.Cheaper, p.Dearer)
		l.printf("  USD/h         %.4f in sum instead of %.4f; %+.4f a plan in the mean\n", p.USDPerHourCandidate, p.USDPerHourActing, p.MeanUSDPerHour)
		l.printf("  nodes         %d instead of %d\n", p.NodesCandidate, p.NodesActing)
		l.printf("  without place %d pods instead of %d\n", p.UnplacedCandidate, p.UnplacedActing)
	}
	if x := c.Worst; x != nil {
		l.printf("  worst plan    %.4f USD/h on %d nodes instead of %.4f on %d, %s\n", x.Candidate.USDPerHour, x.Candidate.Nodes,
			x.Acting.USDPerHour, x.Acting.Nodes, x.At.UTC().Format(stamp))
	}
	if m := c.Moves; m.Compared > 0 {
		l.printf("  giving back   %d plans compared: %.4f USD/h saved in sum instead of %.4f; %d nodes go instead of %d, for %d new ones instead of %d\n", m.Compared,
			m.SavedUSDPerHourCandidate, m.SavedUSDPerHourActing, m.RemovedCandidate, m.RemovedActing, m.LaunchedCandidate, m.LaunchedActing)
	}
	if c.Verdicts > 0 {
		l.printf("  verdicts      %d, %d are others\n", c.Verdicts, c.Disagreements)
	}
	for _, e := range c.Examples {
		what := fmt.Sprintf("accepts, who acts refuses (%s)", e.ActingReason)
		if e.ActingAccepts {
			what = fmt.Sprintf("refuses (%s), who acts accepts", e.CandidateReason)
		}
		l.printf("    %s, pool %s, %s of %s, saves %.4f USD/h: %s\n", e.At.UTC().Format(stamp), e.Pool, e.Reason, strings.Join(e.Remove, ", "), e.SavingsUSDPerHour, what)
	}
}
