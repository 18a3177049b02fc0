package control

import (
	"fmt"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// What a machine leaves for pods is an estimate until one of its type and image has
// joined. From then on what it reported is planned with: in this process at once, after
// a restart from the ledger, and where the ledger has lost it from the nodes that run. One
// node with less than half of the memory that it should have is told of and not believed.

// renewEvery is how old a record may get before a node that only confirms it renews it.
const renewEvery = 30 * 24 * time.Hour

// learned is what nodes taught, and the nodes that have not been looked at yet.
type learned struct {
	known  map[string]ledger.Capacity // by type/image
	fresh  map[string]struct{}        // names of nodes to look at
	taught map[string]string          // uid of the node looked at, by name
}

func newLearned(nodes []string) learned {
	l := learned{known: map[string]ledger.Capacity{}, fresh: map[string]struct{}{}, taught: map[string]string{}}
	for _, name := range nodes {
		l.fresh[name] = struct{}{}
	}
	return l
}

// met notes a node that was not looked at yet.
func (l *learned) met(n *model.Node) {
	if n.UID != "" && l.taught[n.Name] != n.UID {
		l.fresh[n.Name] = struct{}{}
	}
}

// left forgets a node that is gone: the next one of its name is another.
func (l *learned) left(name string) {
	delete(l.fresh, name)
	delete(l.taught, name)
}

// recall takes in what the ledger remembers. What nodes taught meanwhile is not older.
func (c *Controller) recall(records map[string]ledger.Capacity) {
	for key, r := range records {
		if _, newer := c.learned.known[key]; !newer {
			c.learned.known[key] = r
		}
	}
	for class := range c.fetched {
		c.offer(class)
	}
}

// offer tells the mirror what can be bought with a class, as nodes turned out to be.
func (c *Controller) offer(name string) {
	f := c.fetched[name]
	list := f.list
	if len(c.learned.known) > 0 {
		types := map[*model.InstanceType]*model.InstanceType{}
		list = make([]*model.Offering, len(f.list))
		for i, o := range f.list {
			t := types[o.Type]
			if t == nil {
				t = c.correct(f.class, o.Type)
				types[o.Type] = t
			}
			list[i] = o
			if t != o.Type {
				better := *o
				better.Type = t
				list[i] = &better
			}
		}
	}
	c.m.Apply(cluster.Offerings{Class: name, List: list}, c.now)
}

func (c *Controller) correct(class *model.NodeClass, t *model.InstanceType) *model.InstanceType {
	r, ok := c.learned.known[t.Name+"/"+t.Image]
	if !ok || t.Image == "" {
		return t
	}
	return taught(r).Correct(class, t)
}

// taught is a record as the catalogue takes it.
func taught(r ledger.Capacity) catalogue.Learned {
	return catalogue.Learned{Memory: r.Memory, Short: r.Short, Doubt: (*catalogue.Doubt)(r.Doubt)}
}

// learn looks at the nodes that have joined since it did last.
func (c *Controller) learn() {
	news := map[string]bool{}
	for name := range c.learned.fresh {
		n := c.m.NodeObject(name)
		if n == nil {
			delete(c.learned.fresh, name)
			delete(c.learned.taught, name)
			continue
		}
		cl := c.m.ClaimByProviderID(n.ProviderID)
		if n.ProviderID == "" || cl == nil || n.Labels[model.LabelRegistered] != "true" || n.Capacity.Base[resource.Memory] <= 0 {
			delete(c.learned.fresh, name) // each change of the node brings it back
			continue
		}
		done, changed := c.learnFrom(n, cl)
		if done {
			delete(c.learned.fresh, name)
			c.learned.taught[name] = n.UID
		}
		if changed {
			news[cl.NodeClass.Name] = true
		}
	}
	if len(news) > 0 {
		for class := range c.fetched {
			c.offer(class) // classes may share images
		}
	}
}

// learnFrom takes one node into account. It is done where nothing more can be learned
// from it, and changed where what is planned with is another now.
func (c *Controller) learnFrom(n *model.Node, cl *model.Claim) (done, changed bool) {
	f, known := c.fetched[cl.NodeClass.Name]
	if !known {
		return c.m.NodeClass(cl.NodeClass.Name) == nil, false // what can be bought is read soon
	}
	if cl.ImageID == "" {
		return true, false
	}
	var t *model.InstanceType
	for _, o := range f.list {
		if o.Type.Name == n.InstanceType() {
			t = o.Type
			break
		}
	}
	if t == nil {
		return true, false
	}
	key := t.Name + "/" + cl.ImageID
	old := c.learned.known[key]
	instance := model.InstanceID(n.ProviderID)
	next, changed := taught(old).Learn(f.class, t, catalogue.Seen{
		Instance: instance, Capacity: n.Capacity, Allocatable: n.Allocatable, Planned: cl.Allocatable, PlannedCapacity: cl.Capacity,
	})
	if !changed && c.now.Sub(old.At) < renewEvery {
		return true, false
	}
	r := ledger.Capacity{Memory: next.Memory, Short: next.Short, Doubt: (*ledger.CapacityDoubt)(next.Doubt), Node: n.Name, At: c.now}
	c.learned.known[key] = r
	c.x.Remember(ledger.CapacityKey(c.cfg.Cluster, t.Name, cl.ImageID), r, ledger.Meta{Expires: c.now.Add(ledger.CapacityTTL)})
	if next.Doubts(instance) {
		c.tellDoubt(n, cl, key)
	} else {
		c.tellMisfit(n, cl, key)
	}
	return true, changed
}

// tellDoubt tells of a node that is not believed.
func (c *Controller) tellDoubt(n *model.Node, cl *model.Claim, key string) {
	bytes := func(v resource.Vector) string {
		return resource.Format(resource.BaseName(resource.Memory), v.Base[resource.Memory])
	}
	c.x.Event(model.Event{Object: claim.Ref(cl), Warning: true, Reason: "ImplausibleMemory",
		Message: fmt.Sprintf("node %s reports %s of memory and %s for pods, %s and %s were expected of %s: planned with only once another machine of its kind reports the like",
			n.Name, bytes(n.Capacity), bytes(n.Allocatable), bytes(cl.Capacity), bytes(cl.Allocatable), key)}, c.now)
}

// tellMisfit tells where a node has less for pods than it was bought for.
func (c *Controller) tellMisfit(n *model.Node, cl *model.Claim, key string) {
	for i := range resource.NumBase {
		if have, want := n.Allocatable.Base[i], cl.Allocatable.Base[i]; have < want && want > 0 {
			name := resource.BaseName(i)
			c.x.Event(model.Event{Object: claim.Ref(cl), Warning: true, Reason: "LessAllocatable",
				Message: fmt.Sprintf("node %s has %s %s for pods, %s was planned for; %s is planned for with what its nodes have from now on",
					n.Name, name, resource.Format(name, have), resource.Format(name, want), key)}, c.now)
			return
		}
	}
}
