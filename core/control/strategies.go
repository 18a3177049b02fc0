package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Strategies says how the strategies do. Without it the NodePools have no condition about
// them.
type Strategies struct {
	InstanceSelection, Consolidation string // bound where a pool has no annotation
	// Serving are the names that are in service or built in, in order; nil = not known.
	Serving []string
	// Faults say why somebody else answers for a strategy; one that is not there answers by
	// itself.
	Faults []StrategyFault
	// RollBacks are the strategies that were taken out of service for the one before.
	RollBacks []StrategyRollBack
	// Unfenced says by name what is missing between a strategy and the rest of the machine.
	Unfenced map[string]string
	// Chains is the members of strategies that others make up: what is the matter with a
	// member is told where its chain decides.
	Chains map[string][]string
}

// StrategyFault says why somebody else answers for a strategy.
type StrategyFault struct {
	Name, Version string
	Kind          string // of decision, as in the configuration; empty = of both
	Level         string // price, score, plan or propose; empty = of all
	Outcome       string // late, dead, invalid, empty, refused or unknown
	Rung          string // who answers instead; empty = nobody was asked yet
	Error         string // one printable line
}

// StrategyRollBack says that a strategy was taken out of service.
type StrategyRollBack struct {
	Name, Serves string // of what was taken out, and of what is in service instead
	From, To     string // the same with their versions
	Why          string // one printable line
	At           time.Time
}

// Conditions of a pool about the strategies that decide for it, where their host tells of
// them. They are for people to see and have no part in Ready.
const (
	ConditionAnswer = "weir.dev/StrategiesAnswer"
	ConditionFenced = "weir.dev/StrategiesFenced"
)

// reasonRolledBack is that of the event of a roll-back.
const reasonRolledBack = "StrategyRolledBack"

// strategyReasons are those of conditions and events, by outcome.
var strategyReasons = map[string]string{"late": "StrategyLate", "dead": "StrategyDead", "invalid": "StrategyInvalid", "empty": "StrategyEmpty",
	"refused": "StrategyRefused", "unknown": "StrategyUnknown"}

// insteadOf says who answers, by rung.
var insteadOf = map[string]string{"last-good": "the version before it answers", "built-in": "the built-in answers", "none": "nobody answers",
	"price-or-score": "what it says of each part counts", "left-out": "its chain goes on without it"}

func (f StrategyFault) reason() string { return cmp.Or(strategyReasons[f.Outcome], "StrategyFellBack") }

// key is equal for faults of which one event is enough.
func (f StrategyFault) key() string {
	return fmt.Sprintf("%q %q %q %q %q", f.Name, f.Kind, f.Level, f.Outcome, f.Rung)
}

func (f StrategyFault) String() string {
	out := strings.TrimSpace(f.Name + " " + f.Version)
	if f.Kind != "" {
		out += " (" + strings.TrimSpace(f.Kind+" "+f.Level) + ")"
	}
	out += " is " + f.Outcome
	if f.Rung != "" {
		out += ", " + cmp.Or(insteadOf[f.Rung], f.Rung+" answers")
	}
	if f.Error != "" {
		out += ": " + f.Error
	}
	return out
}

// binding is a strategy that decides for a pool in a kind of decision, or a member of it.
type binding struct{ kind, name string }

func (s *Strategies) bindings(p *model.Pool) (out []binding) {
	bind := func(annotation, usual string) {
		kind, bound := strings.TrimPrefix(annotation, "weir.dev/"), cmp.Or(p.Annotations[annotation], usual)
		for _, name := range append([]string{bound}, s.Chains[bound]...) {
			out = append(out, binding{kind, name})
		}
	}
	bind(model.AnnotationInstanceSelection, s.InstanceSelection)
	bind(model.AnnotationConsolidation, s.Consolidation)
	return out
}

// faultsOf lists why somebody else answers for the strategies of a pool.
func (s *Strategies) faultsOf(p *model.Pool) []StrategyFault {
	var out []StrategyFault
	for _, b := range s.bindings(p) {
		if s.Serving != nil && !slices.Contains(s.Serving, b.name) {
			out = append(out, StrategyFault{Name: b.name, Kind: b.kind, Outcome: "unknown", Rung: "built-in", Error: "no strategy of this name is in service"})
		}
		for _, f := range s.Faults {
			if f.Name == b.name && (f.Kind == "" || f.Kind == b.kind) && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// strategyConditions tell of the strategies of a pool.
func (c *Controller) strategyConditions(p *model.Pool) []model.Condition {
	s := &c.strategies
	if s.InstanceSelection == "" && s.Consolidation == "" {
		return nil
	}
	answer := model.Condition{Type: ConditionAnswer, Status: "True", Reason: strings.TrimPrefix(ConditionAnswer, "weir.dev/")}
	var said []string
	for _, f := range s.faultsOf(p) {
		if len(said) == 0 {
			answer.Status, answer.Reason = "False", f.reason()
		}
		said = append(said, f.String())
	}
	answer.Message = strings.Join(said, "; ")
	fenced := model.Condition{Type: ConditionFenced, Status: "True", Reason: strings.TrimPrefix(ConditionFenced, "weir.dev/")}
	var open []string
	for _, b := range s.bindings(p) {
		if why, ok := s.Unfenced[b.name]; ok {
			open = append(open, b.name+": "+why)
		}
	}
	if len(open) > 0 {
		slices.Sort(open)
		fenced.Status, fenced.Reason, fenced.Message = "False", "StrategyUnfenced", strings.Join(slices.Compact(open), "; ")
	}
	return []model.Condition{answer, fenced}
}

// tellStrategies emits a warning on each pool for what is new about the strategies that
// decide for it.
func (c *Controller) tellStrategies() {
	s := &c.strategies
	told := map[string]map[string]bool{}
	pools := c.m.World(c.now).Pools
	for _, p := range pools {
		told[p.Name] = map[string]bool{}
		for _, f := range s.faultsOf(p) {
			if told[p.Name][f.key()] = true; !c.faultsTold[p.Name][f.key()] {
				c.strategyEvent(p, f.reason(), f.String())
			}
		}
	}
	c.faultsTold = told
	for _, r := range s.RollBacks {
		if !r.At.After(c.rolledTold[r.Name]) {
			continue
		}
		c.rolledTold[r.Name] = r.At
		for _, p := range pools {
			if slices.ContainsFunc(s.bindings(p), func(b binding) bool { return b.name == r.Name || b.name == r.Serves }) {
				c.strategyEvent(p, reasonRolledBack, fmt.Sprintf("%s was taken out of service for %s: %s", r.From, r.To, r.Why))
			}
		}
	}
}

func (c *Controller) strategyEvent(p *model.Pool, reason, message string) {
	c.x.Event(model.Event{Object: model.ObjectRef{Kind: "NodePool", Name: p.Name, UID: p.UID}, Warning: true, Reason: reason, Message: message}, c.now)
}
