package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// assemble makes the input of what was read.
func (l *loader) assemble() (*Input, error) {
	in := &Input{NodeClasses: map[string]*model.NodeClass{}, Classes: map[string]*awsv1.EC2NodeClass{}}
	a := l.admission()
	if !l.asIs {
		if err := l.expand(a); err != nil {
			return nil, err
		}
	}
	l.poolsInto(in)
	nodes, err := l.nodesInto(in)
	if err != nil {
		return nil, err
	}
	l.surround()
	samples := l.podsInto(in, a, nodes)
	l.daemonsInto(in, a, samples)
	l.budgetsInto(in)
	l.workloadsInto(in, a)
	if len(l.errs) > 0 {
		return nil, join(l.errs)
	}
	if !l.asIs { // nobody chose what is read of a cluster
		for _, kind := range slices.Sorted(maps.Keys(l.unused)) {
			l.warn("not used: %s", plural(l.unused[kind], kind))
		}
	}
	in.Warnings = l.warnings
	return in, nil
}

func plural(n int, kind string) string {
	if n == 1 {
		return "1 " + kind
	}
	return fmt.Sprintf("%d %ss", n, kind)
}

func (l *loader) admission() *convert.Admission {
	a := &convert.Admission{
		LimitRanges:     map[string][]*corev1.LimitRange{},
		PriorityClasses: map[string]*schedulingv1.PriorityClass{},
		RuntimeClasses:  map[string]*nodev1.RuntimeClass{},
	}
	sort.Slice(l.limits, func(i, j int) bool { return l.limits[i].Name < l.limits[j].Name })
	for _, o := range l.limits {
		a.LimitRanges[o.Namespace] = append(a.LimitRanges[o.Namespace], o)
	}
	for _, o := range l.priority {
		a.PriorityClasses[o.Name] = o
	}
	for _, o := range l.runtimes {
		a.RuntimeClasses[o.Name] = o
	}
	return a
}

// converted notes an error of the converters, which only a live object with nonsense
// in its status can bring about, and says whether there was none.
func (l *loader) converted(kind, name string, err error) bool {
	if err == nil {
		return true
	}
	id := identity{kind: kind, name: name}
	if ns, n, ok := strings.Cut(name, "/"); ok {
		id = identity{kind, ns, n}
	}
	p := l.seen[id]
	if kind == "Pod" {
		if at, ok := l.pods.byName[podKey{id.namespace, id.name}]; ok {
			p = l.pods.entries[at].place
		}
	}
	var fe *convert.FieldError
	if errors.As(err, &fe) {
		l.fail(p, id.String(), fe.Field, fe.Msg)
	} else {
		l.fail(p, id.String(), "", err.Error())
	}
	return false
}

func (l *loader) poolsInto(in *Input) {
	for _, o := range l.classes {
		c := convert.NodeClass(o)
		if c.Unusable != "" {
			l.warn("EC2NodeClass %s cannot be used: %s", c.Name, c.Unusable)
		}
		in.NodeClasses[c.Name], in.Classes[c.Name] = c, o
	}
	for _, o := range l.pools {
		p, err := convert.Pool(o)
		if !l.converted("NodePool", o.Name, err) {
			continue
		}
		class := in.NodeClasses[p.NodeClass.Name]
		switch {
		case p.Unusable != "":
		case class == nil:
			p.Unusable = fmt.Sprintf("%s %s is not in the input", keys.KindEC2NodeClass, p.NodeClass.Name)
		case class.Unusable != "":
			p.Unusable = fmt.Sprintf("%s %s cannot be used: %s", keys.KindEC2NodeClass, class.Name, class.Unusable)
		}
		if p.Unusable != "" {
			l.warn("NodePool %s cannot be used: %s", p.Name, p.Unusable)
		}
		in.Pools = append(in.Pools, p)
		if c := convert.Conditions(o.Status.Conditions); c != nil {
			if in.Conditions == nil {
				in.Conditions = map[string][]model.Condition{}
			}
			in.Conditions[p.Name] = c
		}
	}
	sort.Slice(in.Pools, func(i, j int) bool { return in.Pools[i].Name < in.Pools[j].Name })
}

// nodesInto joins nodes and claims: by provider id, else by the name that the claim
// knows its node by.
func (l *loader) nodesInto(in *Input) (map[string]*model.Node, error) {
	byName, byProvider := map[string]*model.Node{}, map[string]*model.Node{}
	for _, o := range l.nodes {
		n, err := convert.Node(o)
		if !l.converted("Node", o.Name, err) {
			continue
		}
		n.VolumeLimits = l.attach[n.Name]
		in.Nodes = append(in.Nodes, n)
		byName[n.Name] = n
		if n.ProviderID != "" {
			byProvider[n.ProviderID] = n
		}
	}
	sort.Slice(in.Nodes, func(i, j int) bool { return in.Nodes[i].Name < in.Nodes[j].Name })
	sort.Slice(l.claims, func(i, j int) bool { return l.claims[i].Name < l.claims[j].Name })
	for _, o := range l.claims {
		c, err := convert.Claim(o)
		if !l.converted("NodeClaim", o.Name, err) {
			continue
		}
		n := byProvider[c.ProviderID]
		if n == nil {
			n = byName[c.NodeName]
		}
		if n != nil && n.Claim != nil {
			l.warn("NodeClaim %s is left out: NodeClaim %s has the node %s already", c.Name, n.Claim.Name, n.Name)
			continue
		}
		if n == nil {
			n = &model.Node{
				ProviderID: c.ProviderID, Labels: c.Labels, Annotations: c.Annotations,
				Taints:  slices.Concat(c.Taints, c.StartupTaints),
				Created: c.Created,
			}
			in.Nodes = append(in.Nodes, n)
		}
		n.Claim = c
		if !n.Initialized() || !n.Joined() {
			n.Capacity, n.Allocatable = estimate(n.Capacity, c.Capacity), estimate(n.Allocatable, c.Allocatable)
		}
	}
	return byName, nil
}

