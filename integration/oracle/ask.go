package oracle

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/provision"
)

// Answer is what came of a draw.
type Answer struct {
	Seed                         uint64
	Pods, Placed, Bound          int
	Nodes, Alternatives          int  // new nodes; those of them that came as another offering than the first
	Impossible, Limited, Crowded int  // pods without a place: each for itself, by limits of pools, by their neighbours
	Freely                       bool // bound without nominations
	Stranded                     int  // pods that did not bind freely and did with nominations
	Missed                       int  // pods without a place for their neighbours' sake that bound when there was one more node of each shape
	Faults                       []string
	Input                        []byte            // objects as they were read
	After                        []byte            // where there are faults: objects once the pods of the plan were let go
	Where                        map[string]string // planned node of each pod that was placed
	Took                         time.Duration
}

// Plan reads objects and plans for the waiting pods as the command does.
func Plan(objects, table []byte, zones []string, now time.Time) (*model.World, *model.Plan, error) {
	in, err := load.Files([]string{"-"}, bytes.NewReader(objects), load.Options{})
	if err != nil {
		return nil, nil, err
	}
	t, err := catalogue.Load(bytes.NewReader(table), "oracle")
	if err != nil {
		return nil, nil, err
	}
	w := in.World(now)
	w.Offerings = map[string][]*model.Offering{}
	for name, class := range w.NodeClasses {
		w.Offerings[name] = t.Offerings(class, zones, catalogue.Options{})
	}
	attach.World(w)
	return w, provision.Plan(w, nil), nil
}

// Ask puts one draw to the test.
func (c *Cluster) Ask(ctx context.Context, d *Draw) (*Answer, error) {
	began := time.Now()
	a, err := c.attempt(ctx, d, false)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", d.Seed, err)
	}
	a.Freely = a.Bound == a.Placed
	if !a.Freely {
		again, err := c.attempt(ctx, d, true)
		if err != nil {
			return nil, fmt.Errorf("seed %d, with nominations: %w", d.Seed, err)
		}
		again.Stranded = a.Placed - a.Bound
		a = again
	}
	a.Took = time.Since(began)
	return a, nil
}

// attempt is one pass over the draw.
func (c *Cluster) attempt(ctx context.Context, d *Draw, nominate bool) (*Answer, error) {
	if err := c.Reset(ctx); err != nil {
		return nil, err
	}
	if err := c.Make(ctx, d); err != nil {
		return nil, err
	}
	a := &Answer{Seed: d.Seed, Pods: len(d.Waiting)}
	var err error
	if a.Input, err = c.Read(ctx); err != nil {
		return nil, err
	}
	w, plan, err := Plan(a.Input, d.Catalogue, d.Zones, time.Now())
	if err != nil {
		return nil, err
	}
	for _, warning := range plan.Warnings {
		if strings.HasPrefix(warning, "plan refused") {
			a.Faults = append(a.Faults, warning)
		}
	}
	nodes, csi, names := build(d, plan)
	a.Nodes, a.Alternatives = len(plan.Launch), alternatives(nodes, plan)
	if err := c.addNodes(ctx, nodes, csi); err != nil {
		return nil, err
	}
	if err := c.addDaemons(ctx, d, nodes); err != nil {
		return nil, err
	}
	if err := c.Probe(ctx, "probe-1"); err != nil {
		return nil, err
	}
	placed := placements(plan, names)
	a.Placed = len(placed)
	if nominate {
		err = c.bindPlanned(ctx, w, append(slices.Clone(d.Nodes), nodes...), placed)
	} else {
		err = c.bind(ctx, w, placed, quiet)
	}
	if err != nil {
		return nil, err
	}
	c.judge(a, placed)
	if len(a.Faults) > 0 {
		if a.After, err = c.Read(ctx); err != nil {
			return nil, err
		}
	}
	if a.Bound < a.Placed && !nominate {
		return a, nil // to be asked again
	}
	if err := c.whatIf(ctx, d, w, plan, a); err != nil {
		return nil, err
	}
	if len(a.Faults) > 0 && a.After == nil {
		a.After, err = c.Read(ctx)
	}
	return a, err
}

// build makes Node objects of the launches. Half of them, as the seed decides, come as
// one of their alternatives.
func build(d *Draw, plan *model.Plan) (nodes []*corev1.Node, csi []*storagev1.CSINode, names map[*model.NewNode]string) {
	r := rand.New(rand.NewPCG(d.Seed, 0xa17e))
	names = map[*model.NewNode]string{}
	for i, n := range plan.Launch {
		o := n.Offering
		if len(n.Alternatives) > 0 && r.IntN(2) == 0 {
			o = n.Alternatives[r.IntN(len(n.Alternatives))]
		}
		names[n] = fmt.Sprintf("new-%d", i)
		own := map[string]string{}
		for k, v := range n.Labels { // of the pool, and what pods asked of it
			if _, ofType := n.Offering.Label(k); !ofType {
				own[k] = v
			}
		}
		nodes = append(nodes, nodeOf(names[n], n.Pool, o, own))
		csi = append(csi, csiOf(names[n], o))
	}
	return nodes, csi, names
}

