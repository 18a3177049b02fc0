package strategy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-project/weir/plugins/sdk"
)

// Bounds of what a record may say; no recorder writes more.
const (
	maxRecordedSum  = 1e9 // USD per hour, of many machines
	maxRecordedTook = 1e9 // seconds
)

// inRange says what is wrong with a number of a record.
func inRange(what string, v, low, high float64) error {
	if !(v >= low && v <= high) { // no number is not either
		return fmt.Errorf("%s is %v, want %g to %g", what, v, low, high)
	}
	return nil
}

func recordedSum(what string, usd float64) error {
	return inRange(what+" in USD per hour", usd, 0, maxRecordedSum)
}

// checkCall says what is wrong with a call beside its input and its answer.
func checkCall(r *Record) (expected string, err error) {
	switch answered := len(r.Answer) > 0 && string(r.Answer) != "null"; {
	case !slices.Contains(outcomes, r.Outcome):
		return "an outcome", fmt.Errorf("outcome is %q, want one of %v", r.Outcome, outcomes)
	case answered && r.Outcome != OK:
		return "no answer beside an outcome that is not ok", fmt.Errorf("outcome is %q", r.Outcome)
	case !answered && r.Outcome == OK:
		return "an answer beside the outcome ok", errors.New("there is none")
	case r.Strategy == "":
		return "the name of a strategy", errors.New("it is missing")
	case r.Instead != nil && r.Outcome == OK:
		return "nobody instead beside the outcome ok", fmt.Errorf("%q answered", r.Instead.By)
	case r.Instead != nil && (r.Instead.By == "" || r.Instead.Rung != ByLastGood && r.Instead.Rung != ByBuiltin):
		return "who answered instead", fmt.Errorf("it was %q of rung %q, want a name, and %s or %s", r.Instead.By, r.Instead.Rung, ByLastGood, ByBuiltin)
	}
	return "how long the call took", inRange("tookSeconds", r.TookSeconds, 0, maxRecordedTook)
}

// check says what is wrong with what a shadow made of a problem.
func (d *Difference) check() error {
	switch {
	case !slices.Contains(outcomes, d.Outcome):
		return fmt.Errorf("outcome is %q, want one of %v", d.Outcome, outcomes)
	case d.Strategy == "":
		return errors.New("the name of a strategy is missing")
	case d.Kind != sdk.InstanceSelection && d.Kind != sdk.Consolidation:
		return fmt.Errorf("kind is %q, want %s or %s", d.Kind, sdk.InstanceSelection, sdk.Consolidation)
	case (d.Acting == nil) != (d.Candidate == nil):
		return errors.New("it has one of acting and candidate, want both or none")
	case d.Disagreements < 0 || d.Disagreements > d.Verdicts || len(d.Examples) > d.Disagreements:
		return fmt.Errorf("%d verdicts, %d disagreements and %d examples: want no more of each than of the one before", d.Verdicts, d.Disagreements, len(d.Examples))
	}
	errs := []error{inRange("tookSeconds", d.TookSeconds, 0, maxRecordedTook)}
	for _, c := range []*PlanCost{d.Acting, d.Candidate} {
		if c != nil {
			errs = append(errs, recordedSum("a plan", c.USDPerHour), inRange("nodes", float64(c.Nodes), 0, sdk.MaxTexts*100), inRange("unplaced", float64(c.Unplaced), 0, sdk.MaxTexts*100))
		}
	}
	for i := range d.Examples {
		errs = append(errs, inRange("savingsUsdPerHour", d.Examples[i].SavingsUSDPerHour, -maxRecordedSum, maxRecordedSum))
	}
	return errors.Join(errs...)
}

// checkMarket says what is wrong with the prices and commitments of a request.
func checkMarket(req *sdk.PriceRequest) error {
	for o, usd := range req.USDPerHour {
		if err := inRange("price", usd, 0, sdk.MaxUSDPerHour); err != nil {
			return fmt.Errorf("offering %d: %w", o, err)
		}
	}
	for o, h := range req.Health {
		if h.Shortages < 0 || h.Interruptions < 0 || h.ReservationLeft < 0 {
			return fmt.Errorf("offering %d: %d shortages, %d interruptions, %d left of a reservation", o, h.Shortages, h.Interruptions, h.ReservationLeft)
		}
	}
	for i := range req.Commitments {
		c := &req.Commitments[i]
		errs := []error{recordedSum("what is committed", c.USDPerHour), recordedSum("what is used", c.UsedUSDPerHour), inRange("discount", c.Discount, 0, 1)}
		for _, t := range sortedNames(c.USDPerHourByType) {
			errs = append(errs, recordedSum(t, c.USDPerHourByType[t]))
		}
		if c.Nodes < 0 || c.UsedNodes < 0 {
			errs = append(errs, fmt.Errorf("%d nodes, %d used", c.Nodes, c.UsedNodes))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("commitment %q: %w", c.Name, err)
		}
	}
	if d := req.Demand; d.Pods < 0 || d.CPUMilli < 0 || d.MemoryBytes < 0 {
		return fmt.Errorf("a demand of %d pods, %d milli-CPU and %d bytes", d.Pods, d.CPUMilli, d.MemoryBytes)
	}
	return nil
}

// checkMove says what is wrong with the numbers of a move.
func checkMove(m *sdk.Move) error {
	errs := []error{recordedSum("usdPerHourBefore", m.USDPerHourBefore), recordedSum("usdPerHourAfter", m.USDPerHourAfter),
		recordedSum("usdPerHourWorst", m.USDPerHourWorst), recordedSum("committed", m.Committed)}
	if m.PodsEvicted < 0 {
		errs = append(errs, fmt.Errorf("%d pods are evicted", m.PodsEvicted))
	}
	for i := range m.Remove {
		errs = append(errs, inRange("price of "+m.Remove[i].Name, m.Remove[i].USDPerHour, 0, sdk.MaxUSDPerHour))
	}
	for i := range m.Launch {
		errs = append(errs, inRange("price of a new node", m.Launch[i].USDPerHour, 0, sdk.MaxUSDPerHour))
	}
	return errors.Join(errs...)
}
