package conformance

import (
	"fmt"
	"strings"
	"time"
)

// Outcome of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip" // does not apply to this strategy, or cannot be run here
)

// Result is one check.
type Result struct {
	Check   string   `json:"check"`
	Rule    string   `json:"rule"` // what is expected, one line
	Outcome Outcome  `json:"outcome"`
	Reasons []string `json:"reasons,omitempty"` // why it failed or was skipped
	// TookSeconds is the time of the whole check, not of one call.
	TookSeconds float64 `json:"tookSeconds"`
}

// Latency is how long answers to the large problem took.
type Latency struct {
	Method        string  `json:"method"` // Price or Score
	Nodes         int     `json:"nodes"`
	Calls         int     `json:"calls"`
	MedianSeconds float64 `json:"medianSeconds"`
	MaxSeconds    float64 `json:"maxSeconds"`
}

// Report is the answer of the kit.
type Report struct {
	Kind     string    `json:"kind"`
	Strategy string    `json:"strategy,omitempty"` // name and version, once it has said so
	Version  string    `json:"version,omitempty"`
	Passed   bool      `json:"passed"`
	Checks   []Result  `json:"checks"`
	Latency  []Latency `json:"latency,omitempty"`
}

// Failures are the results that failed.
func (r *Report) Failures() []Result {
	var out []Result
	for _, c := range r.Checks {
		if c.Outcome == Failed {
			out = append(out, c)
		}
	}
	return out
}

// maxReasons is how many reasons of one check are kept: one fault often shows many times.
const maxReasons = 5

// finding gathers the reasons of one check.
type finding struct {
	reasons []string
	more    int
	skipped string
}

func (f *finding) errorf(format string, args ...any) {
	if len(f.reasons) == maxReasons {
		f.more++
		return
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	for _, r := range f.reasons {
		if r == text {
			return
		}
	}
	f.reasons = append(f.reasons, text)
}

func (f *finding) result(c check, took time.Duration) Result {
	r := Result{Check: c.name, Rule: c.rule, Outcome: Passed, Reasons: f.reasons, TookSeconds: took.Seconds()}
	switch {
	case len(f.reasons) > 0:
		r.Outcome = Failed
		if f.more > 0 {
			r.Reasons = append(r.Reasons, fmt.Sprintf("and %d more", f.more))
		}
	case f.skipped != "":
		r.Outcome, r.Reasons = Skipped, []string{f.skipped}
	}
	return r
}
