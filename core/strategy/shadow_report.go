package strategy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
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
	P50Seconds    float64         `json:"p50Seconds"`
	P99Seconds    float64         `json:"p99Seconds"`
	Plans         PlanDifferences `json:"plans"`
	Worst         *WorstPlan      `json:"worst,omitempty"` // the one that is dearest beside that of who acts
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

// ReadShadows reads files or folders of what shadows made of problems. That the last line
// of a file is not finished is a warning; everything else that is wrong a *RecordError.
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
			if err := rep.add(file, sums, took); err != nil {
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

func (rep *ShadowReport) add(file string, sums map[string]*ShadowSummary, took map[string][]time.Duration) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for r, err := range ReadRecords(f, file) {
		var bad *RecordError
		switch {
		case errors.As(err, &bad) && bad.Unfinished:
			rep.Warnings = append(rep.Warnings, fmt.Sprintf("%s: line %d is not finished and was left out", file, bad.Line))
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
	s.Verdicts += d.Verdicts
	s.Disagreements += d.Disagreements
	for _, e := range d.Examples {
		if len(s.Examples) < keptExamples {
			s.Examples = append(s.Examples, ShadowExample{At: d.Time, VerdictDifference: e})
		}
	}
}
