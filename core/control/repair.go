package control

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/repair"
)

// repairEvery is the pause between two looks for broken nodes.
const repairEvery = 10 * time.Second

// repair replaces nodes that are broken for good, where it is asked for, and takes back
// what was begun with nodes that recovered. It is level-triggered: whoever leads next goes
// on by what the claims show.
func (c *Controller) repair() {
	if at := c.repairAt; c.now.Before(at) {
		c.wake(at)
		return
	}
	var policies []repair.Policy
	frozen := ""
	if c.set.NodeRepair {
		policies, frozen = repair.Policies(), c.frozen()
	}
	nodes := c.m.World(c.now).Nodes
	r := repair.Find(nodes, policies, frozen, c.now)
	c.repairAt = c.now.Add(repairEvery)
	if !r.Next.IsZero() && r.Next.Before(c.repairAt) {
		c.repairAt = r.Next
	}
	broken := map[string]bool{}
	for _, f := range r.Findings {
		if f.Blocked != "" {
			c.x.Event(model.Event{Object: claim.NodeRef(f.Node), Warning: true, Reason: "NodeRepairBlocked", Message: f.Blocked + "; " + f.String()}, c.now)
			continue
		}
		broken[f.Node.Claim.Name] = true
		c.x.Repair(f.Node.Claim.Name, fmt.Sprintf("%s=%s since %s", f.Condition.Type, f.Condition.Status, f.Condition.Since.UTC().Format(time.RFC3339)), c.now)
		c.repairAt = c.now.Add(time.Second) // until the claim is being deleted
	}
	for _, n := range nodes {
		if n.Managed() && n.Claim.Annotations[model.AnnotationRepair] != "" && n.Claim.Deleting == nil && !broken[n.Claim.Name] {
			c.x.Unrepair(n.Claim.Name, c.now)
		}
	}
	c.wake(c.repairAt)
}
