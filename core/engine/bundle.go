package engine

import (
	"slices"

	"github.com/weir-project/weir/core/model"
)

// bundle makes units of pods that must share a node: required affinity at the level
// of the host. Where the pods to be near are running already, only their nodes will
// do. Where they wait too, each of them takes its share of the others along as one
// unit. Where a pod wants to be near its own kind and there is none yet, all of the
// group become one unit, as large as some machine can hold.
func (pr *problem) bundle() {
	var rest, near []*group
	for _, g := range pr.groups {
		if slices.ContainsFunc(g.topo().Affinity, func(t model.PodTerm) bool { return t.Key == model.LabelHostname }) {
			near = append(near, g)
		} else {
			rest = append(rest, g)
		}
	}
	if len(near) == 0 {
		return
	}
	for _, g := range near {
		term := g.topo().Affinity[slices.IndexFunc(g.topo().Affinity, func(t model.PodTerm) bool { return t.Key == model.LabelHostname })]
		sel := pr.around.selector(term.Selector)
		if hosts := pr.hosting(sel); len(hosts) > 0 {
			g.only, g.bound = hosts, true
			g.why = &model.Reason{Filter: model.FilterAffinity, Message: "affinity: the nodes that hold the pods it must be near have no room for it"}
			rest = append(rest, g)
			continue
		}
		if g.picked.has(sel) {
			rest = append(rest, pr.together(g)...)
			continue
		}
		i := slices.IndexFunc(rest, func(t *group) bool { return t.picked.has(sel) && !t.bound && t.per == 1 && len(t.pods) > 0 })
		if i < 0 {
			pr.refuse(g, g.pods, "affinity: no pod that it must be near is running or waiting")
			continue
		}
		rest = append(rest, pr.accompany(rest[i], g)...)
	}
	pr.groups = slices.DeleteFunc(rest, func(g *group) bool { return len(g.pods) == 0 })
}

// refuse gives pods of a group their verdict: their neighbours stand in the way.
func (pr *problem) refuse(g *group, pods []*model.Pod, why string) {
	if len(pods) == 0 {
		return
	}
	reasons := pr.because(g, model.Reason{Filter: model.FilterAffinity, Message: why})
	for _, p := range pods {
		pr.kept = append(pr.kept, model.Verdict{Pod: p, Reasons: reasons})
	}
}

// hosting is the nodes that hold pods a selector picks.
func (pr *problem) hosting(sel int) []*model.Node {
	var out []*model.Node
	for _, n := range pr.w.Nodes {
		if n.Joined() && pr.around.onNode[n].counts[sel] > 0 {
			out = append(out, n)
		}
	}
	return out
}

// holds says whether some offering or existing node can hold a unit of the group.
func (pr *problem) holds(g *group) bool {
	for _, p := range pr.pools {
		if e := g.spec.elig[p.index]; e.bits != nil {
			b := e.bits.clone()
			b.and(p.usable)
			if p.fitsSome(b, g) {
				return true
			}
		}
	}
	return slices.ContainsFunc(pr.w.Nodes, func(n *model.Node) bool { return g.req.Fits(n.Allocatable.Sub(n.Promised())) })
}

// together makes one unit of as many pods of the group as some machine holds; the
// others cannot be near them.
func (pr *problem) together(g *group) []*group {
	bears := g.alone && len(g.pods) > 1
	for n := len(g.pods); n >= 1; n-- {
		if bears && n > 1 {
			continue // they want to be near each other and must not be: one is all there can be
		}
		u := *g
		u.pods, u.per, u.req = g.pods[:n], n, g.req.Scale(int64(n))
		u.size = pr.vec(u.req)
		u.counted = sumBounded(g.counted, int64(n), nil, 0)
		if n > 1 && (!pr.around.bearable(&u) || !pr.holds(&u)) {
			continue
		}
		pr.refuse(g, g.pods[n:], "affinity: it must share a node with the others of its kind, and no machine holds them all")
		return []*group{&u}
	}
	return nil
}

