package execute

import (
	"maps"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// namedPods is how many blockers of a node have an event of their own.
const namedPods = 5

// blockers tells who is in the way of a node's drain: a few pods each in an event, all
// that last in the condition of the claim, rewritten at most every drain.Long, and since
// when in the ledger, so that the next leader does not count from zero.
func (x *Executor) blockers(t *track, c *model.Claim, n *model.Node, all []drain.Blocker) {
	named := 0
	for _, b := range all {
		switch b.Reason {
		case drain.ReasonPDB, drain.ReasonMultiplePDBs, drain.ReasonFailed, drain.ReasonDoNotDisrupt:
			if named++; named <= namedPods {
				x.event(Event{Object: claim.NodeRef(n), Warning: true, Reason: "FailedDraining", Message: b.String()})
			}
		}
	}
	if x.now.Sub(t.told) < drain.Long {
		return
	}
	lasting := drain.Lasting(all, x.now)
	text := drain.Summary(lasting)
	if text == t.ending.Waiting {
		return
	}
	t.told, t.ending.Waiting = x.now, text
	t.due(x.now)
	var since map[string]time.Time
	for _, b := range lasting {
		if since == nil {
			since = map[string]time.Time{}
		}
		since[b.Pod.UID] = b.Since
	}
	st := x.stateOf(t, c, t.phase)
	if maps.Equal(st.Blocked, since) {
		return
	}
	st.Blocked = since
	x.reclaim[c.UID] = st
	x.remember(ledger.ClaimKey(x.cfg.Cluster, c.UID), st, ledger.Meta{Instance: st.InstanceID})
}

// blockedBefore tells a drain that is begun anew since when pods are in its way.
func (x *Executor) blockedBefore(c *model.Claim, s *drain.State) {
	for uid, at := range x.reclaim[c.UID].Blocked {
		if s.Pods == nil {
			s.Pods = map[string]*drain.PodMemory{}
		}
		s.Pods[uid] = &drain.PodMemory{Blocked: at}
	}
}
