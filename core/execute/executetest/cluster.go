package executetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Start is when every test cluster begins.
var Start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// Name is the name of every test cluster.
const Name = "test"

// Stepper is the controller under test.
type Stepper interface {
	Step(now time.Time, changes []cluster.Change, results []execute.Result) []execute.Effect
	NextWake() time.Time
}

// Workload keeps replicas of a pod running.
type Workload struct {
	Name     string
	Replicas int
	Requests resource.Vector
	Pod      func(p *model.Pod) // finishes a fresh pod, may be nil
}

// Cluster is the whole of it.
type Cluster struct {
	API       *API
	EC2       *sim.EC2       // the machines
	Cloud     cloud.Provider // who sells them; nil = EC2 itself
	Ledger    ledger.Store
	Planner   execute.Planner
	Workloads []*Workload
	NodeUp    time.Duration   // from running to Ready
	Dead      map[string]bool // nodes whose kubelet does nothing any more, by name
	Detach    time.Duration   // from the end of the last pod that mounts a volume until it is detached from a ready node

	now     time.Time
	serial  int
	idle    map[string]time.Time // attachments that no pod needs, since when
	make    func(epoch int64) Stepper
	epoch   int64
	control Stepper

	// Performed counts effects. Crash, where set, is asked before and after each effect
	// and kills the controller at that point where it answers true.
	Performed int
	Crash     func(index int, after bool, e execute.Effect) bool
	Crashes   int
	// Lose has the answer of an effect lost: it is done, and its result is a failure.
	Lose func(index int, e execute.Effect) error
	// Deadline is that of the calls of an effect, in real time; 0 = none.
	Deadline time.Duration
	// Begins is called at the beginning of every turn, for what lives beside the controller; may be nil.
	Begins func()
	// Boots is a machine as its kubelet knows it, where EC2 does not say so itself; may be nil.
	Boots func(m sim.Machine) sim.Machine
	// Joins changes what a node reports when it joins, may be nil.
	Joins func(n *model.Node)
	// Saw is told every effect and its result, may be nil.
	Saw func(now time.Time, r execute.Result)
}

// New makes a cluster whose controllers are made by f, one for each life.
func New(offerings func(*model.NodeClass) []*model.Offering, store ledger.Store, planner execute.Planner, f func(epoch int64) Stepper) *Cluster {
	c := &Cluster{now: Start, Ledger: store, Planner: planner, make: f, NodeUp: 10 * time.Second, Detach: 3 * time.Second, Dead: map[string]bool{}, idle: map[string]time.Time{}}
	c.API = NewAPI(c.Now)
	c.EC2 = sim.New(sim.Config{Seed: 1, Now: c.Now, Cluster: Name, Catalogue: offerings})
	return c
}

// Now is the virtual instant.
func (c *Cluster) Now() time.Time { return c.now }

// Strategy answers market prices and accepts every move.
type Strategy struct{}

// Price implements execute.Strategy.
func (Strategy) Price(context.Context, *model.World) (*model.Prices, error) {
	return &model.Prices{}, nil
}

// Score implements execute.Strategy.
func (Strategy) Score(_ context.Context, _ *model.World, moves []*model.Command) ([]model.MoveScore, error) {
	out := make([]model.MoveScore, len(moves))
	for i := range out {
		out[i] = model.MoveScore{Accept: true, Score: 1, Strategy: "test 1.0.0", Outcome: "ok"}
	}
	return out, nil
}

func (c *Cluster) ports() execute.Ports {
	var sold cloud.Provider = c.EC2
	if c.Cloud != nil {
		sold = c.Cloud
	}
	return execute.Ports{Kube: c.API, Cloud: sold, Ledger: c.Ledger, Strategy: Strategy{}, Planner: c.Planner, Now: c.Now}
}

// Run lets the cluster live for a while.
func (c *Cluster) Run(d time.Duration) {
	end := c.now.Add(d)
	for !c.now.After(end) {
		c.turn()
		c.now = c.now.Add(c.pause())
	}
}

// Until lets it live until the condition holds, or for at most d; it answers whether it holds.
func (c *Cluster) Until(d time.Duration, holds func() bool) bool {
	for end := c.now.Add(d); !c.now.After(end); c.now = c.now.Add(c.pause()) {
		c.turn()
		if holds() {
			return true
		}
	}
	return false
}

