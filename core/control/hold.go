package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Reasons for which the disruption of a pool stands still, in its condition and in metrics.
const (
	HeldCircles = "PodsGoRound"    // the same pods were moved too often
	HeldRollout = "RolloutHalted"  // something is wrong with nodes that replaced others
	HeldBudgets = "BudgetsInvalid" // nobody knows what its budgets mean
	HeldSoak    = "SoakInvalid"    // likewise its soak: nothing is replaced for drift
)

// ConditionDisruption says on each pool whether voluntary disruption goes on as its
// budgets let it. It has no part in Ready.
const ConditionDisruption = "weir.dev/Disruption"

// holds remembers what was moved and what holds pools back. All of it is in the ledger as
// well, so that the next leader goes on with it.
type holds struct {
	moves  *disrupt.Moves
	states map[string]*poolHold // by pool
}

// poolHold is what holds one pool back.
type poolHold struct {
	paused    time.Time // until then
	pausedWhy string
	wave      *disrupt.Wave
	halted    *model.Hold // what the wave was found to wait for, while something is wrong with it
}

func newHolds() holds { return holds{moves: &disrupt.Moves{}, states: map[string]*poolHold{}} }

func (h *holds) of(pool string) *poolHold {
	s := h.states[pool]
	if s == nil {
		s = &poolHold{}
		h.states[pool] = s
	}
	return s
}

// recallHolds takes in what an earlier leader wrote down.
func (c *Controller) recallHolds(moved []ledger.Moved, pools map[string]ledger.PoolState) {
	var hops []disrupt.Hop
	for _, m := range moved {
		for _, h := range m.Hops {
			if len(h.Trail) == 0 {
				continue
			}
			hop := disrupt.Hop{Workload: h.Workload, Name: h.Name, Pods: h.Pods}
			for _, s := range h.Trail {
				hop.Trail = append(hop.Trail, disrupt.Stop{At: s.At, Pool: s.Pool, Node: s.Node, Offering: s.Offering, Reason: model.DisruptionReason(s.Reason)})
			}
			hops = append(hops, hop)
		}
	}
	c.holds.moves = disrupt.NewMoves(hops)
	for name, st := range pools {
		h := c.holds.of(name)
		h.paused, h.pausedWhy = st.PausedUntil, st.PausedWhy
		if w := st.Wave; w != nil {
			h.wave = &disrupt.Wave{Pool: name, Template: w.Template, Started: w.Started, Last: w.Last, Claims: w.Claims, Moved: map[string]disrupt.MovedPods{}}
			for k, m := range w.Moved {
				h.wave.Moved[k] = disrupt.MovedPods(m)
			}
		}
	}
}

// rememberHold writes down what holds a pool back.
func (c *Controller) rememberHold(pool string) {
	h := c.holds.of(pool)
	st := ledger.PoolState{PausedUntil: h.paused, PausedWhy: h.pausedWhy}
	if w := h.wave; w != nil {
		st.Wave = &ledger.Wave{Template: w.Template, Started: w.Started, Last: w.Last, Claims: w.Claims, Moved: map[string]ledger.MovedPods{}}
		for k, m := range w.Moved {
			st.Wave.Moved[k] = ledger.MovedPods(m)
		}
	}
	c.x.Remember(ledger.PoolStateKey(c.cfg.Cluster, pool), st, ledger.Meta{Expires: c.now.Add(ledger.PoolStateTTL)})
}

// held says what holds pools back now: from everything voluntary, and from the next wave
// of nodes that no longer match them.
func (c *Controller) held(w *model.World) (paused, waves map[string]*model.Hold) {
	paused, waves = map[string]*model.Hold{}, map[string]*model.Hold{}
	running := c.x.Running()
	for _, name := range slices.Sorted(maps.Keys(c.holds.states)) {
		h := c.holds.states[name]
		if h.paused.After(c.now.Add(disrupt.CircleWindow)) {
			h.paused = c.now // the clock was set back: no pause is longer than that
		}
		p := w.Pool(name)
		if p == nil {
			delete(c.holds.states, name)
			continue
		}
		if h.paused.After(c.now) {
			until := h.paused
			paused[name] = &model.Hold{Halted: true, Why: "voluntary disruption is paused: " + h.pausedWhy, Until: &until}
		} else if !h.paused.IsZero() {
			h.paused, h.pausedWhy = time.Time{}, ""
			c.rememberHold(name)
		}
		if h.wave != nil {
			c.stepWave(w, p, h, running)
			if h.wave != nil {
				waves[name] = h.wave.Hold(w, running, c.failing(name))
			}
		}
	}
	return paused, waves
}

