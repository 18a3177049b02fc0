package execute

import (
	"slices"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// volumes says which volumes are still on the nodes of a claim that was drained, and
// sees to it that the wait for them ends. Those of pods that no drain takes away stay
// until the machine is gone, and are not waited for.
func (x *Executor) volumes(t *track, c *model.Claim, nodes []*model.Node, e *claim.Ending) {
	for _, n := range nodes {
		var stay []string
		for _, p := range x.m.PodsOn(n.Name) {
			if drain.WaitedFor(p, x.now) {
				t.ending.Drained, e.Drained = false, false // bound late: once more from there
				return
			}
			stay = append(stay, p.Volumes...)
		}
		for _, v := range x.m.Attached(n.Name) {
			if !slices.Contains(stay, v) && !slices.Contains(e.Attached, v) {
				e.Attached = append(e.Attached, v)
			}
		}
	}
	if len(e.Attached) == 0 {
		return
	}
	if at, ok, err := claim.Deadline(c); err == nil && ok {
		x.waitUntil(t, at)
	}
	if f, ok, err := interrupt.ReadFace(c.Annotations); ok && err == nil && !f.Deadline.IsZero() {
		e.Taken = x.now.After(f.Deadline)
		x.waitUntil(t, f.Deadline)
	}
	for _, n := range nodes {
		if !n.Ready { // it may be gone already, and nothing detaches what is on it
			x.describe[model.InstanceID(c.ProviderID)] = c.Name
			t.due(x.now.Add(claim.PollInstance))
		}
	}
}

// freeFor is how long the Node of a machine that is gone stays for its volumes to be
// detached under the taint that says so.
const freeFor = time.Minute

// leftVolumes names the volumes that a machine that is gone left attached. With its Node
// object gone as well, Kubernetes would wait six minutes before another node gets them.
func (x *Executor) leftVolumes(t *track, nodes []*model.Node) (left []string) {
	if !x.OutOfService || !t.ending.InstanceGone {
		return nil
	}
	for _, n := range nodes {
		left = append(left, x.m.Attached(n.Name)...)
	}
	if len(left) == 0 {
		return nil
	}
	if t.freeing.IsZero() {
		t.freeing = x.now
	}
	if end := t.freeing.Add(freeFor); x.now.Before(end) {
		t.due(end)
		return left
	}
	return nil
}

// waitUntil looks at a claim again when an instant is over.
func (x *Executor) waitUntil(t *track, at time.Time) {
	if !x.now.After(at) {
		t.due(at.Add(time.Millisecond))
	}
}