// podsInto sorts pods into waiting ones and those on nodes. It answers the newest pod
// of each DaemonSet as it was read.
func (l *loader) podsInto(in *Input, a *convert.Admission, nodes map[string]*model.Node) map[string]*podEntry {
	samples := map[string]*podEntry{}
	lost := &tally{}
	missing := map[string]bool{}
	byNamespace := false
	templates := l.claimTemplates()
	in.Pods = make([]*model.Pod, 0, len(l.pods.entries))
	for i := range l.pods.entries {
		e := &l.pods.entries[i]
		s, gone, err := l.pods.shape(e, a)
		if !l.converted("Pod", e.pod.ID(), err) {
			continue
		}
		for _, m := range gone {
			missing[m] = true
		}
		p := e.pod
		node := p.NodeName
		s.Apply(p)
		s.Around(p, l.around)
		byNamespace = byNamespace || s.ByNamespace
		if made := templates[podKey{p.Namespace, p.Owner.Name}]; len(made) > 0 && p.Owner.Kind == "StatefulSet" {
			l.volumes.Place(p, withTemplates(s.Volumes, made, p.Name))
		} else {
			l.volumes.Place(p, s.Volumes)
		}
		p.NodeName = node // was taken out of the spec when it was read
		if p.Daemon() && p.Active() {
			id := p.Namespace + "/" + p.Owner.Name
			if have := samples[id]; have == nil || have.pod.Created.Before(p.Created) {
				samples[id] = e
			}
		}
		switch {
		case p.Terminal:
			in.Aside = append(in.Aside, p)
		case p.NodeName != "":
			if n := nodes[p.NodeName]; n != nil {
				n.Pods = append(n.Pods, p)
			} else {
				lost.add(p.ID())
				in.Aside = append(in.Aside, p)
			}
		case p.Preempts():
			if n := nodes[p.NominatedNode]; n != nil {
				n.Preempting = append(n.Preempting, p)
			}
			in.Aside = append(in.Aside, p)
		case p.Gated || p.NominatedNode != "" || p.Daemon() || p.Mirror || p.Deleting != nil:
			in.Aside = append(in.Aside, p)
		default:
			p.Unschedulable = true
			in.Pods = append(in.Pods, p)
		}
	}
	if lost.n > 0 {
		l.warn("bound to a node that is not in the input, left out: %s", lost)
	}
	if byNamespace {
		delete(l.unused, "Namespace")
		for _, name := range l.guessed {
			l.warn("Namespace %s is not in the input: it counts as having no label but its name", name)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(missing)) {
		l.warn("%s", m)
	}
	return samples
}

// tally counts pods and remembers the first.
type tally struct {
	n     int
	first string
}

func (t *tally) add(id string) {
	if t.n++; t.n == 1 {
		t.first = id
	}
}

// String is the count with an example.
func (t *tally) String() string {
	if t.n == 1 {
		return "pod " + t.first
	}
	return fmt.Sprintf("%d pods, such as %s", t.n, t.first)
}

func (l *loader) daemonsInto(in *Input, a *convert.Admission, samples map[string]*podEntry) {
	for _, o := range l.daemons {
		d, err := convert.DaemonSet(o, nil, a)
		if !l.converted("DaemonSet", o.Namespace+"/"+o.Name, err) {
			continue
		}
		if e := samples[o.Namespace+"/"+o.Name]; e != nil {
			d = convert.Sampled(d, e.pod)
		}
		in.DaemonSets = append(in.DaemonSets, d)
	}
}

// budgetsInto reads budgets. One that no controller has looked at yet gets the number
// of disruptions that it would allow now.
func (l *loader) budgetsInto(in *Input) {
	for _, o := range l.pdbs {
		b, err := convert.PDB(o)
		if !l.converted("PodDisruptionBudget", o.Namespace+"/"+o.Name, err) {
			continue
		}
		if o.Status.ObservedGeneration == 0 && o.Status.ExpectedPods == 0 && o.Status.DisruptionsAllowed == 0 {
			expected, healthy := 0, 0
			for i := range l.pods.entries {
				e := &l.pods.entries[i]
				if p := e.pod; b.Covers(p) && !p.Terminal {
					expected++
					if p.NodeName != "" && (p.Ready || !e.stored) {
						healthy++
					}
				}
			}
			b.DisruptionsAllowed, err = convert.Allowed(o, expected, healthy)
			if !l.converted("PodDisruptionBudget", o.Namespace+"/"+o.Name, err) {
				continue
			}
		}
		in.PDBs = append(in.PDBs, b)
	}
}

// estimate is what a node that is not usable yet will offer: what it reports, and
// what the provider expects of it where it reports nothing.
func estimate(reported, expected resource.Vector) resource.Vector {
	expected.Each(func(name string, n int64) {
		if reported.Get(name) == 0 {
			reported = reported.With(name, n)
		}
	})
	return reported
}
