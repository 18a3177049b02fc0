package engine

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// withoutDaemonPorts takes the offerings away on whose nodes a daemon pod will have a
// host port that the pod asks for.
func (pr *problem) withoutDaemonPorts(e eligibility, pod *model.Pod, p *pool) eligibility {
	if e.bits == nil || pod.Topology == nil || len(pod.Topology.HostPorts) == 0 {
		return e
	}
	types := p.class.countTypes(e.bits)
	for _, d := range pr.w.DaemonSets {
		h, taken := takenBy(pod, d)
		if !taken {
			continue
		}
		there := p.daemonBits(d.Pod)
		if !intersects(e.bits, there) {
			continue
		}
		e.bits = e.bits.clone() // others may share it
		e.bits.andNot(there)
		if e.bits.empty() {
			r := p.refuses(model.FilterPorts, types, fmt.Sprintf("host port %s %d is taken by daemonset %s/%s", h.Protocol, h.Port, d.Namespace, d.Name), "")
			r.Trail = slices.Insert(r.Trail, len(r.Trail)-1, model.Passed{Filter: model.FilterRequirements, Types: types})
			return eligibility{reason: r}
		}
	}
	return e
}

// takenBy is the first host port of the pod that collides with one of a daemon pod.
func takenBy(pod *model.Pod, d *model.DaemonSet) (model.HostPort, bool) {
	if d.Pod.Topology != nil {
		for _, h := range pod.Topology.HostPorts {
			if slices.ContainsFunc(d.Pod.Topology.HostPorts, h.Collides) {
				return h, true
			}
		}
	}
	return model.HostPort{}, false
}

// portless is a pod without its host ports.
func portless(p *model.Pod) *model.Pod {
	if p.Topology == nil || len(p.Topology.HostPorts) == 0 {
		return p
	}
	out, t := *p, *p.Topology
	t.HostPorts = nil
	out.Topology = &t
	return &out
}
