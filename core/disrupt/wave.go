package disrupt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// How long the parts of a wave may take.
const (
	waveGrace = 10 * time.Minute // new nodes until they are ready, moved pods until they are available; then the roll halts
	waveDrain = 15 * time.Minute // nodes that still drain hold the next wave up; then only the budgets count them
	waveBuys  = 2 * time.Minute  // after its last command nodes are bought for its pods; what comes later is for others
	waveRetry = 30 * time.Minute // after a wave whose new nodes did not come to be usable, unless what is bought has changed
)

// Wave is the nodes of a pool that were taken away together because they no longer
// match it. The next wave waits until this one is done.
type Wave struct {
	Pool          string
	Template      string    // of the pool when it started, see Template
	Started, Last time.Time // its first and its last command
	Claims        []string  // of the nodes that it takes away
	Moved         map[string]MovedPods
}

// MovedPods is what a wave took of one workload.
type MovedPods struct {
	Name  string // namespace/kind/name
	Pods  int
	Ready int // of them, before they were moved
}

// maxWaveWorkloads bounds what a wave remembers.
const maxWaveWorkloads = 1000

// Reasons of model.Blocked that have to do with waves.
const (
	BlockedSoak   = "Soak"   // the change that it does not match yet is too young
	BlockedWave   = "Wave"   // the wave before is not done
	BlockedHalted = "Halted" // something is wrong with the wave before
	BlockedPaused = "Paused" // the pool's pods went round in circles
	BlockedYoung  = "MinimumAge"
)

// heldBack is the verdict on a node that is held back, nil where nothing does it.
func heldBack(h *model.Hold, pool *model.Pool, reason string) *model.Blocked {
	if h == nil {
		return nil
	}
	if reason == BlockedWave && h.Halted {
		reason = BlockedHalted
	}
	b := no(reason, "NodePool %q: %s", pool.Name, h.Why)
	b.Until = h.Until
	return b
}

// Rolls says whether nodes are replaced in waves for the reason: those that have to
// go, but not at once.
func Rolls(r model.DisruptionReason) bool { return r == model.Drifted || r == model.Expired }

// Template is equal as long as a pool buys the same kind of nodes.
func Template(w *model.World, p *model.Pool) string {
	parts := []string{p.Hash}
	if class := w.NodeClasses[p.NodeClass.Name]; class != nil {
		parts = append(parts, class.Hash)
		for _, i := range class.Images {
			parts = append(parts, i.ID)
		}
	}
	return strings.Join(parts, "/")
}

// Take puts a node into the wave; nil starts one.
func (wv *Wave) Take(w *model.World, p *model.Pool, n *model.Node) *Wave {
	if wv == nil {
		wv = &Wave{Pool: p.Name, Template: Template(w, p), Started: w.Now, Moved: map[string]MovedPods{}}
	}
	wv.Last = w.Now
	wv.Claims = append(wv.Claims, n.Claim.Name)
	for _, x := range n.Pods {
		workload := x.Workload()
		if !x.Reschedulable() || workload == "" {
			continue
		}
		m, known := wv.Moved[workload]
		if !known && len(wv.Moved) >= maxWaveWorkloads {
			continue
		}
		m.Name = x.Namespace + "/" + x.Owner.Kind + "/" + x.Owner.Name
		m.Pods++
		if x.Ready {
			m.Ready++
		}
		wv.Moved[workload] = m
	}
	return wv
}