// failing says that the machines of a pool do not join, or nothing.
func (c *Controller) failing(pool string) string {
	if healthy, known := c.x.RegistrationHealthy(pool); known && !healthy {
		return "machines of this pool were bought or asked for and did not join in time"
	}
	return ""
}

// stepWave ends a wave that is done, and tells when something is wrong with it.
func (c *Controller) stepWave(w *model.World, p *model.Pool, h *poolHold, running map[string]bool) {
	if !h.wave.Last.After(c.led) {
		// Commands of an earlier leader that had not begun to end nodes were forgotten with
		// it: their nodes are back in service and have not failed.
		h.wave.Claims = slices.DeleteFunc(slices.Clone(h.wave.Claims), func(name string) bool {
			cl := c.m.Claim(name)
			return cl == nil || cl.Deleting == nil && !c.x.Commanded(name)
		})
	}
	hold := h.wave.Hold(w, running, c.failing(p.Name))
	switch {
	case hold == nil:
		h.wave = nil
		c.rememberHold(p.Name)
		if h.halted != nil {
			c.poolEvent(p, false, "RolloutResumed", "What halted the roll of changed nodes is mended, the next wave may start")
		}
		h.halted = nil
	case hold.Halted:
		c.poolEvent(p, true, HeldRollout, "No more nodes are replaced for drift: "+hold.Why)
		h.halted = hold
	default:
		h.halted = nil
	}
}

func (c *Controller) poolEvent(p *model.Pool, warning bool, reason, message string) {
	c.x.Event(model.Event{Object: model.ObjectRef{Kind: "NodePool", Name: p.Name, UID: p.UID}, Warning: warning, Reason: reason, Message: message}, c.now)
}

// shut tells on each pool for which reasons its budgets allow nothing at all, and what
// is written on it and means nothing.
func (c *Controller) shut(w *model.World) {
	for _, p := range w.Pools {
		if err := disrupt.CheckExpire(p); err != nil {
			c.poolEvent(p, true, "InvalidAnnotation", err.Error()+"; its nodes are ended by force when they are past their expireAfter")
		}
		total, _ := disrupt.Disrupting(w, p.Name, nil)
		if total == 0 {
			continue
		}
		for _, reason := range []model.DisruptionReason{model.Empty, model.Drifted, model.Underutilized} {
			a := disrupt.Allowed(p, reason, total, 0, w.Now)
			if a.Nodes > 0 {
				continue
			}
			message := fmt.Sprintf("No allowed disruptions for disruption reason %s due to blocking budget: %s", reason, a.Why)
			if a.Until != nil {
				message += ", until " + a.Until.UTC().Format(time.RFC3339)
			}
			c.poolEvent(p, false, "DisruptionBlocked", message)
		}
	}
}

// circles pauses the pools whose pods a command would move in circles; it answers why
// the command is not carried out then.
func (c *Controller) circles(w *model.World, plan *model.Plan, cmd *model.Command) (hops []disrupt.Hop, why string) {
	if cmd.Reason == model.Empty {
		return nil, ""
	}
	for _, n := range cmd.Remove {
		if h := c.holds.states[n.Pool()]; h != nil && h.paused.After(c.now) {
			return nil, "NodePool " + n.Pool() + " is paused: " + h.pausedWhy
		}
	}
	hops = c.holds.moves.Of(w, cmd)
	round := c.holds.moves.Circle(w, cmd, hops, c.set.MaxMovesPerHour)
	if round == nil {
		return hops, ""
	}
	for _, name := range round.Pools {
		p := w.Pool(name)
		if p == nil {
			continue
		}
		h := c.holds.of(name)
		h.paused, h.pausedWhy = round.Until, round.Why
		c.Stats.Circles++
		c.poolEvent(p, true, "DisruptionPaused", fmt.Sprintf("Voluntary disruption is paused until %s: %s", round.Until.UTC().Format(time.RFC3339), round.Why))
		c.rememberHold(name)
	}
	c.x.Decide(ledger.Decision{
		At: c.now, Plan: plan.ID, Kind: string(plan.Kind), What: "pause voluntary disruption of " + strings.Join(round.Pools, ", ") + " until " + round.Until.UTC().Format(time.RFC3339),
		Why: round.Why, Strategy: plan.Strategy, Before: cmd.Before, After: cmd.Before,
	}, c.now)
	return nil, round.Why
}

