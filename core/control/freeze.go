package control

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/model"
)

// When voluntary disruption stands still: a failure this large is not ours to tidy up.
const (
	zoneShare  = 0.20             // of a zone's nodes not ready,
	zoneLeast  = 3                // at least so many,
	allShare   = 1.0 / 3          // or of all nodes,
	allLeast   = 2                // at least so many;
	watchLag   = 30 * time.Second // watches that far behind;
	clockJump  = time.Minute      // a clock that jumps by more
	freezeTail = 10 * time.Minute // and until so long after it is over
	freezeLook = time.Second      // between two counts of the nodes
)

// freeze remembers the last reason.
type freeze struct {
	until  time.Time
	why    string
	looked time.Time // when the nodes were last counted
}

func (f *freeze) hit(why string, now time.Time) {
	f.until, f.why = now.Add(freezeTail), why
}

// frozen says why nothing voluntary may start now, or is empty.
func (c *Controller) frozen() string {
	if c.lag >= watchLag {
		c.freeze.hit(fmt.Sprintf("watches are behind by %s", c.lag.Round(time.Second)), c.now)
	} else if c.now.Sub(c.freeze.looked) >= freezeLook || c.now.Before(c.freeze.looked) {
		c.freeze.looked = c.now
		if why := massFailure(c.m.World(c.now).Nodes); why != "" {
			c.freeze.hit(why, c.now)
		}
	}
	if c.now.Before(c.freeze.until) {
		c.wake(c.freeze.until)
		return c.freeze.why
	}
	return ""
}

// massFailure looks for a zone, or a cluster, that has lost many nodes at once.
// Nodes that are only starting or already leaving do not count.
func massFailure(nodes []*model.Node) string {
	type count struct{ all, lost int }
	var total count
	zones := map[string]*count{}
	for _, n := range nodes {
		if !n.Joined() || !n.Initialized() || n.BeingRemoved() {
			continue
		}
		z := zones[n.Zone()]
		if z == nil {
			z = &count{}
			zones[n.Zone()] = z
		}
		z.all++
		total.all++
		if !n.Ready {
			z.lost++
			total.lost++
		}
	}
	if total.lost >= allLeast && float64(total.lost) >= allShare*float64(total.all) {
		return fmt.Sprintf("%d of %d nodes are not ready", total.lost, total.all)
	}
	worst := ""
	for name, z := range zones {
		if z.lost >= zoneLeast && float64(z.lost) >= zoneShare*float64(z.all) && (worst == "" || name < worst) {
			worst = name
		}
	}
	if worst != "" {
		return fmt.Sprintf("%d of %d nodes of zone %s are not ready", zones[worst].lost, zones[worst].all, worst)
	}
	return ""
}
