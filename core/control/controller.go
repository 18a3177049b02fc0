package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Config of a Controller.
type Config struct {
	Cluster         string // name of the cluster, also the first part of ledger keys
	Account, Region string
	Holder          string // name of this process
	Version         string // of the program, for the heartbeat
	Settings        Settings
}

// Controller decides when. It is used by one goroutine.
type Controller struct {
	cfg Config
	set Settings
	m   *cluster.Mirror
	x   *execute.Executor

	leading bool
	led     time.Time // since when
	why     string    // why it does not lead
	epoch   int64
	now     time.Time
	last    time.Time // of the step before
	promise time.Time // NextWake of the step before
	next    time.Time

	batch      batch
	disrupt    disruption
	freeze     freeze
	holds      holds
	notices    notices
	source     Source // of events, polled by whoever drives this
	strategies Strategies
	newsOf     bool                       // strategies came in and pools were not told yet
	faultsTold map[string]map[string]bool // by pool, by key
	rolledTold map[string]time.Time       // by name; stays over reigns
	fetched    map[string]fetch           // by class
	pools      map[string]poolWritten     // by pool
	poolsAt    time.Time
	beatAt     time.Time
	healthAt   time.Time // last look at what the account remembers of offerings
	probed     time.Time // last probe of a closed offering
	repairAt   time.Time // next look for broken nodes
	lag        time.Duration
	learned    learned
	decisions  func(*model.Plan) // tells the loop about plans, may be nil

	Stats Stats
}

// Stats are figures for metrics and for whoever watches.
type Stats struct {
	Plans, Commands  int64
	Waiting, Unmet   int // pods that wait, and those of them that the last plan could not place
	Frozen           string
	LastPlanDuration time.Duration
	Notices          map[string]int64 // answered notices, by kind/action
	Circles          int64            // pauses of pools whose pods went round
	Rejected         map[string]int64 // commands that did not hold when they were validated, by reason
}

type fetch struct {
	class *model.NodeClass
	at    time.Time
	list  []*model.Offering // as the cloud answered, before what was learned of nodes
}

// The defaults of Settings.
const (
	DefaultBatchIdle       = time.Second
	DefaultBatchMax        = 10 * time.Second
	DefaultReplan          = 10 * time.Second
	DefaultDisruptEvery    = 10 * time.Second
	DefaultDisruptValidate = 15 * time.Second
	DefaultOfferingsEvery  = time.Minute
	DefaultNoticesEvery    = 10 * time.Second
)

// WithDefaults fills in what is zero.
func (s Settings) WithDefaults() Settings {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&s.BatchIdle, DefaultBatchIdle)
	set(&s.BatchMax, DefaultBatchMax)
	set(&s.Replan, DefaultReplan)
	set(&s.DisruptEvery, DefaultDisruptEvery)
	set(&s.DisruptValidate, DefaultDisruptValidate)
	set(&s.SweepEvery, execute.DefaultSweep)
	set(&s.OfferingsEvery, DefaultOfferingsEvery)
	set(&s.NoticesEvery, DefaultNoticesEvery)
	return s
}

// New makes a controller that follows until it is told to lead.
func New(cfg Config) *Controller {
	cfg.Settings = cfg.Settings.WithDefaults()
	c := &Controller{cfg: cfg, set: cfg.Settings, rolledTold: map[string]time.Time{}, why: "not elected yet"}
	c.m = cluster.New(cluster.Options{Settings: cfg.Settings.Planning})
	c.x = execute.New(execute.Config{Cluster: cfg.Cluster, Account: cfg.Account, Region: cfg.Region, Holder: cfg.Holder,
		Sweep: cfg.Settings.SweepEvery, Brake: cfg.Settings.Brake}, c.m)
	c.x.OutOfService = cfg.Settings.OutOfService
	c.reset()
	return c
}

func (c *Controller) reset() {
	c.batch, c.disrupt, c.notices = batch{}, disruption{}, notices{open: map[string]*notice{}, told: map[NoticeID]string{}}
	c.faultsTold = nil
	c.fetched, c.pools = map[string]fetch{}, map[string]poolWritten{}
	c.poolsAt, c.beatAt, c.repairAt, c.healthAt = time.Time{}, time.Time{}, time.Time{}, c.now
	c.learned = newLearned(c.m.NodeNames())
	c.holds = newHolds()
	if c.Stats.Rejected == nil {
		c.Stats.Rejected, c.Stats.Notices = map[string]int64{}, map[string]int64{}
	}
}