func alternatives(nodes []*corev1.Node, plan *model.Plan) (n int) {
	for i, l := range plan.Launch {
		if o := l.Offering; nodes[i].Labels[model.LabelInstanceType] != o.Type.Name || nodes[i].Labels[model.LabelZone] != o.Zone {
			n++
		}
	}
	return n
}

// nodeOf is the Node of a pool that an offering becomes.
func nodeOf(name string, pool *model.Pool, o *model.Offering, own map[string]string) *corev1.Node {
	labels := maps.Clone(own)
	maps.Copy(labels, pool.Labels)
	maps.Copy(labels, o.Type.Labels)
	labels[model.LabelPool], labels[model.LabelCapacityType] = pool.Name, o.CapacityType
	labels[model.LabelRegistered], labels[model.LabelInitialized] = "true", "true"
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: nodeLabels(labels, name, o.Zone, o.Type.Labels[model.LabelArch])}}
	n.Spec.ProviderID = model.ProviderID(o.Zone, "i-"+name)
	n.Spec.Taints = convert.APITaints(pool.Taints)
	n.Status = status(convert.List(attach.Strip(o.Type.Capacity)), convert.List(attach.Strip(o.Type.Allocatable)))
	return n
}

// csiOf is what the driver of a new node reports: as much as nodes of the type reported
// before, else what the type has.
func csiOf(name string, o *model.Offering) *storagev1.CSINode {
	most, ok := attach.Slots(o.Type.Labels)
	if !ok {
		most = 25
	}
	if n := o.Type.Allocatable.Get(attach.Resource(attach.EBS)); n > 0 {
		most = min(most, n)
	}
	return csiNode(name, int32(most))
}

// addDaemons puts the pods of DaemonSets where their controller would.
func (c *Cluster) addDaemons(ctx context.Context, d *Draw, nodes []*corev1.Node) error {
	var pods []*corev1.Pod
	for _, ds := range d.DaemonSets {
		for _, n := range nodes {
			if p := daemonPod(ds, n); p != nil {
				pods = append(pods, p)
			}
		}
	}
	return c.addPods(ctx, pods)
}

// daemonPod is the pod of a DaemonSet for a node, nil where it has none there.
func daemonPod(ds *appsv1.DaemonSet, n *corev1.Node) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name + "-" + n.Name, Labels: ds.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: "0", Controller: new(bool)}}}}
	*p.OwnerReferences[0].Controller = true
	ds.Spec.Template.Spec.DeepCopyInto(&p.Spec)
	for _, key := range []string{corev1.TaintNodeUnschedulable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !fits {
		return nil
	}
	if _, bad := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule
	}, false); bad {
		return nil
	}
	p.Spec.NodeName = n.Name
	return p
}

// placement is a pod with the name of its planned node.
type placement struct {
	pod  *model.Pod
	node string
}

func placements(plan *model.Plan, names map[*model.NewNode]string) []placement {
	var out []placement
	for _, pl := range plan.Placements {
		for _, p := range pl.Pods {
			out = append(out, placement{p, pl.Node.Name})
		}
	}
	for _, n := range plan.Launch {
		for _, p := range n.Pods {
			out = append(out, placement{p, names[n]})
		}
	}
	return out
}

// bindPlanned lets one pod go after the other, each with its planned node in
// status.nominatedNodeName, in an order that the plan itself allows: pods that ask for
// nothing, then those that are to be spread or apart, always one whose places have the
// fewest of the pods that it is spread from, then those that are to be near others. All at
// once would not do: kube-scheduler counts the pods that are nominated to a node as if
// they were there, for spreads, too.
func (c *Cluster) bindPlanned(ctx context.Context, w *model.World, nodes []*corev1.Node, pods []placement) error {
	labels := map[string]map[string]string{}
	for _, n := range nodes {
		labels[n.Name] = n.Labels
	}
	var there []placement
	for _, n := range w.Nodes {
		labels[n.Name] = n.Labels
		for _, p := range n.Pods {
			there = append(there, placement{p, n.Name})
		}
	}
	left := inOrder(w, pods)
	slices.SortStableFunc(left, func(a, b placement) int { return cmp.Compare(wave(a.pod), wave(b.pod)) })
	pods = nil
	for len(left) > 0 {
		best, fewest := 0, math.MaxInt
		for i, p := range left {
			if wave(p.pod) != wave(left[0].pod) || fewest == 0 {
				break
			}
			if n := crowd(p, there, labels); n < fewest {
				best, fewest = i, n
			}
		}
		pods, there = append(pods, left[best]), append(there, left[best])
		left = slices.Delete(left, best, best+1)
	}
	for _, p := range pods {
		if err := c.release(ctx, p.pod.Namespace, p.pod.Name, p.node, nil); err != nil {
			return err
		}
		if err := c.until(ctx, limit, "kube-scheduler has tried pod "+p.pod.ID(), func() (bool, string) {
			for _, have := range c.pods {
				if have.Namespace == p.pod.Namespace && have.Name == p.pod.Name {
					return have.Spec.NodeName != "" || tried(have), verdict(have)
				}
			}
			return true, "gone"
		}); err != nil {
			return err
		}
	}
	c.settle()
	return c.done(ctx, pods, quietLast)
}

