package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model"
)

// Workload keeps a number of pods of one kind alive.
type Workload struct {
	Kind, Namespace, Name string
	Replicas              int
	Pod                   *model.Pod // what each of its pods looks like

	made int
}

// ID is namespace/name.
func (w *Workload) ID() string { return w.Namespace + "/" + w.Name }

// reconcile makes and deletes pods until the workload has as many as it should;
// pods that are on their way out do not count, as with a ReplicaSet.
func (s *sim) reconcile(w *Workload) {
	var have []*model.Pod
	for _, p := range s.api.pods.all() {
		if p.Owner.Name == w.Name+replicaSetSuffix && p.Namespace == w.Namespace && p.Active() {
			have = append(have, p)
		}
	}
	for n := len(have); n < w.Replicas; n++ {
		w.made++
		s.api.putPod(s.newPod(w.Pod, w.Namespace, fmt.Sprintf("%s-%04d", w.Name, w.made),
			model.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.Name + replicaSetSuffix, UID: w.ID()}))
	}
	// too many: first the ones that do not run, then the newest
	slices.SortStableFunc(have, func(a, b *model.Pod) int {
		if x, y := a.NodeName == "", b.NodeName == ""; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		if a.Ready != b.Ready {
			return map[bool]int{true: 1, false: -1}[a.Ready]
		}
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name))
	})
	for i := 0; i < len(have)-w.Replicas; i++ {
		s.api.deletePod(have[i].ID(), have[i].GracePeriod)
	}
	s.wakeScheduler()
}

func (s *sim) newPod(template *model.Pod, namespace, name string, owner model.Owner) *model.Pod {
	p := *template
	p.UID, p.Namespace, p.Name, p.Owner = s.api.uid(), namespace, name, owner
	p.Created, p.NodeName, p.Unschedulable, p.Ready, p.Started, p.Deleting = s.now, "", false, false, nil, nil
	return &p
}

// wakeWorkload lets the workload's controller look at it soon.
func (s *sim) wakeWorkload(id string) {
	w, ok := s.workloads.get(id)
	if !ok || s.waking[id] {
		return
	}
	s.waking[id] = true
	s.in(s.delays.Controllers, func() {
		delete(s.waking, id)
		s.reconcile(w)
	})
}

// daemons puts the pods of DaemonSets on the node that should carry them.
func (s *sim) placeDaemons(n *model.Node) {
	for _, d := range s.api.daemons.all() {
		name := d.Name + "-" + n.Name
		if _, there := s.api.pods.get(d.Namespace + "/" + name); there || n.Deleting != nil {
			continue
		}
		if _, kept := d.Pod.Untolerated(daemonTaints(n.Taints)); kept || !termsSatisfied(d.Pod, n) {
			continue
		}
		p := s.newPod(d.Pod, d.Namespace, name, model.Owner{APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name})
		p.NodeName = n.Name
		s.api.putPod(p)
	}
}

// daemonTaints leaves out the taints that the DaemonSet controller makes its pods tolerate.
func daemonTaints(in []model.Taint) []model.Taint {
	return slices.DeleteFunc(slices.Clone(in), func(t model.Taint) bool {
		return t.Key == taintNotReady || t.Key == taintUnreachable || t.Key == "node.kubernetes.io/unschedulable"
	})
}

func termsSatisfied(p *model.Pod, n *model.Node) bool {
	if len(p.Terms) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Terms, func(t requireSet) bool { return t.LabelsSatisfy(n.Labels) == nil })
}

func (s *sim) putPool(p *model.Pool) {
	if old, ok := s.api.pools.get(p.Name); ok {
		p.UID = old.UID
		for k, v := range old.Annotations { // what the status writers left there stays
			if _, set := p.Annotations[k]; !set {
				p.Annotations = overlay(p.Annotations, map[string]string{k: v}, false)
			}
		}
	} else if p.UID == "" {
		p.UID = s.api.uid()
	}
	s.api.pools.put(p.Name, p)
	s.api.watch(cluster.UpsertPool{Pool: p})
}

func (s *sim) putClass(c *model.NodeClass) {
	if c.UID == "" {
		c.UID = s.api.uid()
	}
	s.api.classes.put(c.Name, c)
	s.api.watch(cluster.UpsertNodeClass{NodeClass: c})
}
