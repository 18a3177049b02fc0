package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
)

// nearby tells, for Check, by which labels a pod's neighbours know where it is: those
// of its own spreads and affinities, and of those of others that pick it. A launch may
// not be answered with a node that differs in one of them.
type nearby struct {
	terms []nearTerm
	memo  map[string][]string // keys by kind of pod
}

type nearTerm struct {
	key string
	sel model.Selector
}

func newNearby(w *model.World, plan *model.Plan) *nearby {
	n := &nearby{memo: map[string][]string{}}
	known := map[shunKey]bool{}
	note := func(key string, s model.Selector) {
		if k := (shunKey{key, s.ID}); key != model.LabelHostname && !known[k] {
			known[k] = true
			n.terms = append(n.terms, nearTerm{key, s})
		}
	}
	all := func(pods []*model.Pod) {
		for _, p := range pods {
			if p.Topology == nil {
				continue
			}
			for _, s := range p.Topology.Spreads {
				note(s.Key, s.Selector)
			}
			for _, t := range p.Topology.Affinity {
				note(t.Key, t.Selector)
			}
			for _, t := range p.Topology.AntiAffinity {
				note(t.Key, t.Selector)
			}
		}
	}
	for _, x := range plan.Launch {
		all(x.Pods)
	}
	for _, x := range plan.Placements {
		all(x.Pods)
	}
	for _, x := range w.Nodes {
		for _, p := range x.Pods {
			if p.Topology == nil {
				continue
			}
			for _, t := range p.Topology.AntiAffinity {
				note(t.Key, t.Selector)
			}
		}
	}
	return n
}

// of is the labels by which the neighbours of a node's pods know where it is.
func (n *nearby) of(node *model.NewNode) []string {
	if len(n.terms) == 0 {
		return nil
	}
	var out []string
	for _, p := range node.Pods {
		for _, k := range n.keys(p) {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// differs is the first of the labels in which two offerings differ, or empty.
func differs(a, b *model.Offering, keys []string) string {
	for _, k := range keys {
		v, ok := a.Label(k)
		if w, too := b.Label(k); ok != too || v != w {
			return k
		}
	}
	return ""
}

func (n *nearby) keys(p *model.Pod) []string {
	var own []string
	if t := p.Topology; t != nil {
		for _, s := range t.Spreads {
			own = append(own, s.Key)
		}
		for _, s := range slices.Concat(t.Affinity, t.AntiAffinity) {
			own = append(own, s.Key)
		}
		own = slices.DeleteFunc(own, func(k string) bool { return k == model.LabelHostname })
	}
	kind := kindKey(p)
	keys, ok := n.memo[kind]
	if !ok {
		for _, t := range n.terms {
			if !slices.Contains(keys, t.key) && t.sel.Picks(p) {
				keys = append(keys, t.key)
			}
		}
		n.memo[kind] = keys
	}
	return append(own, keys...)
}
