package strategy

import (
	"errors"
	"slices"
	"time"

	"github.com/weir-project/weir/core/userfile"
	"github.com/weir-project/weir/plugins/sdk"
)

// keptExamples of disagreements are shown of one candidate.
const keptExamples = 10

// ShadowReport sums up what shadows would have done.
type ShadowReport struct {
	Kind       string          `json:"kind"` // ShadowReport
	Candidates []ShadowSummary `json:"candidates"`
	Warnings   []string        `json:"warnings"`
}

// ShadowSummary is about one candidate.
type ShadowSummary struct {
	Strategy      string          `json:"strategy"`
	Versions      []string        `json:"versions"`
	First         time.Time       `json:"first"`
	Last          time.Time       `json:"last"`
	Calls         int             `json:"calls"`
	Failures      map[Outcome]int `json:"failures"`
	FirstError    string          `json:"firstError,omitempty"` // of the first call without an answer: why
	P50Seconds    float64         `json:"p50Seconds"`
	P99Seconds    float64         `json:"p99Seconds"`
	Plans         PlanDifferences `json:"plans"`
	Worst         *WorstPlan      `json:"worst,omitempty"` // the one that is dearest beside that of who acts
	Moves         MoveDifferences `json:"moves"`
	Verdicts      int             `json:"verdicts"`
	Disagreements int             `json:"disagreements"`
	Examples      []ShadowExample `json:"examples"`
}

// PlanDifferences compares the candidate's plans with those of who acts, USD per hour at
// the market. Sums are over plans, each of which priced the pods that waited then.
type PlanDifferences struct {
	Compared            int     `json:"compared"`
	USDPerHourActing    float64 `json:"usdPerHourActing"`
	USDPerHourCandidate float64 `json:"usdPerHourCandidate"`
	MeanUSDPerHour      float64 `json:"meanUsdPerHour"` // by which a plan of the candidate is dearer
	Dearer              int     `json:"dearer"`
	Cheaper             int     `json:"cheaper"`
	NodesActing         int     `json:"nodesActing"`
	NodesCandidate      int     `json:"nodesCandidate"`
	UnplacedActing      int     `json:"unplacedActing"`
	UnplacedCandidate   int     `json:"unplacedCandidate"`
}

// MoveDifferences compares plans that give nodes back, of a candidate that finds moves by
// itself, with those of who acts. Sums are over plans, each of which began at the nodes that
// there were then: what one of them saves the next may find again.
type MoveDifferences struct {
	Compared                 int     `json:"compared"`
	SavedUSDPerHourActing    float64 `json:"savedUsdPerHourActing"`
	SavedUSDPerHourCandidate float64 `json:"savedUsdPerHourCandidate"`
	RemovedActing            int     `json:"removedActing"` // nodes
	RemovedCandidate         int     `json:"removedCandidate"`
	LaunchedActing           int     `json:"launchedActing"`
	LaunchedCandidate        int     `json:"launchedCandidate"`
}

func (m *MoveDifferences) add(acting, candidate *MovesGain) {
	m.Compared++
	m.SavedUSDPerHourActing += acting.SavedUSDPerHour
	m.SavedUSDPerHourCandidate += candidate.SavedUSDPerHour
	m.RemovedActing, m.RemovedCandidate = m.RemovedActing+acting.Removed, m.RemovedCandidate+candidate.Removed
	m.LaunchedActing, m.LaunchedCandidate = m.LaunchedActing+acting.Launched, m.LaunchedCandidate+candidate.Launched
}

// WorstPlan is one pair of plans.
type WorstPlan struct {
	At        time.Time `json:"at"`
	Acting    PlanCost  `json:"acting"`
	Candidate PlanCost  `json:"candidate"`
}

// ShadowExample is one disagreement.
type ShadowExample struct {
	At time.Time `json:"at"`
	VerdictDifference
}

