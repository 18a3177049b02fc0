package main

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

// observer turns what happens into log lines and metrics.
type observer struct {
	m      *metric.Metrics
	log    *zap.Logger
	frozen string
	counts execute.Counters // as last exported
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
		return []zap.Field{zap.String("pod", d.Pod.ID()), zap.String("node", d.Pod.NodeName)}
	case execute.DeletePod:
		return []zap.Field{zap.String("pod", d.Pod.ID()), zap.String("node", d.Pod.NodeName), zap.Duration("grace", d.Grace)}
	}
	return nil
}

func (o *observer) calls(r execute.Result, took time.Duration) {
	switch d := r.Effect.Do.(type) {
	case execute.SendLaunch, execute.FindLaunch, execute.Terminate, execute.Describe, execute.FetchOfferings:
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
			if s.Bought {
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
	parts := [3]string{}
	n := 0
	for _, r := range key {
		if r == '/' {
			if n++; n > 2 {
				return "", "", "", false
			}
			continue
		}
		parts[n] += string(r)
	}
	return parts[0], parts[1], parts[2], n == 2
}

// plan is called by the loop.
func (o *observer) plan(p *model.Plan) {
	outcome := p.Outcome
	if outcome == "" {
		outcome = "ok"
	}
	o.m.Plans.WithLabelValues(string(p.Kind), outcome).Inc()
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
	o.m.SetWorld(c.Mirror().World(now))
	o.m.ClusterSynced.WithLabelValues().Set(flag(c.Mirror().Synced()))
	o.m.QueueDepth.WithLabelValues("provisioner", "").Set(float64(c.Stats.Waiting))
	o.m.LedgerUp.WithLabelValues().Set(flag(!c.Executor().LedgerDown))
	o.m.GarbageBrake.WithLabelValues().Set(flag(c.Executor().GCStopped != ""))
	if o.frozen != c.Stats.Frozen {
		o.m.Frozen.Reset()
		if c.Stats.Frozen != "" {
			o.m.Frozen.WithLabelValues(c.Stats.Frozen).Set(1)
			o.log.Warn("voluntary disruption stands still", zap.String("reason", c.Stats.Frozen))
		}
		o.frozen = c.Stats.Frozen
	}
	n := &c.Executor().Counters
	if d := n.Collected - o.counts.Collected; d > 0 {
		o.m.GarbageCollected.WithLabelValues("ended").Add(float64(d))
	}
	if d := n.Adopted - o.counts.Adopted; d > 0 {
		o.m.GarbageCollected.WithLabelValues("adopted").Add(float64(d))
	}
	o.counts = execute.Counters{Collected: n.Collected, Adopted: n.Adopted}
}

func (o *observer) leading(yes bool, epoch int64) {
	o.m.Active.WithLabelValues().Set(flag(yes))
	o.m.LeaderEpoch.WithLabelValues().Set(float64(epoch))
}

// strategyCall and strategyState are called by the strategy host.
func (o *observer) strategyCall(c strategy.Call) {
	o.m.StrategyCalls.WithLabelValues(c.Strategy, string(c.Kind), string(c.Outcome)).Inc()
	o.m.StrategyDuration.WithLabelValues(c.Strategy, string(c.Kind)).Observe(c.Took.Seconds())
	if c.Fallback != "" {
		o.m.StrategyFallbacks.WithLabelValues(c.Strategy, string(c.Outcome)).Inc()
		o.log.Warn("strategy did not answer, the built-in did", zap.String("strategy", c.Strategy), zap.String("outcome", string(c.Outcome)),
			zap.String("fallback", c.Fallback), zap.Error(c.Err))
	}
}

func (o *observer) strategyState(s strategy.Status) {
	o.m.StrategyUp.WithLabelValues(s.Name).Set(flag(s.State == strategy.Ready))
	o.log.Info("strategy", zap.String("strategy", s.Name), zap.String("strategyVersion", s.Version), zap.String("state", string(s.State)),
		zap.Int("pid", s.PID), zap.Int("starts", s.Starts), zap.String("lastError", s.LastError))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
