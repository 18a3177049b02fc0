package strategy

import "time"

// ShadowStatus sums up what a strategy would have done that sees every problem and
// never acts.
type ShadowStatus struct {
	Problems, Dropped int64 // seen, and not seen because it was behind
	Failures          int64 // problems without a good answer
	P50, P99          time.Duration
	// Plans that were compared with those of who acts, USD per hour at the market: the
	// sum of both, and the most that one plan was dearer by.
	Plans                        int64
	USDPerHourActing, USDPerHour float64
	WorstUSDPerHour              float64
	NodesActing, Nodes           int64
	Verdicts, Disagreements      int64 // on moves
}
