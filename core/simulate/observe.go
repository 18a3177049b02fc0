package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ec2 "github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
)

// happening is a Happening before those of one instant are joined.
type happening struct {
	Happening
	node string
}

// podGroup joins happenings of pods of one instant that differ in the pod only.
type podGroup struct{ what, workload, node, why string }

// note tells of something. Equal things of one instant that differ in the subject
// only become one line.
func (s *sim) note(h happening) {
	if h.node != "" && h.Subject != h.node {
		h.Subject += " (" + h.node + ")"
	}
	s.groups = append(s.groups, moment{note: &h.Happening})
}

// podNote counts a pod's happening; equal ones of one instant become one line.
func (s *sim) podNote(what string, p *model.Pod, why string) {
	g := podGroup{what, workloadOf(p), p.NodeName, why}
	if i := slices.IndexFunc(s.groups, func(x moment) bool { return x.note == nil && x.pods == g }); i >= 0 {
		s.groups[i].n++
		return
	}
	s.groups = append(s.groups, moment{pods: g, n: 1})
}

// moment is what happened at the present instant: a note, or something to n equal pods.
type moment struct {
	note *Happening
	pods podGroup
	n    int
}

// flush tells of the past instant.
func (s *sim) flush() {
	groups := s.groups
	s.groups = nil
	for i, x := range groups {
		switch {
		case x.note == nil:
			s.tell(podHappening(x))
		case x.note.Text != "":
			for j := i + 1; j < len(groups); j++ {
				if n := groups[j].note; n != nil && n.joins(x.note) {
					x.note.Subject += ", " + n.Subject
					n.Text = "" // told here
				}
			}
			s.tell(*x.note)
		}
	}
}

// joins says whether two happenings can be told as one.
func (h *Happening) joins(o *Happening) bool {
	return h.Text == o.Text && h.Kind == o.Kind && h.Why == o.Why && h.USDPerHour == 0 && o.USDPerHour == 0 && h.Detail == o.Detail && h.Kind != "step"
}

func (s *sim) tell(h Happening) {
	h.At = s.now
	s.report.Happenings = append(s.report.Happenings, h)
	if s.opts.Happened != nil {
		s.opts.Happened(h)
	}
}

func podHappening(x moment) Happening {
	h := Happening{Kind: "pods", Subject: x.pods.workload, Count: x.n, Why: x.pods.why}
	on := ""
	if x.pods.node != "" {
		on = " on " + x.pods.node
	}
	switch x.pods.what {
	case "created":
		h.Text, h.Detail = plural(x.n, "pod")+" created", true
	case "unschedulable":
		h.Text, h.Why = plural(x.n, "pod")+" pending", "no node has room that they may use"
	case "bound":
		h.Text = plural(x.n, "pod") + " bound to " + x.pods.node
	case "running":
		h.Text = plural(x.n, "pod") + " running" + on
	case "evicted":
		h.Kind, h.Text = "evict", plural(x.n, "pod")+" evicted from "+x.pods.node
	case "forced":
		h.Kind, h.Warning, h.Text = "evict", true, plural(x.n, "pod")+" deleted past their budgets from "+x.pods.node
	case "gone":
		h.Text, h.Detail = plural(x.n, "pod")+" gone"+on, true
	}
	return h
}

// The observer of the API server.

func (s *sim) podCreated(p *model.Pod) {
	s.changed = true
	if p.NodeName != "" { // of a DaemonSet
		s.runPod(p)
		return
	}
	s.totals.PodsCreated++
	s.waitingSince[p.UID] = s.now
	s.podNote("created", p, "")
	s.wakeScheduler()
}

func (s *sim) podChanged(old, p *model.Pod) {
	s.changed = true
	if !old.Unschedulable && p.Unschedulable {
		s.podNote("unschedulable", p, "")
	}
	if old.NodeName == "" && p.NodeName != "" {
		s.stopWaiting(p)
		s.podNote("bound", p, "")
		if m := s.bills[s.instanceOn(p.NodeName)]; m != nil {
			m.MostPods = max(m.MostPods, s.workloadPods(p.NodeName))
			m.Drained = time.Time{}
		}
	}
	if !old.Ready && p.Ready {
		if !p.Daemon() {
			s.podNote("running", p, "")
		}
	}
	if old.Deleting == nil && p.Deleting != nil {
		s.wakeWorkload(workloadOf(p))
	}
	if p.NodeName != "" {
		s.runPod(p)
	}
}

