package admin

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/strategy"
)

// Path is where the interface begins. Access is granted by the verbs on it, as a
// non-resource URL of a ClusterRole.
const (
	Path       = "/weir/strategies"
	VerbGet    = "get"    // list, and read logs
	VerbUpdate = "update" // swap, in all its ways
)

// List is the answer of GET /weir/strategies.
type List struct {
	Kind       string     `json:"kind"` // StrategyList
	Scaler     string     `json:"scaler"`
	At         time.Time  `json:"at"`
	Strategies []Strategy `json:"strategies"`
}

// Strategy is all there is to tell about one.
type Strategy struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"` // of decision
	Role      string            `json:"role,omitempty"`
	State     string            `json:"state"`
	Healthy   bool              `json:"healthy"`  // answers by itself, and did so last at all that it is asked for
	AsWanted  bool              `json:"asWanted"` // in service, and of the program that is wanted
	Pending   bool              `json:"pending,omitempty"`
	WaitsFor  string            `json:"waitsFor,omitempty"` // strategy without which what is pending does not begin
	BuiltIn   bool              `json:"builtIn"`
	Bound     bool              `json:"bound"` // decides where a NodePool has no annotation
	Version   string            `json:"version,omitempty"`
	Path      string            `json:"path,omitempty"`
	Image     string            `json:"image,omitempty"`
	SHA256    string            `json:"sha256,omitempty"` // of what runs
	Isolation string            `json:"isolation,omitempty"`
	Sandbox   string            `json:"sandbox,omitempty"`
	PID       int               `json:"pid,omitempty"`
	Starts    int               `json:"starts"`
	Failures  int               `json:"failures"` // in a row
	Calls     Calls             `json:"calls"`
	LastError string            `json:"lastError,omitempty"`
	Swapped   *Swap             `json:"swapped,omitempty"` // by command
	Trial     *Trial            `json:"trial,omitempty"`
	RollBack  *strategyRollBack `json:"rolledBack,omitempty"`
	Shadow    *Shadowed         `json:"shadow,omitempty"`
}

// Calls counts the calls of a strategy since it was configured.
type Calls struct {
	Total       int64            `json:"total"`
	Fallbacks   int64            `json:"fallbacks"` // answered by somebody else
	Outcomes    map[string]int64 `json:"outcomes,omitempty"`
	AnsweredBy  map[string]int64 `json:"answeredBy,omitempty"`
	LastBy      string           `json:"lastAnsweredBy,omitempty"`
	FellBack    []string         `json:"fellBack,omitempty"` // kind and level of what somebody else answered last, with the outcome
	P50Seconds  float64          `json:"p50Seconds"`
	P99Seconds  float64          `json:"p99Seconds"`
	LastError   string           `json:"lastError,omitempty"`
	LastErrorAt *time.Time       `json:"lastErrorAt,omitempty"`
}

// Trial is the probation of a strategy that took another's place.
type Trial struct {
	State            string    `json:"state"`
	From             string    `json:"from"`
	Began            time.Time `json:"began"`
	Calls            int64     `json:"calls"`
	Failures         int64     `json:"failures"`
	Plans            int64     `json:"plans"`
	USDPerHourBefore float64   `json:"usdPerHourBefore"`
	USDPerHour       float64   `json:"usdPerHour"`
}

type strategyRollBack struct {
	At       time.Time `json:"at"`
	Strategy string    `json:"strategy"` // name of what was taken out of service
	From     string    `json:"from"`
	To       string    `json:"to"`
	Why      string    `json:"why"`
}

// Shadowed is what a strategy would have done that never acts.
type Shadowed struct {
	Problems         int64   `json:"problems"`
	Dropped          int64   `json:"dropped"`
	Failures         int64   `json:"failures"`
	Plans            int64   `json:"plans"`
	USDPerHourActing float64 `json:"usdPerHourActing"`
	USDPerHour       float64 `json:"usdPerHour"`
	Verdicts         int64   `json:"verdicts"`
	Disagreements    int64   `json:"disagreements"`
	// Plans that give nodes back, of one that finds moves by itself, and what they save in sum.
	MovePlans             int64   `json:"movePlans"`
	SavedUSDPerHourActing float64 `json:"savedUsdPerHourActing"`
	SavedUSDPerHour       float64 `json:"savedUsdPerHour"`
}