// Hold says what the next wave waits for, nil where this one is done. running names the
// nodes of commands that are under way, by Node.ID; failing says, where the machines
// of the pool do not join, so.
func (wv *Wave) Hold(w *model.World, running map[string]bool, failing string) *model.Hold {
	late := !w.Now.Before(wv.Last.Add(waveGrace))
	changed := false
	if p := w.Pool(wv.Pool); p != nil {
		changed = Template(w, p) != wv.Template
	}
	var leaving, kept, unready []string
	for _, n := range w.Nodes {
		if n.Claim == nil || n.Pool() != wv.Pool {
			continue
		}
		switch {
		case slices.Contains(wv.Claims, n.Claim.Name):
			if n.BeingRemoved() || running[n.ID()] {
				leaving = append(leaving, n.ID())
			} else {
				kept = append(kept, n.ID())
			}
		case !wv.since(n.Claim.Created, waveBuys) || n.BeingRemoved():
		case !n.Ready || !n.Initialized():
			unready = append(unready, n.ID())
		}
	}
	if retry := wv.Last.Add(waveRetry); !changed && w.Now.Before(retry) {
		what := failing
		if len(kept) > 0 {
			what = "the replacements of " + some(kept) + " did not come to be usable"
		}
		if what != "" {
			return &model.Hold{Halted: true, Until: &retry, Why: what + "; it is tried again then, or as soon as the pool or its class has changed"}
		}
	}
	if len(unready) > 0 && !changed {
		return &model.Hold{Halted: late, Why: fmt.Sprintf("%d of the new nodes are not ready: %s", len(unready), some(unready))}
	}
	if what := wv.missing(w); what != "" {
		return &model.Hold{Halted: late, Why: what}
	}
	if until := wv.Last.Add(waveDrain); len(leaving) > 0 && w.Now.Before(until) {
		return &model.Hold{Until: &until, Why: fmt.Sprintf("%d nodes of the wave before are still on their way out: %s", len(leaving), some(leaving))}
	}
	return nil
}

// since says whether something was made while the wave went on, or up to so long after its
// last command: in a busy pool nodes and pods come all the time. Objects tell their
// creation in whole seconds.
func (wv *Wave) since(created time.Time, tail time.Duration) bool {
	return !created.Before(wv.Started.Truncate(time.Second)) && !created.After(wv.Last.Add(tail))
}

// missing says which moved pods are not available again; those that were not before
// they were moved do not count.
func (wv *Wave) missing(w *model.World) string {
	if len(wv.Moved) == 0 {
		return ""
	}
	down := map[string][]string{}
	look := func(p *model.Pod) {
		if p.Active() && !p.Ready && wv.since(p.Created, waveDrain) {
			if workload := p.Workload(); workload != "" {
				if _, moved := wv.Moved[workload]; moved {
					down[workload] = append(down[workload], p.ID())
				}
			}
		}
	}
	for _, p := range w.Pods {
		look(p)
	}
	for _, n := range w.Nodes {
		for _, p := range n.Pods {
			look(p)
		}
	}
	count, pods := 0, []string{}
	for workload, ids := range down {
		if m := wv.Moved[workload]; len(ids) > m.Pods-m.Ready {
			count += len(ids)
			pods = append(pods, ids...)
		}
	}
	if count == 0 {
		return ""
	}
	slices.Sort(pods)
	return fmt.Sprintf("%d pods that were moved are not available: %s", count, some(pods))
}

// some shows the first few of a list.
func some(list []string) string {
	const most = 3
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

// soak says what keeps a node that no longer matches its pool for now.
func (c *checker) soak(n *model.Node, pool *model.Pool) *model.Blocked {
	d, err := Soak(pool)
	if err != nil {
		return no(BlockedSoak, "%v; until it is mended no node of the pool is replaced for drift", err)
	}
	drift := n.Claim.Condition(model.CondDrifted)
	if until := drift.Since.Add(d); until.After(c.w.Now) {
		b := no(BlockedSoak, "it no longer matches NodePool %q (%s since %s), whose changes soak for %s (%s)",
			pool.Name, orElse(drift.Reason, "Drifted"), drift.Since.UTC().Format(time.RFC3339), d, model.AnnotationSoak)
		b.Until = &until
		return b
	}
	return nil
}

// Soak is the pool's soak, 0 where it has none.
func Soak(p *model.Pool) (time.Duration, error) {
	v, ok := p.Annotations[model.AnnotationSoak]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("NodePool %s: annotation %s: expected a duration such as 72h, got %q", p.Name, model.AnnotationSoak, v)
	}
	return d, nil
}
