package strategy

import "time"

// TrialStatus tells about the probation of a strategy that took another's place.
type TrialStatus struct {
	State           TrialState
	From            string // name and version of the last good one
	Began           time.Time
	Calls, Failures int64 // since then
	// Plans whose price was compared, and what they cost in sum with the prices of the one
	// before and with its own, USD per hour at the market.
	Plans                        int64
	USDPerHourBefore, USDPerHour float64
}

// TrialState is how far a probation has come.
type TrialState string

// The states of a probation.
const (
	Probation TrialState = "probation"
	Passed    TrialState = "passed"
)

// RollBack says that a strategy was taken out of service again.
type RollBack struct {
	At       time.Time
	From, To string // name and version
	Why      string
}