// moved writes down what a command moves, before it begins.
func (c *Controller) moved(w *model.World, cmd *model.Command, hops []disrupt.Hop) {
	c.holds.moves.Add(hops)
	for _, n := range cmd.Remove {
		var rec ledger.Moved
		for _, h := range hops {
			if h.Trail[len(h.Trail)-1].Node != n.ID() {
				continue
			}
			lh := ledger.Hop{Workload: h.Workload, Name: h.Name, Pods: h.Pods}
			for _, s := range h.Trail {
				lh.Trail = append(lh.Trail, ledger.Stop{At: s.At, Pool: s.Pool, Node: s.Node, Offering: s.Offering, Reason: string(s.Reason)})
			}
			rec.Hops = append(rec.Hops, lh)
		}
		if len(rec.Hops) > 0 {
			c.x.Remember(ledger.MovedKey(c.cfg.Cluster, c.now, n.Claim.Name), rec, ledger.Meta{Expires: c.now.Add(ledger.MovedTTL)})
		}
		if p := w.Pool(n.Pool()); p != nil && disrupt.Rolls(cmd.Reason) {
			h := c.holds.of(p.Name)
			h.wave = h.wave.Take(w, p, n)
			c.rememberHold(p.Name)
		}
	}
}

// Held says, by pool and reason, what holds disruption back, with words for people.
func (c *Controller) Held() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, p := range c.m.World(c.now).Pools {
		for _, h := range c.heldBy(p) {
			if out[p.Name] == nil {
				out[p.Name] = map[string]string{}
			}
			out[p.Name][h.Reason] = h.Message
		}
	}
	return out
}

// heldBy is what holds a pool back, the gravest first.
func (c *Controller) heldBy(p *model.Pool) []model.Condition {
	var out []model.Condition
	if err := disrupt.CheckBudgets(p); err != nil {
		out = append(out, model.Condition{Reason: HeldBudgets, Message: err.Error() + "; until it is mended nothing of this pool is disrupted"})
	}
	if h := c.holds.states[p.Name]; h != nil {
		if h.paused.After(c.now) {
			out = append(out, model.Condition{Reason: HeldCircles, Message: fmt.Sprintf("voluntary disruption is paused until %s: %s", h.paused.UTC().Format(time.RFC3339), h.pausedWhy)})
		}
		if h.halted != nil {
			out = append(out, model.Condition{Reason: HeldRollout, Message: "no more nodes are replaced for drift: " + h.halted.Why})
		}
	}
	if _, err := disrupt.Soak(p); err != nil {
		out = append(out, model.Condition{Reason: HeldSoak, Message: err.Error() + "; until it is mended no node is replaced for drift"})
	}
	return out
}

// disruptionCondition is ConditionDisruption of a pool.
func (c *Controller) disruptionCondition(p *model.Pool) model.Condition {
	if list := c.heldBy(p); len(list) > 0 {
		return model.Condition{Type: ConditionDisruption, Status: "False", Reason: list[0].Reason, Message: list[0].Message}
	}
	return model.Condition{Type: ConditionDisruption, Status: "True", Reason: "Allowed"}
}

// acceptStatic buys the nodes that pools with a fixed number of them lack.
func (c *Controller) acceptStatic(plan *model.Plan) {
	if len(plan.Launch) == 0 {
		return
	}
	names := c.x.Accept(plan.Launch, "", c.now)
	usd, what := 0.0, ""
	for _, n := range plan.Launch {
		if name := names[n.Name]; name != "" {
			usd += n.Offering.USDPerHour
			what += " " + name + " (" + n.Offering.Key() + ")"
		}
	}
	if what != "" {
		c.x.Decide(ledger.Decision{At: c.now, Plan: plan.ID, Kind: string(plan.Kind), What: "launch" + what, Why: "replicas of static NodePools are missing",
			Strategy: plan.Strategy, Outcome: plan.Outcome, After: usd}, c.now)
	}
}
