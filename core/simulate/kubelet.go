package simulate

import (
	"encoding/json"
	"slices"
	"time"

	ec2 "github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// kubelet runs on a machine once it has booted, until the machine ends.
type kubelet struct {
	machine ec2.Machine
	alive   bool
	joined  bool
}

// Times of the node controllers of Kubernetes.
const (
	nodeGrace   = 40 * time.Second // until a silent kubelet's node is NotReady
	evictAfter  = 5 * time.Minute  // until its pods are given up
	cloudCheck  = 5 * time.Second  // how often nodes that are NotReady are looked up in the cloud
	orphanCheck = 20 * time.Second // until pods of nodes that are gone are removed
)

// followCloud reacts to what happened in EC2 since it was last asked.
func (s *sim) followCloud() {
	s.cloud.Advance()
	for _, ev := range s.cloud.Events(s.cloudSeen) {
		s.cloudSeen = ev.Seq
		var e struct {
			DetailType string            `json:"detail-type"`
			Detail     map[string]string `json:"detail"`
		}
		if err := json.Unmarshal(ev.JSON, &e); err != nil {
			s.fail("event of the simulated EC2: %v", err)
			return
		}
		id := e.Detail["instance-id"]
		m, _ := s.cloud.Machine(id)
		switch e.Detail["state"] {
		case ec2.Pending:
			s.machineBought(m)
		case ec2.Running:
			s.machineRuns(m)
		case ec2.ShuttingDown:
			s.machineEnds(m)
		case ec2.Terminated:
			s.note(happening{Happening: Happening{Kind: "instance", Subject: m.ID, Text: "terminated"}, node: m.NodeName})
		default:
			s.warned(e.DetailType, m)
		}
		raw := ev.JSON
		s.in(s.delays.Event, func() { s.deliver(raw) })
	}
	if at, ok := s.cloud.NextAt(); ok && (s.cloudTick.IsZero() || at.Before(s.cloudTick) || !s.cloudTick.After(s.now)) {
		s.cloudTick = at
		s.q.add(at, func() {}) // the loop looks after every event
	}
}

func (s *sim) machineRuns(m ec2.Machine) {
	k := &kubelet{machine: m, alive: true}
	s.kubelets[m.ID] = k
	s.byNode[m.NodeName] = k
	s.sampleCost()
	s.note(happening{Happening: Happening{Kind: "instance", Subject: m.ID, Text: "running"}, node: m.NodeName})
	s.in(s.delays.Join, func() {
		if k.alive {
			s.join(k)
		}
	})
}

// join registers the node; it is Ready some time later.
func (s *sim) join(k *kubelet) {
	m := k.machine
	capacity, err := quantities(m.Capacity)
	if err == nil {
		var alloc resource.Vector
		if alloc, err = quantities(m.Allocatable); err == nil {
			taints := append(slices.Clone(m.Taints), model.Taint{Key: taintNotReady, Effect: model.NoSchedule})
			k.joined = true
			s.api.putNode(&model.Node{Name: m.NodeName, UID: s.api.uid(), ProviderID: m.ProviderID(), Labels: m.Labels,
				Annotations: map[string]string{}, Taints: taints, Capacity: capacity, Allocatable: alloc, Created: s.now, ReadySince: s.now})
		}
	}
	if err != nil {
		s.fail("node %s: %v", m.NodeName, err)
		return
	}
	s.in(s.delays.Ready, func() {
		if !k.alive {
			return
		}
		s.api.editNode(m.NodeName, func(n *model.Node) {
			n.Ready, n.ReadySince = true, s.now
			n.Taints = withoutTaint(n.Taints, taintNotReady)
		})
	})
}

func withoutTaint(in []model.Taint, key string) []model.Taint {
	return slices.DeleteFunc(slices.Clone(in), func(t model.Taint) bool { return t.Key == key })
}

// runPod does for a bound pod what its kubelet would do next.
func (s *sim) runPod(p *model.Pod) {
	k := s.byNode[p.NodeName]
	if k == nil || !k.alive {
		return
	}
	id, uid := p.ID(), p.UID
	same := func() (*model.Pod, bool) {
		now, ok := s.api.pods.get(id)
		return now, ok && now.UID == uid && k.alive
	}
	switch {
	case p.Deleting != nil && !s.stopping[uid]:
		s.stopping[uid] = true
		s.at(minTime(*p.Deleting, s.now.Add(s.delays.PodStop)), func() {
			if _, ok := same(); ok {
				s.api.removePod(id)
			}
		})
	case p.Deleting == nil && p.Started == nil && !s.starting[uid]:
		s.starting[uid] = true
		s.in(s.delays.PodStart, func() {
			if now, ok := same(); ok && now.Deleting == nil {
				at := s.now
				s.api.editPod(id, func(p *model.Pod) { p.Started, p.Ready = &at, true })
			}
		})
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// machineEnds stops the kubelet; the node controllers notice in their own time.
func (s *sim) machineEnds(m ec2.Machine) {
	s.sampleCost()
	lost := 0
	k := s.kubelets[m.ID]
	for _, p := range s.api.bound(m.NodeName).all() {
		if k != nil && k.alive && !p.Daemon() && p.Started != nil && !p.Terminal {
			lost++
		}
	}
	why := map[string]string{"user": "Weir gave it back", "spot-reclaim": "EC2 took the spot instance back", "failure": "the machine failed"}[m.Reason]
	s.note(happening{Happening: Happening{Kind: "instance", Subject: m.ID, Text: "shutting down", Why: why}, node: m.NodeName})
	if lost > 0 {
		s.totals.PodsLost += lost
		s.note(happening{Happening: Happening{Kind: "lost", Subject: m.NodeName, Count: lost, Text: plural(lost, "pod") + " still ran on it", Why: why, Warning: true}})
	}
	if k == nil {
		return
	}
	k.alive = false
	s.in(nodeGrace, func() { s.silent(k) })
}

// silent makes the node of a dead kubelet NotReady, gives its pods up and, once
// the machine is gone from the cloud, asks for the deletion of the node.
func (s *sim) silent(k *kubelet) {
	name := k.machine.NodeName
	n, ok := s.api.nodes.get(name)
	if !ok {
		return
	}
	if n.Ready {
		s.api.editNode(name, func(n *model.Node) {
			n.Ready, n.ReadySince = false, s.now
			n.Taints = append(slices.Clone(n.Taints), model.Taint{Key: taintUnreachable, Effect: model.NoSchedule},
				model.Taint{Key: taintUnreachable, Effect: model.NoExecute})
		})
		for _, p := range s.api.bound(name).all() {
			if p.Ready {
				s.api.editPod(p.ID(), func(p *model.Pod) { p.Ready = false })
			}
		}
		s.in(evictAfter, func() {
			for _, p := range s.api.bound(name).all() {
				if !p.Daemon() && p.Deleting == nil {
					s.api.deletePod(p.ID(), max(p.GracePeriod, time.Second))
				}
			}
		})
	}
	s.lookUp(k)
}

func (s *sim) lookUp(k *kubelet) {
	n, ok := s.api.nodes.get(k.machine.NodeName)
	if !ok || n.Deleting != nil {
		return
	}
	if m, ok := s.cloud.Machine(k.machine.ID); ok && m.State == ec2.Terminated {
		s.api.deleteNode(n)
		return
	}
	s.in(cloudCheck, func() { s.lookUp(k) })
}

// collectOrphans removes the pods of a node that is gone.
func (s *sim) collectOrphans(node string) {
	s.in(orphanCheck, func() {
		if _, back := s.api.nodes.get(node); back {
			return
		}
		for _, p := range s.api.bound(node).all() {
			s.api.removePod(p.ID())
		}
	})
}

// evictIntolerant deletes pods that do not tolerate a NoExecute taint of their node.
func (s *sim) evictIntolerant(n *model.Node) {
	for _, t := range n.Taints {
		if t.Effect != model.NoExecute || t.Key == taintUnreachable || t.Key == taintNotReady {
			continue
		}
		for _, p := range s.api.bound(n.Name).all() {
			if p.Deleting == nil && !p.Tolerates(t) {
				s.api.deletePod(p.ID(), p.GracePeriod)
			}
		}
	}
}
