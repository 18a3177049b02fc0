package simulate

import (
	"slices"

	"github.com/weir-project/weir/core/model"
)

// welcome says whether the node of rooms[i] may take the pod as far as the pods
// around it and the places of its volumes go. It follows kube-scheduler's filters:
// hard spreads, required affinity and anti-affinity in both directions, host ports.
func welcome(rooms []room, i int, p *model.Pod) bool {
	n := rooms[i].node
	for _, o := range rooms[i].pods {
		if o.Topology != nil && p.Topology != nil && collide(p.Topology.HostPorts, o.Topology.HostPorts) {
			return false
		}
	}
	if shunned(rooms, n, p) {
		return false
	}
	t := p.Topology
	if t.None() {
		return true
	}
	if len(t.VolumeTerms) > 0 && !slices.ContainsFunc(t.VolumeTerms, func(x requireSet) bool { return x.LabelsSatisfy(n.Labels) == nil }) {
		return false
	}
	for _, term := range t.AntiAffinity {
		if value, has := n.Labels[term.Key]; has && count(rooms, term.Key, value, term.Selector.Picks) > 0 {
			return false
		}
	}
	for _, term := range t.Affinity {
		value, has := n.Labels[term.Key]
		if !has || count(rooms, term.Key, value, term.Selector.Picks) == 0 && !first(rooms, term, p) {
			return false
		}
	}
	return !slices.ContainsFunc(t.Spreads, func(x model.Spread) bool { return uneven(rooms, n, p, x) })
}

func collide(a, b []model.HostPort) bool {
	return slices.ContainsFunc(a, func(x model.HostPort) bool { return slices.ContainsFunc(b, x.Collides) })
}

// shunned says whether a pod that is there keeps p out of its domain.
func shunned(rooms []room, n *model.Node, p *model.Pod) bool {
	for i := range rooms {
		for _, o := range rooms[i].pods {
			if o.Topology == nil {
				continue
			}
			for _, term := range o.Topology.AntiAffinity {
				there, has := rooms[i].node.Labels[term.Key]
				if here, also := n.Labels[term.Key]; has && also && here == there && term.Selector.Picks(p) {
					return true
				}
			}
		}
	}
	return false
}

// count is the number of pods in the domain key=value that are such.
func count(rooms []room, key, value string, such func(*model.Pod) bool) int {
	n := 0
	for i := range rooms {
		if v, has := rooms[i].node.Labels[key]; !has || v != value {
			continue
		}
		for _, o := range rooms[i].pods {
			if such(o) {
				n++
			}
		}
	}
	return n
}

// first says whether p may open a domain: it picks itself, and nobody is there yet.
func first(rooms []room, term model.PodTerm, p *model.Pod) bool {
	return term.Selector.Picks(p) && !slices.ContainsFunc(rooms, func(r room) bool { return slices.ContainsFunc(r.pods, term.Selector.Picks) })
}

// uneven says whether the pod on the node would break the spread.
func uneven(rooms []room, n *model.Node, p *model.Pod, s model.Spread) bool {
	value, has := n.Labels[s.Key]
	if !has {
		return true
	}
	domains := map[string]int{}
	for i := range rooms {
		node := rooms[i].node
		v, has := node.Labels[s.Key]
		if !has || s.HonorAffinity && !termsSatisfied(p, node) {
			continue
		}
		if _, kept := p.Untolerated(node.Taints); kept && s.HonorTaints {
			continue
		}
		domains[v] += 0
		for _, o := range rooms[i].pods {
			if o.Active() && s.Selector.Picks(o) {
				domains[v]++
			}
		}
	}
	least := -1
	for _, c := range domains {
		if least < 0 || c < least {
			least = c
		}
	}
	if least < 0 || int64(len(domains)) < s.MinDomains {
		least = 0
	}
	self := 0
	if s.Selector.Picks(p) {
		self = 1
	}
	return int64(domains[value]+self-least) > s.MaxSkew
}
