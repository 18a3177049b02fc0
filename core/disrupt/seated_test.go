package disrupt_test

import (
	"testing"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// A static pool gives back what it has too many: the bound knows.
func TestBoundOfASurplusInAStaticPool(t *testing.T) {
	t.Parallel()
	launched := func(n *model.Node) { n.Claim.ProviderID = "aws:///a/i-" + n.Name }
	w := world(node("n1", "m5.large", launched), node("n2", "m5.large", launched), fixed(1))
	p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true, Bound: true})
	_, after := price(w, p)
	if p.LowerBoundUSDPerHour > after+1e-9 {
		t.Errorf("bound above price: after %v bound %v %v", after, p.LowerBoundUSDPerHour, removed(p))
	}
}

// A waiting pod that was promised a node keeps its host port there.
func TestPromisedPodKeepsItsPort(t *testing.T) {
	t.Parallel()
	ports := func(p *model.Pod) {
		p.Topology = &model.Topology{HostPorts: []model.HostPort{{Port: 80, Protocol: "TCP"}}}
	}
	w := world(node("n2", "m5.large", func(n *model.Node) { n.Annotations[model.AnnotationDoNotDisrupt] = "true" }),
		node("n3", "m5.8xlarge", pod("q", 3000), pod("p", 200, ports)))
	waits := &model.Pod{Namespace: "x", Name: "w", UID: "w", Unschedulable: true, Requests: resource.New(100, 0, 1, 0), Labels: map[string]string{}, Annotations: map[string]string{}, Owner: model.Owner{Kind: "ReplicaSet", Name: "w"}, Terms: []require.Set{{}}}
	ports(waits)
	w.Pods = append(w.Pods, waits)
	p := plan(w)
	for _, c := range p.Commands {
		for _, m := range c.Moves {
			if m.Pod.Name == "p" && m.To == "n2" {
				t.Errorf("p goes to n2, where w with the same port is expected")
			}
		}
	}
}

// A node may hold more than it says it can: its own pods fit on it.
func TestBoundOfAnOvercommittedNode(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.large", pod("a", 1900), pod("b", 1900)), node("n2", "m5.large", pod("c", 1900)))
	p := disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true, Bound: true})
	_, after := price(w, p)
	if p.LowerBoundUSDPerHour > after+1e-9 {
		t.Errorf("bound above price: after %v bound %v %v", after, p.LowerBoundUSDPerHour, shown(p))
	}
}

// Preferences count also where no candidate can go without a replacement.
func TestPreferencesCountWithoutOtherCandidates(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.8xlarge", pod("s", 3000, func(p *model.Pod) {
		p.Topology = &model.Topology{Spreads: []model.Spread{{Key: model.LabelHostname, MaxSkew: 1, Selector: pick("s")}}}
	}), pod("p1", 200, softly("w", softApart(model.LabelHostname, "q")))),
		node("n2", "m5.large", pod("q", 200), func(n *model.Node) { n.Annotations[model.AnnotationDoNotDisrupt] = "true" }))
	p := plan(w)
	t.Log(shown(p))
	for _, c := range p.Commands {
		for _, m := range c.Moves {
			if m.Pod.Name == "p1" && m.To == "n2" {
				t.Errorf("p1 goes to n2 beside q")
			}
		}
	}
}
