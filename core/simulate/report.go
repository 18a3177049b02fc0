package simulate

import (
	"fmt"
	"time"

	ec2 "github.com/weir-project/weir/core/cloud/sim"
)

// Happening is one thing that happened in the simulated cluster.
type Happening struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"` // step, pods, plan, instance, node, claim, notice, evict, lost, budget, controller, event, expect
	Subject    string    `json:"subject,omitempty"`
	Text       string    `json:"text"`
	Why        string    `json:"why,omitempty"`
	Count      int       `json:"count,omitempty"` // of the pods it is about
	USDPerHour float64   `json:"usdPerHour,omitempty"`
	Warning    bool      `json:"warning,omitempty"`
	Detail     bool      `json:"detail,omitempty"` // of interest when something is looked for
}

// NodeBill is what one machine was and cost.
type NodeBill struct {
	ec2.BillLine
	Launched   time.Time `json:"launched"`
	Registered time.Time `json:"nodeJoined,omitzero"`
	Warned     time.Time `json:"warned,omitzero"`  // notice of its end
	Drained    time.Time `json:"drained,omitzero"` // last pod of a workload left
	Ended      time.Time `json:"ended,omitzero"`
	EndReason  string    `json:"endReason,omitempty"`
	MostPods   int       `json:"mostPods"`
}

// Totals are sums over the whole run.
type Totals struct {
	USD                float64 `json:"usd"`
	NodeHours          float64 `json:"nodeHours"`
	Nodes              int     `json:"nodes"` // bought
	PeakUSDPerHour     float64 `json:"peakUsdPerHour"`
	PodsCreated        int     `json:"podsCreated"`
	PendingPodSeconds  float64 `json:"pendingPodSeconds"` // from creation to binding, summed over pods
	LongestPending     float64 `json:"longestPendingSeconds"`
	Evictions          int     `json:"evictions"`
	ForcedDeletions    int     `json:"forcedDeletions"` // of pods past their budgets
	PodsLost           int     `json:"podsLost"`        // that ran on a machine when it ended
	BrokenBudgets      int     `json:"brokenBudgets"`
	ControllerRestarts int     `json:"controllerRestarts"`
	Effects            int     `json:"effects"`
}

// Check is the outcome of an expectation of the scenario.
type Check struct {
	At    time.Time `json:"at"`
	Title string    `json:"title"`
	OK    bool      `json:"ok"`
	Text  string    `json:"text,omitempty"` // what is not as expected
}

// Sample is the state of the cluster from a moment on.
type Sample struct {
	At         time.Time `json:"at"`
	Pending    int       `json:"pending"`
	Running    int       `json:"running"`
	Nodes      int       `json:"nodes"` // Ready
	USDPerHour float64   `json:"usdPerHour"`
}

// Report is the outcome of a run.
type Report struct {
	Kind       string      `json:"kind"` // SimulationReport
	Scenario   string      `json:"scenario"`
	Title      string      `json:"title,omitempty"`
	Seed       uint64      `json:"seed"`
	Start      time.Time   `json:"start"`
	End        time.Time   `json:"end"`
	Strategy   string      `json:"strategy,omitempty"`
	Happenings []Happening `json:"happenings"`
	Bill       []NodeBill  `json:"bill"`
	Totals     Totals      `json:"totals"`
	Checks     []Check     `json:"checks"`
	Samples    []Sample    `json:"samples"`
	Final      Final       `json:"final"`
	Warnings   []string    `json:"warnings"`
	Closing    string      `json:"-"`
}

// Final is what is left at the end.
type Final struct {
	Pods      map[string]int `json:"pods"`    // by workload
	Pending   int            `json:"pending"` // pods without a node
	Nodes     int            `json:"nodes"`
	Claims    int            `json:"claims"`
	Instances int            `json:"instances"` // that are paid for
	// Unclaimed are instances of the cluster without a NodeClaim, Doubled claims with more than one.
	Unclaimed int `json:"unclaimedInstances"`
	Doubled   int `json:"claimsWithSeveralInstances"`
}

// OK says whether every expectation of the scenario was met.
func (r *Report) OK() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