// ReadShadows reads files or folders of what shadows made of problems. What is wrong with
// a file is a *RecordError; that the last line of one in a folder, into which somebody may
// be writing, is not finished is a warning.
func ReadShadows(paths []string) (*ShadowReport, error) {
	rep := &ShadowReport{Kind: "ShadowReport", Candidates: []ShadowSummary{}, Warnings: []string{}}
	sums := map[string]*ShadowSummary{}
	took := map[string][]time.Duration{}
	for _, path := range paths {
		files, err := RecordFiles(path, true)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := rep.add(file, file != path, sums, took); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range sortedNames(sums) {
		s := sums[name]
		p50, p99 := quantiles(took[name])
		s.P50Seconds, s.P99Seconds = p50.Seconds(), p99.Seconds()
		if n := s.Plans.Compared; n > 0 {
			s.Plans.MeanUSDPerHour = (s.Plans.USDPerHourCandidate - s.Plans.USDPerHourActing) / float64(n)
		}
		rep.Candidates = append(rep.Candidates, *s)
	}
	return rep, nil
}

func (rep *ShadowReport) add(file string, growing bool, sums map[string]*ShadowSummary, took map[string][]time.Duration) error {
	f, err := userfile.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for r, err := range ReadRecords(f, file) {
		var bad *RecordError
		switch {
		case growing && errors.As(err, &bad) && bad.Unfinished:
			rep.Warnings = append(rep.Warnings, bad.LeftOut())
			return nil
		case err != nil:
			return err
		case r.Shadow == nil:
			return &RecordError{File: file, Line: r.Line, Expected: `what a shadow made of a problem ("shadow")`, Err: errors.New("it is a call: see weir strategy replay")}
		}
		d := r.Shadow
		s := sums[d.Strategy]
		if s == nil {
			s = &ShadowSummary{Strategy: d.Strategy, First: d.Time, Failures: map[Outcome]int{}, Examples: []ShadowExample{}}
			sums[d.Strategy] = s
		}
		s.add(d)
		took[d.Strategy] = append(took[d.Strategy], time.Duration(d.TookSeconds*float64(time.Second)))
	}
	return nil
}

func (s *ShadowSummary) add(d *Difference) {
	s.Calls++
	s.Last = d.Time
	if d.Version != "" && !slices.Contains(s.Versions, d.Version) {
		s.Versions = append(s.Versions, d.Version)
	}
	if d.Outcome != OK {
		s.Failures[d.Outcome]++
		if s.FirstError == "" {
			s.FirstError = sdk.Printable(d.Error, MaxError)
		}
	}
	if d.Acting != nil && d.Candidate != nil {
		p := &s.Plans
		p.Compared++
		p.USDPerHourActing += d.Acting.USDPerHour
		p.USDPerHourCandidate += d.Candidate.USDPerHour
		p.NodesActing += d.Acting.Nodes
		p.NodesCandidate += d.Candidate.Nodes
		p.UnplacedActing += d.Acting.Unplaced
		p.UnplacedCandidate += d.Candidate.Unplaced
		dearer := d.Candidate.USDPerHour - d.Acting.USDPerHour
		switch {
		case dearer > 1e-9:
			p.Dearer++
		case dearer < -1e-9:
			p.Cheaper++
		}
		if s.Worst == nil || dearer > s.Worst.Candidate.USDPerHour-s.Worst.Acting.USDPerHour+1e-9 {
			s.Worst = &WorstPlan{At: d.Time, Acting: *d.Acting, Candidate: *d.Candidate}
		}
	}
	if d.ActingMoves != nil && d.CandidateMoves != nil {
		s.Moves.add(d.ActingMoves, d.CandidateMoves)
	}
	s.Verdicts += d.Verdicts
	s.Disagreements += d.Disagreements
	for _, e := range d.Examples {
		if len(s.Examples) < keptExamples {
			s.Examples = append(s.Examples, ShadowExample{At: d.Time, VerdictDifference: e})
		}
	}
}