func (s *sim) stopWaiting(p *model.Pod) {
	since, waiting := s.waitingSince[p.UID]
	if !waiting {
		return
	}
	delete(s.waitingSince, p.UID)
	d := s.now.Sub(since).Seconds()
	s.totals.PendingPodSeconds += d
	s.totals.LongestPending = max(s.totals.LongestPending, d)
}

func (s *sim) podGone(p *model.Pod) {
	s.changed = true
	s.stopWaiting(p)
	delete(s.starting, p.UID)
	delete(s.stopping, p.UID)
	if !p.Daemon() {
		s.podNote("gone", p, "")
	}
	if m := s.bills[s.instanceOn(p.NodeName)]; m != nil && s.workloadPods(p.NodeName) == 0 {
		m.Drained = s.now
	}
	s.wakeWorkload(workloadOf(p))
	s.wakeScheduler()
}

func (s *sim) podEvicted(p *model.Pod, forced bool) {
	if forced {
		s.totals.ForcedDeletions++
		s.podNote("forced", p, s.whyGone(p.NodeName))
		return
	}
	s.totals.Evictions++
	s.podNote("evicted", p, s.whyGone(p.NodeName))
}

func (s *sim) budgetBroken(b *Budget, p *model.Pod) {
	s.totals.BrokenBudgets++
	s.note(happening{Happening: Happening{Kind: "budget", Warning: true, Subject: b.Namespace + "/" + b.Name, Text: "broken by the loss of " + p.ID()}})
}

// whyGone is the reason why the node's claim ends, as far as it is known.
func (s *sim) whyGone(node string) string {
	for _, c := range s.api.claims.all() {
		if c.NodeName != node || node == "" {
			continue
		}
		if c.Annotations[model.AnnotationInterruption] != "" {
			return "interruption"
		}
		if d := c.Condition(model.CondDisruptionReason); d.Status == "True" {
			return strings.ToLower(d.Reason)
		}
	}
	return ""
}

func (s *sim) claimCreated(c *model.Claim) {
	s.note(happening{Happening: Happening{Kind: "claim", Subject: c.Name, Text: "NodeClaim created for pool " + c.Pool, Detail: true}})
}

func (s *sim) claimChanged(old, c *model.Claim) {
	for _, x := range []struct{ cond, text string }{{model.CondLaunched, "launched"}, {model.CondRegistered, "registered"}, {model.CondInitialized, "initialized: ready for pods"},
		{model.CondDrained, "drained"}} {
		if !old.Is(x.cond) && c.Is(x.cond) {
			s.note(happening{Happening: Happening{Kind: "claim", Subject: c.Name, Text: x.text, Detail: x.cond == model.CondLaunched}, node: c.NodeName})
		}
	}
	if d := c.Condition(model.CondDisruptionReason); !old.Is(model.CondDisruptionReason) && d.Status == "True" {
		why := d.Message
		if why == d.Reason {
			why = ""
		}
		s.note(happening{Happening: Happening{Kind: "claim", Subject: c.Name, Text: "to be given back: " + d.Reason, Why: why}, node: c.NodeName})
	}
	if old.Deleting == nil && c.Deleting != nil {
		s.note(happening{Happening: Happening{Kind: "claim", Subject: c.Name, Text: "NodeClaim is being deleted", Detail: true}, node: c.NodeName})
	}
}

func (s *sim) claimGone(c *model.Claim) {
	s.note(happening{Happening: Happening{Kind: "claim", Subject: c.Name, Text: "NodeClaim gone", Detail: true}, node: c.NodeName})
}

func (s *sim) nodeCreated(n *model.Node) {
	s.changed = true
	if m := s.bills[s.instanceOn(n.Name)]; m != nil {
		m.Registered = s.now
	}
	s.note(happening{Happening: Happening{Kind: "node", Subject: n.Name, Text: "joined the cluster"}})
	s.nodeChanged(&model.Node{}, n)
}