// accompany makes units of one pod of the group that is to be near, taken out of it,
// and some pods of the group that wants to be near.
func (pr *problem) accompany(host, g *group) []*group {
	hosts, guests := len(host.pods), len(g.pods)
	for per := (guests + hosts - 1) / hosts; per >= 1; per-- {
		u := pr.unit(host, g, per)
		if u == nil || !pr.holds(u) {
			continue
		}
		full := guests / per
		if full > hosts {
			full = hosts
		}
		for i := range full {
			u.pods = append(u.pods, host.pods[i])
			u.pods = append(u.pods, g.pods[i*per:(i+1)*per]...)
		}
		host.pods = host.pods[full:]
		out := []*group{u}
		left := g.pods[full*per:]
		if len(left) > 0 && len(host.pods) > 0 {
			if last := pr.unit(host, g, min(len(left), per)); last != nil {
				n := min(len(left), per)
				last.pods = append([]*model.Pod{host.pods[0]}, left[:n]...)
				host.pods, left = host.pods[1:], left[n:]
				out = append(out, last)
			}
		}
		pr.refuse(g, left, "affinity: no machine holds it together with the pods it must be near")
		return out
	}
	pr.refuse(g, g.pods, "affinity: no machine holds it together with the pods it must be near")
	return nil
}

// unit is the description of one host pod with guests, without pods; nil where they
// cannot share a node.
func (pr *problem) unit(host, g *group, guests int) *group {
	if guests > 1 && g.alone || intersects(host.lays, g.bears) || intersects(g.lays, host.bears) {
		return nil
	}
	u := *host
	u.pods, u.per = nil, 1+guests
	u.req = host.req.Add(g.req.Scale(int64(guests)))
	u.size = pr.vec(u.req)
	u.lays, u.bears = host.lays.clone(), host.bears.clone()
	u.lays.or(g.lays)
	u.bears.or(g.bears)
	u.alone = host.alone || g.alone
	u.picked = host.picked.clone()
	u.picked.or(g.picked)
	u.counted = sumBounded(host.counted, 1, g.counted, int64(guests))
	u.spec = pr.joint(host.spec, g.spec)
	if u.spec == nil || !pr.around.bearable(&u) {
		return nil
	}
	return &u
}

// sumBounded is what a unit of n times a and m times b has of bounded pods.
func sumBounded(a []bounded, n int64, b []bounded, m int64) []bounded {
	out := make([]bounded, 0, len(a)+len(b))
	for _, c := range a {
		out = append(out, bounded{c.selector, c.per * n})
	}
	for _, c := range b {
		if i := slices.IndexFunc(out, func(o bounded) bool { return o.selector == c.selector }); i >= 0 {
			out[i].per += c.per * m
		} else {
			out = append(out, bounded{c.selector, c.per * m})
		}
	}
	return out
}

// bearable says whether a node without other pods may hold a unit of the group, as far
// as spreads over hosts go.
func (a *around) bearable(g *group) bool {
	return !slices.ContainsFunc(g.counted, func(c bounded) bool { return c.per > a.hostCaps[c.selector] })
}

// joint is a spec that asks for what both ask; nil where nothing satisfies both.
func (pr *problem) joint(a, b *spec) *spec {
	s := &spec{index: len(pr.specs), pod: a.pod, own: a.own, of: []*spec{a, b}}
	for _, x := range a.terms {
		for _, y := range b.terms {
			s.terms = append(s.terms, x.And(y))
		}
	}
	pod := *a.pod
	pod.Tolerations = nil
	if a.pod.Form == nil || b.pod.Form != nil && b.pod.Form.SoftTaints {
		pod.Form = b.pod.Form
	}
	for _, t := range a.pod.Tolerations {
		if slices.Contains(b.pod.Tolerations, t) {
			pod.Tolerations = append(pod.Tolerations, t)
		}
	}
	s.pod = &pod
	s.elig = make([]eligibility, len(pr.pools))
	some := false
	for _, p := range pr.pools {
		s.elig[p.index] = pr.withoutDaemonPorts(pr.eligible(s, p), b.pod, p)
		some = some || s.elig[p.index].bits != nil
	}
	if !some && len(pr.w.Nodes) == 0 {
		return nil
	}
	pr.specs = append(pr.specs, s)
	return s
}