// pause is how long nothing happens for certain: half a second, or less where the
// controller asks for it.
func (c *Cluster) pause() time.Duration {
	d := 500 * time.Millisecond
	if c.control != nil {
		if at := c.control.NextWake(); !at.IsZero() && at.Before(c.now.Add(d)) && at.After(c.now) {
			d = at.Sub(c.now)
		}
	}
	return max(d, 50*time.Millisecond)
}

// turn lets everything that happens at this instant happen.
func (c *Cluster) turn() {
	if c.Begins != nil {
		c.Begins()
	}
	c.EC2.Advance()
	c.kubelets()
	c.workloads()
	c.schedule()
	c.volumes()
	var results []execute.Result
	var changes []cluster.Change
	if c.control == nil {
		c.epoch++
		c.control = c.make(c.epoch)
		changes = c.API.Everything()
	}
	for {
		changes = append(changes, c.API.Changes()...)
		effects := c.control.Step(c.now, changes, results)
		changes, results = nil, nil
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			r, alive := c.perform(e)
			if !alive {
				c.control = nil // whatever else was to be done dies with it
				c.Crashes++
				return
			}
			results = append(results, r)
		}
	}
}

// Restart ends the controller between two effects; the next one knows what objects, ledger and cloud say.
func (c *Cluster) Restart() { c.control = nil }

func (c *Cluster) perform(e execute.Effect) (execute.Result, bool) {
	i := c.Performed
	c.Performed++
	if c.Crash != nil && c.Crash(i, false, e) {
		return execute.Result{}, false
	}
	ctx := context.Background()
	if c.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Deadline)
		defer cancel()
	}
	r := execute.Perform(ctx, c.ports(), e)
	if c.Lose != nil {
		if err := c.Lose(i, e); err != nil {
			r = execute.Result{Effect: e, Err: err}
		}
	}
	if c.Saw != nil {
		c.Saw(c.now, r)
	}
	return r, c.Crash == nil || !c.Crash(i, true, e)
}

// kubelets registers machines, keeps their nodes Ready, and ends pods.
func (c *Cluster) kubelets() {
	for _, m := range c.EC2.Machines() {
		n := c.API.Nodes[m.NodeName]
		alive := m.State == "running" || m.State == "shutting-down"
		if n == nil {
			if m.State == "running" && m.LaunchID != "" && !c.now.Before(m.RunningAt.Add(c.NodeUp/2)) {
				c.register(m)
			}
			continue
		}
		dead := c.Dead[n.Name]
		if ready := alive && !dead && !c.now.Before(m.RunningAt.Add(c.NodeUp)); n.Ready != ready {
			u := *n
			u.Ready, u.ReadySince, u.Silent = ready, c.now, dead && alive
			u.Taints = slices.DeleteFunc(slices.Clone(u.Taints), func(t model.Taint) bool { return t.Key == "node.kubernetes.io/not-ready" })
			if !ready {
				u.Taints = append(u.Taints, model.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"})
			}
			c.API.putNode(&u)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.API.Pods)) {
		p := c.API.Pods[id]
		n := c.API.Nodes[p.NodeName]
		switch {
		case c.Dead[p.NodeName] && n != nil: // its pods neither end nor report
		case p.Deleting != nil && (!c.now.Before(c.API.ends(p)) || n == nil):
			c.API.RemovePod(id)
		case p.Deleting == nil && n != nil && n.Ready != p.Ready:
			u := *p
			u.Ready = n.Ready
			c.API.PutPod(&u)
		}
	}
}

func (c *Cluster) register(m sim.Machine) {
	if c.Boots != nil {
		m = c.Boots(m)
	}
	n := &model.Node{
		Name: m.NodeName, UID: c.API.uid(), ProviderID: m.ProviderID(), Labels: maps.Clone(m.Labels),
		Taints:   append(slices.Clone(m.Taints), model.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}),
		Capacity: Vector(m.Capacity), Allocatable: Vector(m.Allocatable), Created: c.now,
	}
	if c.Joins != nil {
		c.Joins(n)
	}
	c.API.putNode(n)
}

// workloads makes pods for those that are missing, and takes surplus ones away.
func (c *Cluster) workloads() {
	for _, w := range c.Workloads {
		var have []*model.Pod
		for _, id := range slices.Sorted(maps.Keys(c.API.Pods)) {
			if p := c.API.Pods[id]; p.Owner.Name == w.Name && p.Active() {
				have = append(have, p)
			}
		}
		for i := len(have); i < w.Replicas; i++ {
			c.serial++
			p := &model.Pod{
				UID: c.API.uid(), Namespace: "default", Name: fmt.Sprintf("%s-%04d", w.Name, c.serial), Labels: map[string]string{"app": w.Name},
				Created: c.now, Owner: model.Owner{Kind: "ReplicaSet", Name: w.Name, UID: "rs-" + w.Name},
				Requests: w.Requests.With("pods", 1), Terms: oneTerm(), GracePeriod: 5 * time.Second,
			}
			if w.Pod != nil {
				w.Pod(p)
			}
			c.API.PutPod(p)
		}
		for i := w.Replicas; i < len(have); i++ {
			_ = c.API.DeletePod(context.Background(), have[i], have[i].GracePeriod)
		}
	}
}

// schedule binds what fits and says so of what does not.
func (c *Cluster) schedule() {
	free := map[string]resource.Vector{}
	for name, n := range c.API.Nodes {
		free[name] = n.Allocatable
	}
	for _, p := range c.API.Pods {
		if p.NodeName != "" {
			free[p.NodeName] = free[p.NodeName].Sub(p.Requests)
		}
	}
	nodes := slices.Sorted(maps.Keys(c.API.Nodes))
	for _, id := range slices.Sorted(maps.Keys(c.API.Pods)) {
		p := c.API.Pods[id]
		if p.NodeName != "" || !p.Active() {
			continue
		}
		u := *p
		for _, name := range nodes {
			n := c.API.Nodes[name]
			if _, bad := p.Untolerated(n.Taints); bad || !n.Ready || !p.Requests.Fits(free[name]) {
				continue
			}
			free[name] = free[name].Sub(p.Requests)
			u.NodeName, u.Unschedulable = name, false
			at := c.now
			u.Started = &at
			break
		}
		if u.NodeName != "" || !p.Unschedulable {
			u.Unschedulable = u.NodeName == ""
			c.API.PutPod(&u)
		}
	}
}

// Running counts the bound, ready pods of a workload.
func (c *Cluster) Running(workload string) int {
	n := 0
	for _, p := range c.API.Pods {
		if p.Owner.Name == workload && p.NodeName != "" && p.Ready && p.Active() {
			n++
		}
	}
	return n
}

// Machines counts the machines of ours that have not begun to end.
func (c *Cluster) Machines() int {
	n := 0
	for _, m := range c.EC2.Machines() {
		if m.State == "pending" || m.State == "running" {
			n++
		}
	}
	return n
}

// oneTerm is the node filter of a pod that asks for nothing.
func oneTerm() []require.Set { return []require.Set{{}} }

// Jump sets the clock forward without letting anything happen in between.
func (c *Cluster) Jump(d time.Duration) { c.now = c.now.Add(d) }

// volumes attaches what bound pods mount and detaches what nobody mounts any more: from
// a ready node after a while, from one that is said to be out of service at once, from one
// that is gone after six minutes. A node that is not ready never says that it has let go.
func (c *Cluster) volumes() {
	needed := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.API.Pods)) {
		p := c.API.Pods[id]
		if p.NodeName == "" {
			continue
		}
		for _, v := range p.Volumes {
			name := "csi-" + v + "-" + p.NodeName
			needed[name] = true
			if _, there := c.API.Volumes[name]; !there && c.API.Nodes[p.NodeName] != nil {
				c.API.putAttachment(cluster.UpsertAttachment{Name: name, Node: p.NodeName, Volume: v})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.API.Volumes)) {
		n := c.API.Nodes[c.API.Volumes[name].Node]
		switch {
		case needed[name]:
			delete(c.idle, name)
			continue
		case c.idle[name].IsZero():
			c.idle[name] = c.now
		}
		after := 6 * time.Minute // from a node that is gone
		switch {
		case n != nil && slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == "node.kubernetes.io/out-of-service" }):
			after = 0
		case n != nil && n.Ready:
			after = c.Detach
		case n != nil:
			continue
		}
		if !c.now.Before(c.idle[name].Add(after)) {
			delete(c.idle, name)
			c.API.RemoveAttachment(name)
		}
	}
}
