package sim

import "time"

// BillLine is what one instance has cost.
type BillLine struct {
	InstanceID   string    `json:"instanceId"`
	Claim        string    `json:"claim,omitempty"`
	Node         string    `json:"node"`
	Pool         string    `json:"nodePool,omitempty"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	USDPerHour   float64   `json:"usdPerHour"`
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	Open         bool      `json:"open"` // still running at To
	Hours        float64   `json:"hours"`
	USD          float64   `json:"usd"`
}

// Bill is what every instance has cost so far: by the second from running to
// shutting-down, at least a minute, at the offering's price. Instances that
// never ran cost nothing and have no line.
func (e *EC2) Bill() []BillLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	out := []BillLine{}
	for _, m := range e.order {
		if m.RunningAt.IsZero() {
			continue
		}
		l := BillLine{InstanceID: m.ID, Claim: m.Claim, Node: m.NodeName, Pool: m.Tags["karpenter.sh/nodepool"], InstanceType: m.Type,
			Zone: m.Zone, CapacityType: m.CapacityType, USDPerHour: m.USDPerHour, From: m.RunningAt, To: m.EndingAt}
		if m.EndingAt.IsZero() {
			l.To, l.Open = now, true
		}
		l.Hours = max(l.To.Sub(l.From), time.Minute).Truncate(time.Second).Hours()
		l.USD = l.Hours * l.USDPerHour
		out = append(out, l)
	}
	return out
}