// crowd is by how many the pods that count for a spread of the pod are more where it is to
// go than where they are fewest, at the most. Where they are many in all does not matter:
// a pod with one place only has to go before those that are spread over its place and others.
func crowd(p placement, there []placement, labels map[string]map[string]string) int {
	if p.pod.Topology == nil {
		return 0
	}
	most := 0
	for _, s := range p.pod.Topology.Spreads {
		counts := map[string]int{}
		for _, l := range labels {
			if v, ok := l[s.Key]; ok {
				counts[v] += 0
			}
		}
		for _, q := range there {
			if v, ok := labels[q.node][s.Key]; ok && q.pod.Namespace == p.pod.Namespace && s.Selector.Picks(q.pod) {
				counts[v]++
			}
		}
		fewest := math.MaxInt
		for _, n := range counts {
			fewest = min(fewest, n)
		}
		most = max(most, counts[labels[p.node][s.Key]]-fewest)
	}
	return most
}

func wave(p *model.Pod) int {
	switch t := p.Topology; {
	case t != nil && len(t.Affinity) > 0:
		return 2
	case t != nil && len(t.Spreads)+len(t.AntiAffinity) > 0:
		return 1
	}
	return 0
}

// tried says whether kube-scheduler has found no node for the pod.
func tried(p *corev1.Pod) bool { return strings.HasPrefix(verdict(p), corev1.PodReasonUnschedulable) }

// inOrder is the pods by priority, then age, as kube-scheduler takes them.
func inOrder(w *model.World, pods []placement) []placement {
	order := map[*model.Pod]int{}
	for i, p := range w.Pods {
		order[p] = i
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b placement) int {
		return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), a.pod.Created.Compare(b.pod.Created), cmp.Compare(order[a.pod], order[b.pod]))
	})
	return pods
}

// How long nothing must have happened for the scheduler to count as done: a pod that did
// not fit is tried again when another one was bound, after a pause.
const (
	quiet      = 2 * time.Second
	quietAfter = time.Second      // where nothing depends on it
	quietLast  = 25 * time.Second // before a pod is said not to bind: the scheduler's longest pause is 10 s
)

// limit bounds waits for the API server and the scheduler; it is many times what they need.
const limit = 10 * time.Minute

// bind lets pods go by priority, then age, and waits until they are bound or nothing
// happens any more.
func (c *Cluster) bind(ctx context.Context, w *model.World, pods []placement, quiet time.Duration) error {
	for _, p := range inOrder(w, pods) {
		if err := c.release(ctx, p.pod.Namespace, p.pod.Name, "", nil); err != nil {
			return err
		}
	}
	c.settle()
	return c.done(ctx, pods, quiet)
}

// done waits until all pods are bound, or all others were tried and nothing happens any more.
func (c *Cluster) done(ctx context.Context, pods []placement, quiet time.Duration) error {
	return c.until(ctx, limit, "kube-scheduler is done", func() (bool, string) {
		waits, untried := 0, 0
		for _, p := range c.pods {
			if p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 {
				waits++
				if !tried(p) {
					untried++
				}
			}
		}
		return c.toldAll(pods) && (waits == 0 || untried == 0 && time.Since(c.changed) > quiet), fmt.Sprintf("%d wait, %d of them not tried", waits, untried)
	})
}

// settle starts the quiet time anew.
func (c *Cluster) settle() {
	c.mu.Lock()
	c.changed = time.Now()
	c.mu.Unlock()
}

// toldAll says whether the watch has told that all pods were let go.
func (c *Cluster) toldAll(pods []placement) bool {
	open := map[string]bool{}
	for _, p := range c.pods {
		if len(p.Spec.SchedulingGates) == 0 {
			open[p.Namespace+"/"+p.Name] = true
		}
	}
	return !slices.ContainsFunc(pods, func(p placement) bool { return !open[p.pod.ID()] })
}