// OnPlan has f called for every plan that came back, before it is carried out.
func (c *Controller) OnPlan(f func(*model.Plan)) { c.decisions = f }

// Mirror is the controller's view of the cluster; it may be read between two steps.
func (c *Controller) Mirror() *cluster.Mirror { return c.m }

// Executor is what carries plans out; it may be read between two steps.
func (c *Controller) Executor() *execute.Executor { return c.x }

// Leading says whether this controller acts, and why not where it does not.
func (c *Controller) Leading() (bool, string) { return c.leading, c.why }

// NextWake is when Step wants to be called although nothing came in; zero = only
// when something does.
func (c *Controller) NextWake() time.Time { return c.promise }

// Step takes in what happened and answers what is to be done. Time must not be taken
// from anywhere else.
func (c *Controller) Step(now time.Time, in ...Input) []execute.Effect {
	c.clock(now)
	c.next = time.Time{}
	for _, i := range in {
		c.input(i)
	}
	if err := c.x.Fenced; c.leading && err != nil {
		c.leading, c.why = false, err.Error()
	}
	if !c.leading || !c.m.Synced() {
		c.last, c.promise = now, c.next
		return nil
	}
	if c.x.Recovered() {
		c.heartbeat()
		c.readOfferings()
		c.learn()
		c.stepNotices()
		c.repair()
		c.provision()
		c.consolidate()
		if c.newsOf {
			c.newsOf = false
			c.tellStrategies()
		}
		c.writePools()
		c.releaseGC()
	}
	effects := c.x.Step(now)
	c.wake(c.x.NextWake())
	c.last, c.promise = now, c.next
	return effects
}

func (c *Controller) wake(at time.Time) {
	if at.IsZero() {
		return
	}
	if c.next.IsZero() || at.Before(c.next) {
		c.next = at
	}
}

func (c *Controller) input(i Input) {
	switch i := i.(type) {
	case cluster.Change:
		c.m.Apply(i, c.now)
		if n, ok := i.(cluster.UpsertNode); ok {
			c.learned.met(n.Node)
		}
		if n, ok := i.(cluster.DeleteNode); ok {
			c.learned.left(n.Name)
		}
	case execute.Result:
		if !c.x.Owns(i.Effect) {
			return // of a reign that has ended: recovery reads what came of it
		}
		c.x.Done(i, c.now)
		c.result(i)
	case Notice:
		c.tell(i.Notice)
	case Source:
		c.source = i
	case Strategies:
		c.strategies, c.newsOf = i, true
	case ConfigChanged:
		c.set = i.Settings.WithDefaults()
		c.m.SetSettings(c.set.Planning)
		c.repairAt = time.Time{}
		c.x.OutOfService = c.set.OutOfService
	case Leading:
		if c.leading && c.epoch == i.Epoch {
			return
		}
		c.leading, c.led, c.why, c.epoch = true, c.now, "", i.Epoch
		c.x.Reset(i.Epoch)
		c.reset()
	case Following:
		c.leading, c.why = false, i.Why
	case Lag:
		c.lag = i.Behind
	default:
		panic(fmt.Sprintf("control: input of type %T", i))
	}
}