func (s *sim) nodeChanged(old, n *model.Node) {
	s.changed = true
	if !old.Ready && n.Ready {
		s.note(happening{Happening: Happening{Kind: "node", Subject: n.Name, Text: "Ready", Detail: true}})
	}
	if old.Ready && !n.Ready {
		s.note(happening{Happening: Happening{Kind: "node", Subject: n.Name, Text: "NotReady", Warning: true}})
	}
	if disrupted := func(n *model.Node) bool {
		return slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintDisrupted })
	}; disrupted(n) != disrupted(old) {
		text := "cordoned"
		if disrupted(old) {
			text = "open for pods again"
		}
		s.note(happening{Happening: Happening{Kind: "node", Subject: n.Name, Text: text, Why: s.whyGone(n.Name)}})
	}
	s.placeDaemons(n)
	s.evictIntolerant(n)
	s.wakeScheduler()
}

func (s *sim) nodeGone(n *model.Node) {
	s.changed = true
	s.note(happening{Happening: Happening{Kind: "node", Subject: n.Name, Text: "left the cluster"}})
	s.collectOrphans(n.Name)
}

// Machines.

func (s *sim) machineBought(m ec2.Machine) {
	s.byMachine[m.NodeName] = m.ID
	s.bills[m.ID] = &NodeBill{Launched: m.Launched}
	price := m.USDPerHour
	s.note(happening{Happening: Happening{Kind: "instance", Subject: m.ID, USDPerHour: price,
		Text: fmt.Sprintf("bought: %s in %s, %s, for %s", m.Type, m.Zone, m.CapacityType, cmp.Or(m.Claim, "somebody else"))}})
}

func (s *sim) instanceOn(node string) string { return s.byMachine[node] }

func (s *sim) workloadPods(node string) int {
	n := 0
	for _, p := range s.api.bound(node).all() {
		if !p.Daemon() && !p.Terminal {
			n++
		}
	}
	return n
}

func (s *sim) warned(detailType string, m ec2.Machine) {
	h := Happening{Kind: "notice", Subject: m.NodeName, Warning: true, Text: detailType}
	if detailType == "EC2 Spot Instance Interruption Warning" {
		h.Text = fmt.Sprintf("EC2 takes %s (%s in %s) back at %s", m.ID, m.Type, m.Zone, s.now.Add(s.delays.Notice).Format("15:04:05"))
		h.Why = detailType
	}
	if b := s.bills[m.ID]; b != nil && b.Warned.IsZero() {
		b.Warned = s.now
	}
	s.note(happening{Happening: h})
}

// kubeEvent hears the Kubernetes events of the controller. Those that only repeat
// what the objects show are details; each warning is told once per object and message.
func (s *sim) kubeEvent(e execute.Event) {
	key := e.Reason + "|" + e.Object.Kind + "|" + e.Object.Name + "|" + e.Message
	if e.Object.Kind == "Pod" { // equal pods say equal things
		if p, ok := s.api.pods.get(e.Object.Namespace + "/" + e.Object.Name); ok {
			key = e.Reason + "|" + workloadOf(p) + "|" + e.Message
		}
	}
	if s.eventsTold[key] {
		return
	}
	s.eventsTold[key] = true
	s.note(happening{Happening: Happening{Kind: "event", Subject: strings.TrimPrefix(e.Object.Namespace+"/"+e.Object.Name, "/"),
		Text: e.Reason, Why: e.Message, Warning: e.Warning, Detail: !e.Warning}})
}