// judge counts what is bound and notes what is not.
func (c *Cluster) judge(a *Answer, placed []placement) {
	seen := c.seen()
	a.Where = map[string]string{}
	for _, p := range placed {
		got := seen[p.pod.ID()]
		a.Where[p.pod.ID()] = p.node
		switch {
		case got == nil:
			a.Faults = append(a.Faults, fmt.Sprintf("pod %s, planned for %s, is gone", p.pod.ID(), p.node))
		case got.Spec.NodeName == "":
			a.Faults = append(a.Faults, fmt.Sprintf("pod %s, planned for %s, does not bind: %s", p.pod.ID(), p.node, verdict(got)))
		default:
			a.Bound++
		}
	}
}

// perPod says whether a reason holds for the pod alone on some one type, whatever is
// around it. What a pool asks of all types together, minValues, says nothing of one.
func perPod(r model.Reason) bool {
	if strings.HasPrefix(r.Message, "minValues") {
		return false
	}
	switch r.Filter {
	case model.FilterPool, model.FilterTaints, model.FilterRequirements, model.FilterDaemonSets, model.FilterResources, model.FilterOfferings, model.FilterVolumes:
		return true
	}
	return false
}

// whatIf offers one empty node of every shape that the pools allow to the pods without a
// place: first to those whose verdict calls them impossible, then to the others.
func (c *Cluster) whatIf(ctx context.Context, d *Draw, w *model.World, plan *model.Plan, a *Answer) error {
	var impossible, others []placement
	for _, v := range plan.Unplaced {
		switch {
		case slices.ContainsFunc(v.Reasons, func(r model.Reason) bool { return r.Filter == model.FilterLimits }):
			a.Limited++
		case slices.ContainsFunc(v.Reasons, func(r model.Reason) bool { return !perPod(r) }):
			others = append(others, placement{pod: v.Pod})
		default:
			impossible = append(impossible, placement{pod: v.Pod})
		}
	}
	a.Impossible, a.Crowded = len(impossible), len(others)
	if len(impossible)+len(others) == 0 {
		return nil
	}
	var nodes []*corev1.Node
	var csi []*storagev1.CSINode
	for _, pool := range w.Pools {
		for _, o := range w.Offerings[pool.NodeClass.Name] {
			for _, own := range shapes(pool, o) {
				name := fmt.Sprintf("shape-%d", len(nodes))
				nodes, csi = append(nodes, nodeOf(name, pool, o, own)), append(csi, csiOf(name, o))
			}
		}
	}
	if err := c.addNodes(ctx, nodes, csi); err != nil {
		return err
	}
	if err := c.addDaemons(ctx, d, nodes); err != nil {
		return err
	}
	if err := c.Probe(ctx, "probe-2"); err != nil {
		return err
	}
	if err := c.bind(ctx, w, impossible, 0); err != nil {
		return err
	}
	seen := c.seen()
	byPod := map[*model.Pod]model.Verdict{}
	for _, v := range plan.Unplaced {
		byPod[v.Pod] = v
	}
	for _, p := range impossible {
		if got := seen[p.pod.ID()]; got != nil && strings.HasPrefix(got.Spec.NodeName, "shape-") {
			i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == got.Spec.NodeName })
			l := nodes[i].Labels
			a.Faults = append(a.Faults, fmt.Sprintf("pod %s is called impossible and runs on %s %s %s of %s: %+v", p.pod.ID(),
				l[model.LabelInstanceType], l[model.LabelZone], l[model.LabelCapacityType], l[model.LabelPool], byPod[p.pod].Reasons))
		}
	}
	if err := c.bind(ctx, w, others, quietAfter); err != nil {
		return err
	}
	seen = c.seen()
	for _, p := range others {
		if got := seen[p.pod.ID()]; got != nil && got.Spec.NodeName != "" {
			a.Missed++
		}
	}
	return nil
}

// shapes is the labels, besides those of the offering, that nodes of a pool may have: one
// set for each value of the labels that the pool leaves a choice of; none where the pool
// does not allow the offering.
func shapes(pool *model.Pool, o *model.Offering) []map[string]string {
	if !o.Available || pool.Unusable != "" {
		return nil
	}
	out := []map[string]string{{}}
	for _, r := range pool.Requirements.All() {
		if v, ok := o.Label(r.Key); ok {
			if !r.Has(v) {
				return nil
			}
			continue
		}
		if r.Key == model.LabelPool || !r.Finite() {
			if !r.AllowsAbsent() && model.WellKnown(r.Key) && r.Key != model.LabelPool {
				return nil // a label that only some types have
			}
			continue
		}
		var more []map[string]string
		for _, have := range out {
			for _, v := range r.Values {
				m := maps.Clone(have)
				m[r.Key] = v
				more = append(more, m)
			}
		}
		out = more
	}
	return out
}