// result deals with the effects that control asked for.
func (c *Controller) result(r execute.Result) {
	switch d := r.Effect.Do.(type) {
	case execute.Plan:
		c.planned(d, r)
	case execute.FetchOfferings:
		if r.Err == nil && c.m.NodeClass(d.Class.Name) != nil {
			c.fetched[d.Class.Name] = fetch{class: d.Class, at: c.now, list: r.Value.([]*model.Offering)}
			c.offer(d.Class.Name)
		}
	case execute.OpenLaunch:
		if cloud.KindOf(r.Err) == cloud.NotReady {
			c.shutClass(d.Launch.NodeClass, r.Err)
		}
	case execute.Recover:
		if r.Err == nil && c.x.Recovered() {
			found := r.Value.(execute.Recovered)
			c.recall(found.Learned)
			c.recallHolds(found.Moved, found.Pools)
		}
	case execute.ReadNotices:
		if r.Err == nil {
			c.readNotices(r.Value.(execute.Noticed))
		}
	case execute.RecordNotice:
		if n := c.notices.open[d.Notice.InstanceID+"/"+string(d.Notice.Kind)]; n != nil && r.Err == nil && sameNotice(n.Notice, d.Notice) {
			n.recorded = true
		}
	case execute.AdvanceNotice:
		if n := c.notices.open[d.Instance+"/"+string(d.NoticeKind)]; n != nil && r.Err == nil && n.untold != nil && n.untold.Action == d.Action {
			n.untold = nil
		}
	case execute.PatchPool:
		if r.Err != nil {
			delete(c.pools, d.Status.Name)
		}
	}
}

// clock takes the time and notices when it jumps.
func (c *Controller) clock(now time.Time) {
	c.now = now
	if c.last.IsZero() {
		return
	}
	// A step may come late by what was promised; later than that, or earlier than the
	// one before, means that the clock was set or the process stood still.
	expected := c.last
	if c.promise.After(expected) {
		expected = c.promise
	}
	if now.Sub(expected) > clockJump && !c.promise.IsZero() || c.last.Sub(now) > clockJump {
		c.freeze.hit(fmt.Sprintf("the clock jumped by %s", now.Sub(expected).Round(time.Second)), now)
	}
}

func (c *Controller) heartbeat() {
	if at := c.beatAt.Add(ledger.HeartbeatEvery); !c.beatAt.IsZero() && c.now.Before(at) {
		c.wake(at)
		return
	}
	c.beatAt = c.now
	c.wake(c.now.Add(ledger.HeartbeatEvery))
	c.x.Remember(ledger.HeartbeatKey(c.cfg.Cluster), ledger.Heartbeat{
		At: c.now, Holder: c.cfg.Holder, Epoch: c.epoch, Version: c.cfg.Version, Active: true,
	}, ledger.Meta{Expires: c.now.Add(7 * 24 * time.Hour)})
}

// readOfferings asks the cloud what can be bought, for each class once in a while
// and whenever the class changed.
func (c *Controller) readOfferings() {
	if at := c.healthAt.Add(c.set.OfferingsEvery); c.now.Before(at) {
		c.wake(at)
	} else if c.x.Do("health", execute.ReadHealth{Account: c.cfg.Account, Region: c.cfg.Region}, c.now) {
		c.healthAt = c.now // what other clusters of the account found out; recovery has read it the first time
	}
	classes := c.m.World(c.now).NodeClasses
	maps.DeleteFunc(c.fetched, func(name string, _ fetch) bool { return classes[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		class := classes[name]
		f := c.fetched[class.Name]
		if at := f.at.Add(c.set.OfferingsEvery); f.class == class && c.now.Before(at) {
			c.wake(at)
			continue
		}
		c.x.Do("offerings/"+class.Name, execute.FetchOfferings{Class: class}, c.now)
		c.wake(c.now.Add(execute.FirstRetry))
	}
}

// shutClass has nothing of a class planned with until it is read anew: the cloud knows better than what was planned with, and
// the pods that had counted on it are planned again at once.
func (c *Controller) shutClass(name string, why error) {
	f, ok := c.fetched[name]
	if !ok {
		return
	}
	message := why.Error()
	var told *cloud.Error
	if errors.As(why, &told) {
		message = told.Message
	}
	list := make([]*model.Offering, len(f.list))
	for i, o := range f.list {
		shut := *o
		shut.Available, shut.Unavailable = false, message
		list[i] = &shut
	}
	f.list, f.at = list, time.Time{}
	c.fetched[name] = f
	c.offer(name)
}

func (c *Controller) releaseGC() {
	if c.x.GCStopped == "" {
		return
	}
	for _, p := range c.m.World(c.now).Pools {
		at, err := time.Parse(time.RFC3339, p.Annotations[execute.AnnotationRelease])
		if err == nil && at.After(c.x.GCSince) {
			c.x.ReleaseGC()
			return
		}
	}
}
