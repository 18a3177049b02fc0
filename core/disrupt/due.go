package disrupt

import (
	"time"

	"github.com/weir-project/weir/core/model"
)

// Due is the first instant after w.Now at which the clock alone may change what Plan says
// about the same world with the same options and the same answers of the strategies: a
// node is quiet for long enough, old enough or expired, a protection or a nomination ends,
// a change has soaked, a budget's window opens or closes. Zero = it never does; w.Now
// itself = it may at any instant.
func Due(w *model.World, opts Options) time.Time {
	d := &due{now: w.Now}
	pools := map[string]*model.Pool{}
	for _, p := range w.Pools {
		pools[p.Name] = p
		d.budgets(p)
	}
	count := map[string]int64{}
	for _, n := range w.Nodes {
		d.at(opts.Nominated[n.ID()])
		for _, p := range n.Pods {
			if _, until := DoNotDisrupt(p, w.Now); until != nil {
				d.at(*until)
			}
		}
		if n.Claim == nil {
			continue
		}
		count[n.Pool()]++
		d.claim(w, n, pools[n.Pool()])
	}
	for _, p := range w.Pools {
		if p.Static != nil && w.Settings.StaticCapacity && count[p.Name] > *p.Static {
			return w.Now // which of the surplus nodes go depends on how much of their life is left
		}
	}
	return d.first
}

// due collects instants.
type due struct{ now, first time.Time }

func (d *due) at(t time.Time) {
	if t.After(d.now) && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}

// claim adds the instants at which a node of ours comes to something by its age.
func (d *due) claim(w *model.World, n *model.Node, pool *model.Pool) {
	if w.Settings.MinNodeAge > 0 {
		d.at(n.Claim.Created.Add(w.Settings.MinNodeAge))
	}
	if at, ever := ExpiresAt(w.Pool(n.Claim.Pool), n.Claim); ever {
		d.at(at)
	}
	if pool == nil {
		return
	}
	if pool.ConsolidateAfter != model.Never {
		d.at(quietFrom(n, pool))
	}
	if soak, err := Soak(pool); err == nil && soak > 0 {
		d.at(n.Claim.Condition(model.CondDrifted).Since.Add(soak))
	}
}

// budgets adds the next start and the next end of a window.
func (d *due) budgets(p *model.Pool) {
	for _, b := range p.Budgets {
		if b.Schedule == "" {
			continue
		}
		sched, err := parseSchedule(b.Schedule, timeZone(p))
		if err != nil {
			continue // allows nothing, whatever the time
		}
		now := d.now.UTC()
		d.at(sched.Next(now))
		if start := sched.Next(now.Add(-b.Duration)); !start.IsZero() {
			d.at(start.Add(b.Duration))
		}
	}
}
