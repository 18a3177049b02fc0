package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// poolsEvery is the pause between two writes of the pools' counters.
const poolsEvery = 5 * time.Second

// poolWritten is what was last written to a pool.
type poolWritten struct {
	text string // of the status, for comparison
	cond map[string]model.Condition
}

// writePools writes counters, conditions and hash of the pools where they changed.
func (c *Controller) writePools() {
	if at := c.poolsAt.Add(poolsEvery); !c.poolsAt.IsZero() && c.now.Before(at) {
		c.wake(at)
		return
	}
	c.poolsAt = c.now
	c.tellStrategies() // pools may be bound to others
	c.wake(c.now.Add(poolsEvery))
	w := c.m.World(c.now)
	usage := map[string]*struct {
		capacity resource.Vector
		nodes    int64
	}{}
	for _, p := range w.Pools {
		usage[p.Name] = &struct {
			capacity resource.Vector
			nodes    int64
		}{}
	}
	for _, n := range w.Nodes {
		if u := usage[n.Pool()]; u != nil && n.Claim != nil {
			u.capacity = u.capacity.Add(n.Capacity)
			u.nodes++
		}
	}
	for name := range c.pools {
		if usage[name] == nil {
			delete(c.pools, name)
		}
	}
	for _, p := range w.Pools {
		u := usage[p.Name]
		old := c.pools[p.Name]
		s := execute.PoolStatus{Name: p.Name, Nodes: u.nodes, Resources: counters(u.capacity, u.nodes), Conditions: c.poolConditions(p, w, old.cond)}
		if p.Hash != "" && (p.Annotations[model.AnnotationPoolHash] != p.Hash || p.Annotations[model.AnnotationPoolHashVersion] != p.HashVersion) {
			s.Annotations = map[string]string{model.AnnotationPoolHash: p.Hash, model.AnnotationPoolHashVersion: p.HashVersion}
		}
		text := statusText(s)
		if text == old.text && len(s.Annotations) == 0 {
			continue
		}
		if !c.x.Do("pool/"+p.Name, execute.PatchPool{Status: s}, c.now) {
			continue
		}
		written := poolWritten{text: text, cond: map[string]model.Condition{}}
		for _, cond := range s.Conditions {
			written.cond[cond.Type] = cond
			if was, ok := old.cond[cond.Type]; ok && was.Status != cond.Status {
				c.x.Event(model.Event{Object: model.ObjectRef{Kind: "NodePool", Name: p.Name, UID: p.UID}, Reason: cond.Type,
					Message: fmt.Sprintf("Status condition transitioned, Type: %s, Status: %s -> %s, Reason: %s", cond.Type, was.Status, cond.Status, cond.Reason)}, c.now)
			}
		}
		c.pools[p.Name] = written
	}
}

// counters always name the five resources of v1.
func counters(v resource.Vector, nodes int64) map[string]string {
	out := v.Map()
	for i := range resource.NumBase {
		name := resource.BaseName(i)
		if out[name] == "" {
			out[name] = "0"
		}
	}
	out["nodes"] = fmt.Sprint(nodes)
	return out
}

// ConditionLedger says on each pool whether the ledger can be reached. It is for people
// to see and has no part in Ready.
const ConditionLedger = "weir.dev/LedgerAvailable"

// ConditionQueue says on each pool whether the interruption queue can be read, where there is one to be read.
const ConditionQueue = "weir.dev/InterruptionQueueAvailable"

// poolConditions are the conditions of v1, and one of ours; a pool that the converter found invalid
// carries the reason in Unusable.
func (c *Controller) poolConditions(p *model.Pool, w *model.World, old map[string]model.Condition) []model.Condition {
	valid := model.Condition{Type: "ValidationSucceeded", Status: "True", Reason: "ValidationSucceeded"}
	if p.Unusable != "" {
		valid.Status, valid.Reason, valid.Message = "False", "NodePoolValidationFailed", p.Unusable
	}
	class := model.Condition{Type: "NodeClassReady", Status: "True", Reason: "NodeClassReady"}
	switch nc := w.NodeClasses[p.NodeClass.Name]; {
	case nc == nil:
		class.Status, class.Reason, class.Message = "False", "NodeClassNotFound", "NodeClass not found on cluster"
	case nc.Unusable != "":
		class.Status, class.Reason, class.Message = "False", "NodeClassNotReady", nc.Unusable
	}
	ready := model.Condition{Type: "Ready", Status: "True", Reason: "Ready"}
	var missing []string
	for _, cond := range []model.Condition{valid, class} {
		if cond.Status != "True" {
			missing = append(missing, cond.Type+"="+cond.Status)
		}
	}
	if len(missing) > 0 {
		ready.Status, ready.Reason, ready.Message = "False", "UnhealthyDependents", strings.Join(missing, ", ")
	}
	health := model.Condition{Type: "NodeRegistrationHealthy", Status: "Unknown", Reason: "AwaitingReconciliation", Message: "object is awaiting reconciliation"}
	switch healthy, known := c.x.RegistrationHealthy(p.Name); {
	case known && healthy:
		health.Status, health.Reason, health.Message = "True", "NodeRegistrationHealthy", ""
	case known:
		health.Status, health.Reason, health.Message = "False", "RegistrationFailed", "machines of this pool were bought or asked for and did not join in time"
	}
	memory := model.Condition{Type: ConditionLedger, Status: "True", Reason: "LedgerAvailable"}
	if c.x.LedgerDown {
		memory.Status, memory.Reason = "False", "LedgerUnavailable"
		memory.Message = "the ledger cannot be reached: launches go one by one, and what is to be remembered waits in memory"
	}
	out := []model.Condition{valid, class, health, memory, c.disruptionCondition(p), ready}
	if c.source.Name != "" {
		queue := model.Condition{Type: ConditionQueue, Status: "True", Reason: "InterruptionQueueAvailable"}
		if c.source.Down != "" {
			queue.Status, queue.Reason, queue.Message = "False", "InterruptionQueueUnavailable", "interruptions are not heard of by the queue: "+c.source.Down
		}
		out = append(out, queue)
	}
	out = append(out, c.strategyConditions(p)...)
	for i := range out {
		out[i].Since = c.now
		if was, ok := old[out[i].Type]; ok && was.Status == out[i].Status {
			out[i].Since = was.Since
		}
	}
	return out
}

func statusText(s execute.PoolStatus) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.Resources)) {
		fmt.Fprintf(&b, "%s=%s;", k, s.Resources[k])
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s/%s/%s;", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}