// planned tells of a plan: what is to be bought or given back, at what price and why.
func (s *sim) planned(p *model.Plan) {
	if p == nil {
		return
	}
	if p.Strategy != "" {
		s.report.Strategy = p.Strategy
	}
	s.tellLaunch(p)
	for i := range p.Commands {
		c := &p.Commands[i]
		names := make([]string, len(c.Remove))
		for j, n := range c.Remove {
			names[j] = n.ID()
		}
		key := string(c.Reason) + strings.Join(names, ",")
		if s.commandsTold[key] {
			continue
		}
		s.commandsTold[key] = true
		s.note(happening{Happening: Happening{Kind: "plan", Subject: strings.Join(names, ", "), Count: c.PodsEvicted, USDPerHour: c.Before - c.After,
			Text: fmt.Sprintf("give back %s: %s", plural(len(names), "node"), c.Reason),
			Why:  cmp.Or(c.Why, fmt.Sprintf("saves %.4f USD/h, moves %s", c.Before-c.After, plural(c.PodsEvicted, "pod")))}})
	}
	for _, v := range p.Unplaced {
		key := "unplaced|" + workloadOf(v.Pod) + "|" + reasons(v)
		if !s.eventsTold[key] {
			s.eventsTold[key] = true
			s.note(happening{Happening: Happening{Kind: "plan", Warning: true, Subject: workloadOf(v.Pod), Text: "cannot be placed", Why: reasons(v)}})
		}
	}
}

func reasons(v model.Verdict) string {
	var parts []string
	for _, r := range v.Reasons {
		parts = append(parts, strings.TrimPrefix(r.Pool+": ", ": ")+cmp.Or(r.Message, string(r.Filter)))
	}
	return strings.Join(parts, "; ")
}

// tellLaunch tells what is to be bought, for how many pods, and how far that is from the best possible.
func (s *sim) tellLaunch(p *model.Plan) {
	if len(p.Launch) == 0 {
		return
	}
	pods, usd := 0, 0.0
	for _, n := range p.Launch {
		pods += len(n.Pods)
		usd += n.Offering.USDPerHour
	}
	why := cmp.Or(p.Strategy, "built-in")
	if p.LowerBoundUSDPerHour > 0 {
		why += fmt.Sprintf("; proven: no plan costs less than %.4f USD/h", p.LowerBoundUSDPerHour)
	}
	s.note(happening{Happening: Happening{Kind: "plan", Count: pods, USDPerHour: round(usd), Why: why,
		Text: fmt.Sprintf("buy %s for %s", plural(len(p.Launch), "machine"), plural(pods, "pod"))}})
	for _, n := range p.Launch {
		requests := n.Requests.Map()
		why := fmt.Sprintf("cheapest for %s CPU and %s", requests["cpu"], requests["memory"])
		if len(n.Alternatives) > 0 {
			a := n.Alternatives[0]
			why += fmt.Sprintf("; then %s in %s at %.4f; %s named to EC2", a.Type.Name, a.Zone, a.USDPerHour, plural(len(n.Alternatives)+1, "offering"))
		}
		s.note(happening{Happening: Happening{Kind: "plan", Subject: n.Pool.Name, Count: len(n.Pods), USDPerHour: n.Offering.USDPerHour, Why: why,
			Text: fmt.Sprintf("  %s in %s, %s, for %s", n.Offering.Type.Name, n.Offering.Zone, n.Offering.CapacityType, plural(len(n.Pods), "pod"))}})
	}
}

// Figures.

func (s *sim) sampleCost() { s.changed = true }

// sample writes the state of the past instant where it differs from the last one.
func (s *sim) sample() {
	if !s.changed {
		return
	}
	s.changed = false
	x := Sample{At: s.now, USDPerHour: s.usdPerHour()}
	for _, p := range s.api.pods.all() {
		switch {
		case p.Daemon() || p.Terminal:
		case p.NodeName == "":
			x.Pending++
		case p.Ready && p.Deleting == nil:
			x.Running++
		}
	}
	for _, n := range s.api.nodes.all() {
		if n.Ready {
			x.Nodes++
		}
	}
	s.totals.PeakUSDPerHour = max(s.totals.PeakUSDPerHour, x.USDPerHour)
	if last := len(s.report.Samples) - 1; last >= 0 {
		prev := s.report.Samples[last]
		prev.At = x.At
		if prev == x {
			return
		}
	}
	s.report.Samples = append(s.report.Samples, x)
}

// usdPerHour is what the machines that are paid for cost now.
func (s *sim) usdPerHour() float64 {
	sum := 0.0
	for _, m := range s.cloud.Machines() {
		if m.State == ec2.Running {
			sum += m.USDPerHour
		}
	}
	return round(sum)
}

// round cuts what adding floats in another order could change.
func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }
