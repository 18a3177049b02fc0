package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud"
	ec2 "github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// Input is what the cluster has at the start, or what a step applies.
type Input struct {
	Pools       []*model.Pool
	NodeClasses []*model.NodeClass
	Workloads   []*Workload
	Pods        []*model.Pod // without a controller
	Nodes       []*model.Node
	DaemonSets  []*model.DaemonSet
	Budgets     []*Budget
	Warnings    []string
}

// Fate says what becomes of the controller at an effect.
type Fate int

// The fates.
const (
	Live       Fate = iota
	KillBefore      // it dies before the effect is done
	KillAfter       // it dies when the effect is done and before it hears of the result
)

// Options of a run.
type Options struct {
	For       time.Duration // how long, where the scenario names no end; 0 = until its last step
	Catalogue func(class *model.NodeClass) []*model.Offering
	Strategy  execute.Strategy
	Planner   execute.Planner // nil = control.Planners
	Settings  control.Settings
	Cluster   string                               // its name, default simulated
	Load      func(paths []string) (*Input, error) // for apply steps
	Happened  func(Happening)                      // hears everything as it happens
	Fate      func(n int, e execute.Effect) Fate   // asked before the n-th effect, from 1; nil = Live
	Restart   time.Duration                        // after a death by Fate, default 10 s
}

type sim struct {
	ctx    context.Context
	opts   Options
	script *Scenario
	delays Delays
	now    time.Time
	q      queue

	api       *api
	cloud     *ec2.EC2
	store     ledger.Store
	ports     execute.Ports
	workloads *table[*Workload]

	// controller
	ctl     *control.Controller
	life    int // counts lives: what was asked in an earlier one is not heard
	inputs  []control.Input
	stepAt  time.Time // when the next step is due; zero = not
	spun    int       // steps at the instant spunAt
	spunAt  time.Time
	epoch   int64
	effects int
	kills   []*pendingKill

	// EC2 and machines
	cloudSeen int64
	cloudTick time.Time
	kubelets  map[string]*kubelet // by instance
	byNode    map[string]*kubelet
	byMachine map[string]string // node name -> instance
	bills     map[string]*NodeBill

	starting, stopping map[string]bool // pods by uid
	waking             map[string]bool // workloads
	scheduling         bool

	// figures
	report       *Report
	totals       *Totals
	groups       []moment
	changed      bool
	waitingSince map[string]time.Time
	eventsTold   map[string]bool
	commandsTold map[string]bool
	failed       error
}

type pendingKill struct {
	step KillStep
	left int
}

// Run plays a scenario over a cluster and reports. The error is about the inputs, a
// *FieldError for a step after the end, or about the simulator itself; an expectation that is not met is in the report.
func Run(ctx context.Context, in *Input, script *Scenario, opts Options) (*Report, error) {
	if opts.Catalogue == nil || opts.Strategy == nil {
		return nil, fmt.Errorf("simulate: a catalogue and a strategy are needed")
	}
	end := cmp.Or(script.End, opts.For)
	if err := script.within(end); err != nil {
		return nil, err
	}
	s := newSim(ctx, script, opts)
	if err := s.apply(in); err != nil {
		return nil, err
	}
	for i := range script.Steps {
		step := &script.Steps[i]
		if script.End == 0 && opts.For == 0 {
			end = max(end, step.At)
		}
		s.at(script.Start.Add(step.At), func() { s.step(step) })
	}
	s.startController()
	s.loop(script.Start.Add(end))
	if s.failed != nil {
		return nil, s.failed
	}
	s.finish()
	return s.report, nil
}

func newSim(ctx context.Context, script *Scenario, opts Options) *sim {
	opts.Cluster = cmp.Or(opts.Cluster, "simulated")
	if opts.Planner == nil {
		opts.Planner = control.Remember(control.Planners{})
	}
	opts.Restart = cmp.Or(opts.Restart, 10*time.Second)
	s := &sim{ctx: ctx, opts: opts, script: script, delays: script.Delays.withDefaults(), now: script.Start, store: mem.New(),
		workloads: newTable[*Workload](), kubelets: map[string]*kubelet{}, byNode: map[string]*kubelet{}, byMachine: map[string]string{},
		bills: map[string]*NodeBill{}, starting: map[string]bool{}, stopping: map[string]bool{}, waking: map[string]bool{},
		waitingSince: map[string]time.Time{}, eventsTold: map[string]bool{}, commandsTold: map[string]bool{}}
	clock := func() time.Time { return s.now }
	s.report = &Report{Kind: "SimulationReport", Scenario: script.Name, Title: script.Title, Closing: script.Closing, Seed: script.Seed, Start: script.Start,
		Happenings: []Happening{}, Checks: []Check{}, Samples: []Sample{}, Warnings: []string{}, Bill: []NodeBill{}}
	s.totals = &s.report.Totals
	s.cloud = ec2.New(ec2.Config{Seed: script.Seed, Now: clock, Cluster: opts.Cluster, Catalogue: opts.Catalogue,
		Delays: ec2.Delays{Run: s.delays.Run, Terminate: s.delays.Terminate, Listed: s.delays.Listed, Notice: s.delays.Notice}})
	s.api = newAPI(clock)
	s.ports = execute.Ports{Kube: s.api, Cloud: s.cloud, Ledger: s.store, Strategy: opts.Strategy, Planner: opts.Planner, Now: clock}
	s.api.watch = func(c cluster.Change) { s.hear(s.delays.Watch, c) }
	s.api.told = s.kubeEvent
	s.api.seen = s
	s.api.replicas = func(id string) int {
		if w, ok := s.workloads.get(id); ok {
			return w.Replicas
		}
		return 0
	}
	return s
}

func (s *sim) fail(format string, a ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf("simulate: at %s: %w", s.now.Format(time.RFC3339), fmt.Errorf(format, a...))
	}
}

func (s *sim) in(d time.Duration, do func()) { s.at(s.now.Add(d), do) }
func (s *sim) at(t time.Time, do func())     { s.q.add(t, do) }

// loop does what is due, in order, until the end.
func (s *sim) loop(end time.Time) {
	for s.failed == nil {
		if err := s.ctx.Err(); err != nil {
			s.fail("%w", err)
			return
		}
		t, ok := s.q.next()
		if !ok || t.After(end) {
			break
		}
		if t.After(s.now) {
			s.flush()
			s.sample()
			s.now = t
		}
		s.q.take().do()
		s.followCloud()
	}
	s.flush()
	s.sample()
	s.now = end
}

// hear queues an input of the controller.
func (s *sim) hear(after time.Duration, in control.Input) {
	life := s.life
	s.in(after, func() {
		if life != s.life || s.ctl == nil {
			return // a controller that was not there hears nothing; it lists everything when it starts
		}
		s.inputs = append(s.inputs, in)
		s.wakeController(s.now)
	})
}

// wakeController makes sure that a step is due at t or before.
func (s *sim) wakeController(t time.Time) {
	if s.ctl == nil || !s.stepAt.IsZero() && !t.Before(s.stepAt) {
		return
	}
	s.stepAt = t
	life := s.life
	s.at(t, func() {
		if life == s.life && s.stepAt.Equal(t) {
			s.stepAt = time.Time{}
			s.stepController()
		}
	})
}

func (s *sim) stepController() {
	in := s.inputs
	s.inputs = nil
	if s.spun++; !s.spunAt.Equal(s.now) {
		s.spunAt, s.spun = s.now, 0
	}
	if s.spun > maxSpin {
		s.fail("the controller took %d steps at one instant and wants to be called again at %s", s.spun, s.ctl.NextWake().Format(time.RFC3339Nano))
		return
	}
	life := s.life
	for _, e := range s.ctl.Step(s.now, in...) {
		s.in(s.latency(e), func() {
			if life == s.life {
				s.perform(e)
			}
		})
	}
	if next := s.ctl.NextWake(); !next.IsZero() && s.ctl != nil {
		s.wakeController(maxTime(next, s.now))
	}
}

// maxSpin is how many steps the controller may take at one instant: many for a burst
// of changes, and no end for one that spins, which a real one would do as well.
const maxSpin = 100_000

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// latency is how long an effect takes; it is done at the end of that time.
func (s *sim) latency(e execute.Effect) time.Duration {
	switch e.Do.(type) {
	case execute.SendLaunch, execute.FindLaunch, execute.Terminate, execute.Describe, execute.FetchOfferings, execute.Recover, execute.Sweep:
		return s.delays.Cloud
	case execute.CloseLaunch, execute.ReadNotices, execute.Write, execute.AddShortages, execute.ReadHealth:
		return s.delays.Ledger
	case execute.OpenLaunch:
		return s.delays.Ledger + s.delays.API
	case execute.Plan:
		return s.delays.Plan
	}
	return s.delays.API
}

// perform does one effect, unless the controller is to die before it.
func (s *sim) perform(e execute.Effect) {
	s.effects++
	fate := s.fateOf(e)
	if fate == KillBefore {
		s.die(e, "before", s.opts.Restart)
		return
	}
	r := execute.Perform(s.ctx, s.ports, e)
	s.totals.Effects++
	if p, ok := r.Value.(execute.Planned); ok && r.Err == nil {
		s.planned(p.Plan)
	}
	if fate == KillAfter {
		s.die(e, "after", s.opts.Restart)
		return
	}
	if s.ctl != nil {
		s.inputs = append(s.inputs, r)
		s.wakeController(s.now)
	}
}

func (s *sim) fateOf(e execute.Effect) Fate {
	for i, k := range s.kills {
		if k.step.Effect != "" && k.step.Effect != e.Kind() {
			continue
		}
		if k.left--; k.left > 0 {
			continue
		}
		s.kills = slices.Delete(s.kills, i, i+1)
		s.opts.Restart = cmp.Or(time.Duration(k.step.Restart), 10*time.Second)
		if k.step.After {
			return KillAfter
		}
		return KillBefore
	}
	if s.opts.Fate != nil {
		return s.opts.Fate(s.effects, e)
	}
	return Live
}

// die ends the controller's life with everything that it had in hand.
func (s *sim) die(e execute.Effect, when string, restart time.Duration) {
	s.life++
	s.ctl, s.inputs, s.stepAt = nil, nil, time.Time{}
	s.totals.ControllerRestarts++
	s.note(happening{Happening: Happening{Kind: "controller", Warning: true, Text: fmt.Sprintf("killed %s %s", when, e.Kind()), Why: e.Key}})
	s.in(restart, s.startController)
}

// startController starts a controller that knows nothing: it is told of every
// object, as informers do after their first list.
func (s *sim) startController() {
	s.epoch++
	s.ctl = control.New(control.Config{Cluster: s.opts.Cluster, Account: s.cloud.Account(), Region: s.cloud.Region(),
		Holder: fmt.Sprintf("scaler-%d", s.epoch), Settings: s.opts.Settings})
	if s.epoch > 1 {
		s.note(happening{Happening: Happening{Kind: "controller", Text: "started again"}})
	}
	for _, c := range s.api.everything() {
		s.hear(s.delays.Watch, c)
	}
	s.hear(s.delays.Watch, cluster.Synced{})
	s.hear(s.delays.Watch, control.Leading{Epoch: s.epoch})
}

// everything is the whole content as changes.
func (a *api) everything() []cluster.Change {
	var out []cluster.Change
	for _, c := range a.classes.all() {
		out = append(out, cluster.UpsertNodeClass{NodeClass: c})
	}
	for _, p := range a.pools.all() {
		out = append(out, cluster.UpsertPool{Pool: p})
	}
	for _, d := range a.daemons.all() {
		out = append(out, cluster.UpsertDaemonSet{DaemonSet: d})
	}
	for _, c := range a.claims.all() {
		out = append(out, cluster.UpsertClaim{Claim: c})
	}
	for _, n := range a.nodes.all() {
		out = append(out, cluster.UpsertNode{Node: n})
	}
	for _, b := range a.budgets.all() {
		m := b.PDB
		out = append(out, cluster.UpsertPDB{PDB: &m})
	}
	for _, p := range a.pods.all() {
		out = append(out, cluster.UpsertPod{Pod: p})
	}
	return out
}

// deliver is what the interruption Lambda does with an event: the notice is stored
// where whoever comes first finds it, and the controller, where it lives, hears of it.
func (s *sim) deliver(raw []byte) {
	parsed, err := event.Parse(raw, s.now)
	if err != nil {
		s.fail("event of the simulated EC2: %w", err)
		return
	}
	for _, n := range parsed.Notices {
		if _, _, err := ledger.PutNotice(s.ctx, s.store, s.opts.Cluster, ledger.NoticeOf(n, s.now), s.now); err != nil {
			s.fail("notice of %s: %v", n.InstanceID, err)
			return
		}
		s.hear(0, control.Notice{Notice: n})
	}
}

// apply puts objects into the cluster.
func (s *sim) apply(in *Input) error {
	for _, w := range in.Warnings {
		if !slices.Contains(s.report.Warnings, w) {
			s.report.Warnings = append(s.report.Warnings, w)
		}
	}
	for _, c := range in.NodeClasses {
		s.putClass(c)
	}
	for _, p := range in.Pools {
		s.putPool(p)
	}
	for _, d := range in.DaemonSets {
		s.api.daemons.put(d.Namespace+"/"+d.Name, d)
		s.api.watch(cluster.UpsertDaemonSet{DaemonSet: d})
	}
	for _, b := range in.Budgets {
		c := *b
		s.api.putBudget(&c)
		s.api.recount(c.Namespace)
	}
	for _, n := range in.Nodes {
		if err := s.adopt(n); err != nil {
			return err
		}
	}
	for _, p := range in.Pods {
		c := *p
		c.UID = cmp.Or(c.UID, s.api.uid())
		if c.Created.IsZero() {
			c.Created = s.now
		}
		s.api.putPod(&c)
	}
	for _, w := range in.Workloads {
		c := *w
		if old, ok := s.workloads.get(c.ID()); ok {
			c.made = old.made
		}
		s.workloads.put(c.ID(), &c)
		s.wakeWorkload(c.ID())
	}
	for _, n := range s.api.nodes.all() {
		s.placeDaemons(n)
	}
	s.wakeScheduler()
	return nil
}

// finish writes the bill and what is left.
func (s *sim) finish() {
	r := s.report
	r.End = s.now
	for _, line := range s.cloud.Bill() {
		b := s.bills[line.InstanceID]
		b.BillLine = line
		b.USD, b.Hours = round(line.USD), round(line.Hours)
		if m, ok := s.cloud.Machine(line.InstanceID); ok {
			b.Ended, b.EndReason = m.EndingAt, m.Reason
		}
		r.Bill = append(r.Bill, *b)
		s.totals.USD += line.USD
		s.totals.NodeHours += line.Hours
	}
	for _, uid := range sortedKeys(s.waitingSince) {
		d := s.now.Sub(s.waitingSince[uid]).Seconds()
		s.totals.PendingPodSeconds += d
		s.totals.LongestPending = max(s.totals.LongestPending, d)
	}
	t := s.totals
	t.Nodes = len(s.bills)
	t.USD, t.NodeHours, t.PendingPodSeconds, t.LongestPending = round(t.USD), round(t.NodeHours), round(t.PendingPodSeconds), round(t.LongestPending)
	s.final()
}

func (s *sim) final() {
	f := Final{Pods: map[string]int{}, Claims: s.api.claims.len(), Nodes: s.api.nodes.len()}
	for _, p := range s.api.pods.all() {
		if p.Daemon() || p.Deleting != nil {
			continue
		}
		if p.NodeName == "" {
			f.Pending++
		}
		if p.Ready {
			f.Pods[workloadOf(p)]++
		}
	}
	claimed := map[string]bool{}
	for _, c := range s.api.claims.all() {
		claimed[c.Name] = true
	}
	perClaim := map[string]int{}
	for _, m := range s.cloud.Machines() {
		if m.Gone() || m.Claim == "" {
			continue
		}
		f.Instances++
		if !claimed[m.Claim] {
			f.Unclaimed++
		}
		if perClaim[m.Claim]++; perClaim[m.Claim] == 2 {
			f.Doubled++
		}
	}
	s.report.Final = f
}

var _ cloud.Provider = (*ec2.EC2)(nil)
