package main

import (
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// observer turns what happens into log lines and metrics.
type observer struct {
	m        *metric.Metrics
	log      *zap.Logger
	frozen   string
	circles  int64            // pauses, as last exported
	away     bool             // the ledger, as last told
	counts   execute.Counters // as last exported
	answered map[string]int64 // notices, as last exported
	decided  time.Time        // instant of the last world that was planned for

	mu     sync.Mutex           // guards what follows: every strategy tells its state by itself
	starts map[string]int       // processes of a strategy, as last exported
	backs  map[string]time.Time // last roll-back of a strategy, as last exported

	recorded strategy.RecordStatus // as last exported
}

// told are the effects that are worth a line of their own; the others are for debugging.
var told = map[string]bool{
	"CreateClaim": true, "DeleteClaim": true, "SendLaunch": true, "Terminate": true, "Evict": true, "DeletePod": true, "Recover": true,
}

// refused errors are answers that say no, not failures.
func refused(err error) bool {
	return errors.Is(err, execute.ErrBlocked) || errors.Is(err, execute.ErrMultiplePDBs) || errors.Is(err, execute.ErrNotFound) || errors.Is(err, execute.ErrConflict)
}

// result is called by the goroutine that performed the effect.
func (o *observer) result(r execute.Result, took time.Duration) {
	kind, outcome := r.Effect.Kind(), r.Outcome()
	o.m.Effects.WithLabelValues(kind, outcome).Inc()
	o.m.EffectDuration.WithLabelValues(kind).Observe(took.Seconds())
	fields := append([]zap.Field{zap.String("effect", kind), zap.String("key", r.Effect.Key), zap.Duration("took", took)}, about(r)...)
	switch {
	case r.Err != nil && refused(r.Err):
		o.log.Debug("answered no", append(fields, zap.Error(r.Err))...)
	case r.Err != nil:
		o.log.Error("failed", append(fields, zap.String("outcome", outcome), zap.Error(r.Err))...)
	case told[kind]:
		o.log.Info("done", fields...)
	default:
		o.log.Debug("done", fields...)
	}
	o.calls(r, took)
}

// about names what an effect is about.
func about(r execute.Result) []zap.Field {
	switch d := r.Effect.Do.(type) {
	case execute.CreateClaim:
		return []zap.Field{zap.String("claim", d.Claim.Name), zap.String("pool", d.Claim.Pool)}
	case execute.DeleteClaim:
		return []zap.Field{zap.String("claim", d.Name), zap.String("reason", d.Reason)}
	case execute.SendLaunch:
		a, _ := r.Value.(cloud.Answer)
		fields := []zap.Field{zap.String("launch", d.ID), zap.Int("instances", len(a.Instances)), zap.Int("refused", len(a.Errors))}
		for _, i := range a.Instances {
			fields = append(fields, zap.String("instance", i.ID+" "+i.Type+" "+i.Zone+" "+i.CapacityType))
		}
		return fields
	case execute.Terminate:
		return []zap.Field{zap.Strings("instances", d.IDs), zap.String("reason", d.Reason)}
	case execute.Evict:
		fields := []zap.Field{zap.String("pod", d.Pod.ID()), zap.String("node", d.Pod.NodeName)}
		if d.Grace > 0 {
			fields = append(fields, zap.Duration("grace", d.Grace))
		}
		return fields
	case execute.DeletePod:
		return []zap.Field{zap.String("pod", d.Pod.ID()), zap.String("node", d.Pod.NodeName), zap.Duration("grace", d.Grace)}
	}
	return nil
}

func (o *observer) calls(r execute.Result, took time.Duration) {
	switch d := r.Effect.Do.(type) {
	case execute.SendLaunch, execute.FindLaunch, execute.Terminate, execute.Describe, execute.FetchOfferings, execute.TagInstances:
		o.m.CloudDuration.WithLabelValues("executor", r.Effect.Kind(), "aws").Observe(took.Seconds())
		if r.Err != nil {
			o.m.CloudErrors.WithLabelValues("executor", r.Effect.Kind(), "aws", string(cloud.KindOf(r.Err))).Inc()
		}
		if a, ok := r.Value.(cloud.Answer); ok {
			for _, e := range a.Errors {
				o.m.CloudErrors.WithLabelValues("executor", r.Effect.Kind(), "aws", string(e.Kind)).Inc()
			}
		}
	case execute.Evict:
		o.m.Evictions.WithLabelValues(evictionCode(r.Err)).Inc()
	case execute.CreateClaim:
		if r.Err == nil {
			o.m.ClaimsCreated.WithLabelValues("provisioned", d.Claim.Pool, "false").Inc()
		}
	case execute.AddShortages:
		for _, s := range d.Shortages {
			if s.Bought || strings.HasPrefix(s.Offering, model.QuotaPrefix) {
				continue
			}
			if t, z, ct, ok := cutOffering(s.Offering); ok {
				o.m.Shortages.WithLabelValues(t, z, ct).Inc()
			}
		}
	case execute.Plan:
		name := "provisioner"
		if d.For == model.PlanDisrupt {
			name = "disruption"
			o.m.DisruptionEvaluation.WithLabelValues("", "").Observe(took.Seconds())
		}
		o.m.Scheduling.WithLabelValues(name).Observe(took.Seconds())
		o.m.PlanDuration.WithLabelValues(string(d.For)).Observe(took.Seconds())
	}
}

func evictionCode(err error) string {
	switch {
	case err == nil:
		return "200"
	case errors.Is(err, execute.ErrNotFound):
		return "404"
	case errors.Is(err, execute.ErrConflict):
		return "409"
	case errors.Is(err, execute.ErrBlocked):
		return "429"
	}
	return "500"
}

func cutOffering(key string) (typ, zone, capacity string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// inputs is called by the loop before the controller takes them in: what is about to
// change can still be seen as it was.
func (o *observer) inputs(c *control.Controller, in []control.Input, now time.Time) {
	m := c.Mirror()
	for _, i := range in {
		switch i := i.(type) {
		case cluster.DeleteClaim:
			o.claimGone(m.Claim(i.Name), now)
		case cluster.UpsertClaim:
			old := m.Claim(i.Claim.Name)
			if old != nil && !old.Is(model.CondDrained) && i.Claim.Is(model.CondDrained) {
				o.m.NodesDrained.WithLabelValues(i.Claim.Pool).Inc()
			}
		case cluster.UpsertNode:
			if m.Synced() && m.NodeObject(i.Node.Name) == nil && i.Node.Pool() != "" {
				o.m.NodesCreated.WithLabelValues(i.Node.Pool(), i.Node.Zone()).Inc()
			}
		case cluster.DeleteNode:
			o.nodeGone(m.NodeObject(i.Name), now)
		case cluster.UpsertPod:
			if old := m.Pod(i.Pod.ID()); m.Synced() && old != nil && old.UID == i.Pod.UID {
				if old.NodeName == "" && i.Pod.NodeName != "" {
					o.m.PodsBound.WithLabelValues().Observe(now.Sub(i.Pod.Created).Seconds())
				}
				if !old.Ready && i.Pod.Ready && i.Pod.RestartCount == 0 {
					o.m.PodsStartup.WithLabelValues().Observe(now.Sub(i.Pod.Created).Seconds())
				}
			}
		case execute.Result:
			o.acted(m, i, now)
		}
	}
}

func (o *observer) claimGone(c *model.Claim, now time.Time) {
	if c == nil || c.Deleting == nil {
		return
	}
	o.m.ClaimsTerminated.WithLabelValues(c.Pool, c.Labels[model.LabelCapacityType], c.Labels[model.LabelZone]).Inc()
	o.m.ClaimTermination.WithLabelValues(c.Pool).Observe(now.Sub(*c.Deleting).Seconds())
	if t := c.Condition(model.CondInstanceTerminating); t.Status == "True" {
		o.m.InstanceTermination.WithLabelValues(c.Pool).Observe(now.Sub(t.Since).Seconds())
	}
}

func (o *observer) nodeGone(n *model.Node, now time.Time) {
	if n == nil || n.Pool() == "" {
		return
	}
	o.m.NodesTerminated.WithLabelValues(n.Pool(), n.Zone()).Inc()
	o.m.NodeLifetime.WithLabelValues(n.Pool()).Observe(now.Sub(n.Created).Seconds())
	if n.Deleting != nil {
		o.m.NodeTermination.WithLabelValues(n.Pool()).Observe(now.Sub(*n.Deleting).Seconds())
	}
}

// acted counts what effects did to claims and pods.
func (o *observer) acted(m *cluster.Mirror, r execute.Result, now time.Time) {
	if r.Err != nil {
		return
	}
	switch d := r.Effect.Do.(type) {
	case execute.DeleteClaim:
		c := m.Claim(d.Name)
		if c == nil || c.Deleting != nil {
			return
		}
		pods := 0
		for _, n := range m.NodeObjects(c.ProviderID) {
			for _, p := range m.PodsOn(n.Name) {
				if p.Reschedulable() {
					pods++
				}
			}
		}
		labels := []string{d.Reason, c.Pool, c.Labels[model.LabelCapacityType], policyOf(m.Pool(c.Pool), d.Reason), modeOf(c)}
		o.m.ClaimsDisrupted.WithLabelValues(labels...).Inc()
		o.m.PodsDisruptionInitiated.WithLabelValues(labels...).Add(float64(pods))
		if d.Reason == execute.ReasonUnhealthy {
			condition, _, _ := strings.Cut(c.Annotations[model.AnnotationRepair], "=")
			o.m.ClaimsUnhealthy.WithLabelValues(snakeCase(condition), c.Pool, c.Labels[model.LabelCapacityType], c.ImageID).Inc()
		}
	case execute.Evict:
		if d.Pod.Deleting != nil {
			return // it was on its way before: its grace period is cut
		}
		reason := "Forceful Termination"
		if c := m.Claim(d.Claim); c != nil && c.Condition(model.CondDisruptionReason).Status == "True" {
			reason = c.Condition(model.CondDisruptionReason).Reason
		}
		o.m.PodsDrained.WithLabelValues(reason).Inc()
	case execute.SendLaunch:
		if a, ok := r.Value.(cloud.Answer); ok {
			for _, i := range a.Instances {
				o.m.Launches.WithLabelValues(i.Tags[execute.TagPool], i.CapacityType).Inc()
			}
		}
	case execute.Plan:
		if d.For == model.PlanProvision {
			for _, p := range d.World.Pods {
				if at, ok := m.WaitingSince(p.UID); ok && p.NodeName == "" && !at.Before(o.decided) {
					o.m.PodsDecision.WithLabelValues().Observe(now.Sub(at).Seconds())
				}
			}
			o.decided = d.World.Now
		}
	}
}

// snakeCase writes a condition's type as the metrics do: AcceleratedHardwareReady becomes
// accelerated_hardware_ready.
func snakeCase(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// policyOf is the consolidation policy of the pool in the words of the metric, for
// disruptions that a policy asked for.
func policyOf(p *model.Pool, reason string) string {
	if p == nil || reason != "empty" && reason != "underutilized" {
		return ""
	}
	switch p.Policy {
	case model.WhenEmpty:
		return "when_empty"
	case model.WhenEmptyOrUnderutilized:
		return "when_empty_or_underutilized"
	}
	return strings.ToLower(string(p.Policy))
}

func modeOf(c *model.Claim) string {
	switch {
	case c.TerminationGP == nil:
		return "graceful"
	case *c.TerminationGP > 0:
		return "eventual"
	}
	return "forceful"
}

// plan is called by the loop.
func (o *observer) plan(p *model.Plan) {
	outcome := p.Outcome
	if outcome == "" {
		outcome = "ok"
	}
	o.m.Plans.WithLabelValues(string(p.Kind), outcome).Inc()
	if p.Budget != nil {
		o.m.PlansStopped.WithLabelValues(string(p.Kind)).Inc()
	}
	usd := 0.0
	for _, n := range p.Launch {
		usd += n.Offering.USDPerHour
	}
	o.m.PlannedPrice.WithLabelValues(string(p.Kind)).Set(usd)
	o.m.LowerBound.WithLabelValues(string(p.Kind)).Set(p.LowerBoundUSDPerHour)
	if p.Kind == model.PlanProvision {
		filters := map[string]int{}
		for _, v := range p.Unplaced {
			for _, r := range v.Reasons {
				filters[string(r.Filter)]++
				break
			}
		}
		o.m.Unplaced.Reset()
		for f, n := range filters {
			o.m.Unplaced.WithLabelValues(f).Set(float64(n))
		}
		o.m.UnschedulablePods.WithLabelValues("provisioner").Set(float64(len(p.Unplaced)))
	}
	if p.Kind == model.PlanDisrupt {
		for _, r := range []model.DisruptionReason{model.Empty, model.Drifted, model.Underutilized} {
			o.m.EligibleNodes.WithLabelValues(strings.ToLower(string(r))).Set(float64(p.Eligible[r]))
		}
	}
	for _, c := range p.Commands {
		decision := "delete"
		if len(c.Launch) > 0 {
			decision = "replace"
		}
		o.m.DisruptionDecisions.WithLabelValues(decision, string(c.Reason), "").Inc()
	}
}

// gauges is called by the loop, every few seconds.
func (o *observer) gauges(c *control.Controller, now time.Time) {
	w := c.Mirror().World(now)
	o.m.SetWorld(w)
	ignored := 0
	for _, p := range w.Pods {
		if p.Invalid != "" || len(p.Unsupported) > 0 {
			ignored++
		}
	}
	o.m.IgnoredPods.WithLabelValues().Set(float64(ignored))
	o.m.ClusterSynced.WithLabelValues().Set(flag(c.Mirror().Synced()))
	o.m.QueueDepth.WithLabelValues("provisioner", "").Set(float64(c.Stats.Waiting))
	o.ledger(c.Executor())
	o.m.GarbageBrake.WithLabelValues().Set(flag(c.Executor().GCStopped != ""))
	if o.frozen != c.Stats.Frozen {
		o.m.Frozen.Reset()
		if c.Stats.Frozen != "" {
			o.m.Frozen.WithLabelValues(c.Stats.Frozen).Set(1)
			o.log.Warn("voluntary disruption stands still", zap.String("reason", c.Stats.Frozen))
		}
		o.frozen = c.Stats.Frozen
	}
	o.m.DisruptionHeld.Reset()
	for pool, reasons := range c.Held() {
		for reason := range reasons {
			o.m.DisruptionHeld.WithLabelValues(pool, reason).Set(1)
		}
	}
	if d := c.Stats.Circles - o.circles; d > 0 {
		o.m.Circles.WithLabelValues().Add(float64(d))
	}
	o.circles = c.Stats.Circles
	n := &c.Executor().Counters
	if d := n.Collected - o.counts.Collected; d > 0 {
		o.m.GarbageCollected.WithLabelValues("ended").Add(float64(d))
	}
	if d := n.Adopted - o.counts.Adopted; d > 0 {
		o.m.GarbageCollected.WithLabelValues("adopted").Add(float64(d))
	}
	if o.answered == nil {
		o.answered = map[string]int64{}
	}
	for key, n := range c.Stats.Notices {
		if d := n - o.answered[key]; d > 0 {
			kind, action, _ := strings.Cut(key, "/")
			o.m.Notices.WithLabelValues(kind, action).Add(float64(d))
		}
		o.answered[key] = n
	}
	o.budgets(w, now)
	o.counts = execute.Counters{Collected: n.Collected, Adopted: n.Adopted, Forgotten: n.Forgotten}
}

// ledger tells when the ledger goes and when it has everything again.
func (o *observer) ledger(x *execute.Executor) {
	queued := x.QueuedWrites()
	o.m.LedgerUp.WithLabelValues().Set(flag(!x.LedgerDown))
	o.m.LedgerQueued.WithLabelValues().Set(float64(queued))
	if d := x.Counters.Forgotten - o.counts.Forgotten; d > 0 {
		o.m.LedgerForgotten.WithLabelValues().Add(float64(d))
	}
	switch {
	case x.LedgerDown && !o.away:
		o.away = true
		o.log.Error("the ledger is away: scaling goes on from objects and tags, writes wait", zap.Int("queued", queued))
	case o.away && !x.LedgerDown && queued == 0:
		o.away = false
		o.log.Info("the ledger is back and has everything that waited")
	}
}

// budgets tells what the pools' budgets allow, before what is disrupted already.
func (o *observer) budgets(w *model.World, now time.Time) {
	o.m.AllowedDisruptions.Reset()
	for _, p := range w.Pools {
		total, _ := disrupt.Disrupting(w, p.Name, nil)
		for _, reason := range []model.DisruptionReason{model.Empty, model.Underutilized, model.Drifted} {
			n := disrupt.Allowed(p, reason, total, 0, now).Nodes
			o.m.AllowedDisruptions.WithLabelValues(p.Name, string(reason)).Set(float64(min(n, total)))
		}
	}
}

func (o *observer) leading(yes bool, epoch int64) {
	o.m.Active.WithLabelValues().Set(flag(yes))
	o.m.LeaderEpoch.WithLabelValues().Set(float64(epoch))
}

// unknownStrategy is the label of all names that no strategy has: they come from annotations
// and could be any number.
const unknownStrategy = "(unknown)"

// strategyCall and strategyState are called by the strategy host, which has a log line of its
// own for a call that went wrong.
func (o *observer) strategyCall(c strategy.Call) {
	name := c.Strategy
	if c.Unknown {
		name = unknownStrategy
	}
	o.m.StrategyCalls.WithLabelValues(name, string(c.Kind), string(c.Outcome)).Inc()
	o.m.StrategyDuration.WithLabelValues(name, string(c.Kind)).Observe(c.Took.Seconds())
	o.m.StrategyAnswers.WithLabelValues(name, string(c.Rung)).Inc()
	if c.Accepted+c.Declined > 0 {
		o.m.StrategyVerdicts.WithLabelValues(name, "accepted").Add(float64(c.Accepted))
		o.m.StrategyVerdicts.WithLabelValues(name, "refused").Add(float64(c.Declined))
	}
	if c.Fallback != "" {
		o.m.StrategyFallbacks.WithLabelValues(name, string(c.Outcome)).Inc()
	}
}

func (o *observer) strategyState(s strategy.Status) {
	o.m.StrategyRestarts.WithLabelValues(s.Name).Add(float64(o.restarts(s)))
	if r := s.RolledBack; r != nil && o.rolled(s.Name, r.At) {
		o.m.StrategyRollBacks.WithLabelValues(s.Name).Inc()
	}
	o.log.Info("strategy", zap.String("strategy", s.Name), zap.String("strategyVersion", s.Version), zap.String("state", string(s.State)),
		zap.Int("pid", s.PID), zap.Int("starts", s.Starts), zap.String("lastError", s.LastError))
}

// strategies sets what is to be seen of all strategies at once: a process that ends after
// another took its place says nothing about the strategy.
func (o *observer) strategies(list []strategy.Status) {
	o.m.StrategyUp.Reset()
	o.m.StrategyFenced.Reset()
	for _, s := range list {
		if s.Pending || s.Role == strategy.LastGood {
			continue
		}
		if s.State != strategy.InProcess {
			o.m.StrategyUp.WithLabelValues(s.Name).Set(flag(s.State == strategy.Ready))
		}
		if f := s.Fence; f.Isolation != "" {
			o.m.StrategyFenced.WithLabelValues(s.Name, f.Isolation).Set(flag(f.Whole))
		}
	}
}

// records counts what was recorded of calls, and what was not.
func (o *observer) records(now strategy.RecordStatus) {
	for result, n := range map[string]int64{"written": now.Written - o.recorded.Written, "dropped": now.Dropped - o.recorded.Dropped, "failed": now.Failed - o.recorded.Failed} {
		if n > 0 {
			o.m.StrategyRecords.WithLabelValues(result).Add(float64(n))
		}
	}
	o.recorded = now
}

// rolled says whether a roll-back was not counted yet.
func (o *observer) rolled(name string, at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.backs == nil {
		o.backs = map[string]time.Time{}
	}
	if !at.After(o.backs[name]) {
		return false
	}
	o.backs[name] = at
	return true
}

// restarts is how many processes of a strategy were started since it was told last,
// save the first. A strategy that was configured anew counts from nothing again.
func (o *observer) restarts(s strategy.Status) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.starts == nil {
		o.starts = map[string]int{}
	}
	before := o.starts[s.Name]
	o.starts[s.Name] = s.Starts
	return max(0, s.Starts-max(before, 1))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