// Line is a line of a strategy's log.
type Line struct {
	Seq     int64          `json:"seq"` // rises by one with each line of a strategy
	Time    time.Time      `json:"time"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
}

// LogLines is the answer of GET /weir/strategies/NAME/logs.
type LogLines struct {
	Kind  string `json:"kind"` // StrategyLogs
	Name  string `json:"name"`
	Lines []Line `json:"lines"`
	Next  int64  `json:"next"` // for after=
}

// SwapRequest is the body of POST /weir/strategies/NAME/swap: the program to run from
// now on, or Reset, which is back to the one of the configuration, or Back, which is back to
// the version before, or Retry, which tries once more what was taken back.
type SwapRequest struct {
	Image  string `json:"image,omitempty"`
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Reset  bool   `json:"reset,omitempty"`
	Back   bool   `json:"back,omitempty"`
	Retry  bool   `json:"retry,omitempty"`
}

// SwapAnswer says what is wanted now; after Back it is in service.
type SwapAnswer struct {
	Kind    string    `json:"kind"` // StrategySwap
	Name    string    `json:"name"`
	From    string    `json:"from"` // program; after Back name and version
	To      string    `json:"to"`
	Swapped bool      `json:"swapped"` // by command: it is not the program of the configuration
	At      time.Time `json:"at"`      // by the scaler's clock
}

// failure is the body of every answer that says no.
type failure struct {
	Error string `json:"error"`
}

// Describe tells about strategies as a host runs them under a configuration, which has
// the swaps in it.
func Describe(list []strategy.Status, cfg *config.Config, swaps Desired) []Strategy {
	out := make([]Strategy, 0, len(list))
	for _, st := range list {
		out = append(out, describe(st, cfg, swaps))
	}
	return out
}

func describe(st strategy.Status, cfg *config.Config, swaps Desired) Strategy {
	s, _ := cfg.Strategy(st.Name)
	_, builtin := config.Builtins()[st.Name]
	c := st.Counts
	out := Strategy{
		Name: st.Name, Kind: s.Kind, Role: string(st.Role), State: string(st.State), Pending: st.Pending, WaitsFor: st.WaitsFor, Version: st.Version, Path: st.Path, SHA256: st.SHA256,
		Image: st.Image, Isolation: s.Isolation, BuiltIn: builtin && s.Path == "" && s.Image == "", PID: st.PID, Starts: st.Starts, Failures: st.Failures, LastError: st.LastError,
		Bound:   st.Name == cfg.Bindings.InstanceSelection || st.Name == cfg.Bindings.Consolidation,
		Healthy: healthy(st), AsWanted: st.Image == s.Image && (s.Image != "" || s.Path == "" || s.Path == st.Path) && st.Role != strategy.LastGood && !st.Pending,
		Calls: Calls{Total: c.Calls, Fallbacks: c.Fallbacks(), Outcomes: counted(c.Outcomes), AnsweredBy: counted(c.Rungs), LastBy: string(c.Rung), FellBack: fellBack(c),
			P50Seconds: c.P50.Seconds(), P99Seconds: c.P99.Seconds(), LastError: c.LastCallError},
	}
	if f := st.Fence; f.Isolation != "" {
		out.Isolation, out.Sandbox = f.Isolation, fence(f)
	}
	if !c.LastCallErrorAt.IsZero() {
		at := c.LastCallErrorAt.UTC()
		out.Calls.LastErrorAt = &at
	}
	if swap, ok := swaps.Strategies[st.Name]; ok {
		out.Swapped = &swap
	}
	if t := st.Trial; t != nil {
		out.Trial = &Trial{State: string(t.State), From: t.From, Began: t.Began.UTC(), Calls: t.Calls, Failures: t.Failures, Plans: t.Plans, USDPerHourBefore: t.USDPerHourBefore, USDPerHour: t.USDPerHour}
	}
	if r := st.RolledBack; r != nil {
		out.RollBack = &strategyRollBack{At: r.At.UTC(), Strategy: r.Name, From: r.From, To: r.To, Why: r.Why}
	}
	for _, r := range swaps.RolledBack { // what the host does not know after a restart
		if r.Serves == st.Name && out.RollBack == nil && !st.Pending && st.Role == strategy.Serving {
			out.RollBack = &strategyRollBack{At: r.At, Strategy: r.Name, From: r.From, To: r.To, Why: r.Why}
		}
	}
	if s := st.Shadow; s != nil {
		out.Shadow = &Shadowed{Problems: s.Problems, Dropped: s.Dropped, Failures: s.Failures, Plans: s.Plans, USDPerHourActing: s.USDPerHourActing, USDPerHour: s.USDPerHour,
			Verdicts: s.Verdicts, Disagreements: s.Disagreements,
			MovePlans: s.MovePlans, SavedUSDPerHourActing: s.SavedUSDPerHourActing, SavedUSDPerHour: s.SavedUSDPerHour}
	}
	return out
}

// fence says in a few words what keeps a strategy from the rest of the machine.
func fence(f strategy.Fence) string {
	switch {
	case !f.Whole:
		return "not whole: " + f.Missing
	case f.Landlock > 0:
		return fmt.Sprintf("landlock %d", f.Landlock)
	}
	return "whole"
}

// fellBack is what somebody else answered last, in words.
func fellBack(c strategy.Counts) (out []string) {
	for _, t := range c.FellBack() {
		out = append(out, fmt.Sprintf("%s %s: %s", t.Kind, t.Level, c.Last[t].Outcome))
	}
	return out
}

// healthy says that a strategy answers by itself, and that no last call of a kind and level
// says otherwise.
func healthy(st strategy.Status) bool {
	return (st.State == strategy.Ready || st.State == strategy.InProcess) && len(st.FellBack()) == 0
}

func counted[K ~string](m map[K]int64) map[string]int64 {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]int64, len(m))
	for k, n := range m {
		out[string(k)] = n
	}
	return out
}

// find is the serving strategy of a name, else any of it.
func (l *List) find(name string) (Strategy, bool) {
	i := slices.IndexFunc(l.Strategies, func(s Strategy) bool {
		return s.Name == name && (s.Role == string(strategy.Serving) || s.Role == "") && !s.Pending
	})
	if i < 0 {
		i = slices.IndexFunc(l.Strategies, func(s Strategy) bool { return s.Name == name })
	}
	if i < 0 {
		return Strategy{}, false
	}
	return l.Strategies[i], true
}
