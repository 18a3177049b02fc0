package v1

import "time"

const (
	defaultExpireAfter  = 720 * time.Hour
	defaultBudgetNodes  = "10%"
	textExpireAfter     = "720h"
	textConsolidateZero = "0s"
)

// Default fills what the API server would fill in on admission. A value that was read from a file keeps its text; one that
// was made in Go and left zero counts as not given, so that "Never" must be written with its text (Raw).
func (p *NodePool) Default() {
	p.Spec.Template.Spec.ExpireAfter.defaultTo(defaultExpireAfter, textExpireAfter)
	d := &p.Spec.Disruption
	d.ConsolidateAfter.defaultTo(0, textConsolidateZero)
	if d.ConsolidationPolicy == "" {
		d.ConsolidationPolicy = WhenEmptyOrUnderutilized
	}
	if d.Budgets == nil {
		d.Budgets = []Budget{{Nodes: defaultBudgetNodes}}
	}
	for i := range d.Budgets {
		if d.Budgets[i].Nodes == "" {
			d.Budgets[i].Nodes = defaultBudgetNodes
		}
	}
}

// Default fills what the API server would fill in on admission; see NodePool.Default.
func (c *NodeClaim) Default() { c.Spec.ExpireAfter.defaultTo(defaultExpireAfter, textExpireAfter) }

func (d *NillableDuration) defaultTo(value time.Duration, text string) {
	if d.Duration == nil && d.Raw == "" {
		*d = NillableDuration{Duration: &value, Raw: text}
	}
}
