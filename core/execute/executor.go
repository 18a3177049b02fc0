package execute

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// EC2 tags that our instances carry.
const (
	TagCluster = "eks:eks-cluster-name"   // name of the cluster
	TagOwned   = "kubernetes.io/cluster/" // prefix; the value is "owned"
	TagPool    = model.LabelPool
	TagClass   = model.LabelNodeClass
	TagClaim   = "karpenter.sh/nodeclaim" // on launches of one claim
	TagLaunch  = cloud.TagLaunch
)

// The executor's timings.
const (
	FirstRetry    = time.Second      // after an effect failed, doubling
	LastRetry     = time.Minute      // up to this
	Recheck       = time.Second      // after a write, until a watch shows it
	UnseenAfter   = 15 * time.Second // a claim that no watch shows is looked for
	OrphanAge     = 30 * time.Second // younger instances are not looked at by garbage collection
	ReplaceWithin = 10 * time.Minute // replacements of a disruption must be usable after so long
	DefaultSweep  = time.Minute
	maxOffers     = 60 // offers in one launch

	// maxPerLaunch claims in one launch: they are closed with two records each, and that of the launch, in one transaction.
	maxPerLaunch = (ledger.MaxTransact - 1) / 2
)

// Config of an Executor. All fields but Sweep are needed.
type Config struct {
	Cluster         string
	Account, Region string
	Holder          string        // name of this process
	Sweep           time.Duration // between garbage collections, 0 = DefaultSweep
	Brake           Brake         // zero = DefaultBrake
}

// Brake is how much of the fleet garbage collection may end within a window: so many
// nodes or that share, whichever is more.
type Brake struct {
	Nodes  int
	Share  float64
	Window time.Duration
}

// DefaultBrake is 3 nodes or 5% in ten minutes.
var DefaultBrake = Brake{Nodes: 3, Share: 0.05, Window: 10 * time.Minute}

// Executor carries plans out, one step at a time. It reads the mirror and is used
// by the same goroutine.
type Executor struct {
	cfg   Config
	m     *cluster.Mirror
	epoch int64

	now  time.Time
	out  []Effect
	next time.Time // earliest wish to be called again

	serial   int64 // for ids
	inflight map[string]Effect
	retry    map[string]retry
	eventsAt map[string]time.Time // last emission of equal events
	buckets  map[string]*bucket

	recovered bool
	began     time.Time                    // first step of this reign
	lookAgain time.Time                    // when to read the state of before once more, see doubtful
	reclaim   map[string]ledger.ClaimState // by claim uid, of the last recovery
	launches  []*launch
	launchOf  map[string]*launch  // by claim name
	tracks    map[string]*track   // by claim name
	gates     map[string]*gate    // by PodDisruptionBudget, namespace/name
	evicting  map[string]evicting // by pod uid
	commands  []*command
	health    map[string]ledger.OfferingHealth // of offerings that were short, as far as it is known
	probes    map[string]time.Time             // offerings that may be asked although they are closed, until then
	outcomes  map[string][]bool                // by pool: whether the last launches joined
	describe  map[string]string                // instance id -> claim name, to be looked at
	described time.Time
	listed    map[string]machine   // instance id -> what the last sweep saw of it
	classAt   map[string]classSeen // by class
	tags      tagging

	queue      map[ledger.Key]ledger.Item // writes that the ledger has not taken yet
	queued     []ledger.Key               // in order
	sent       map[ledger.Key]ledger.Item // of the write in flight
	untold     []Shortage                 // that the ledger has not taken yet
	LedgerDown bool                       // the last call found the ledger away

	// OutOfService has nodes whose machine is gone tainted so that their volumes are detached at once.
	OutOfService bool

	sweptAt   time.Time
	sweepNow  bool
	youngAt   time.Time   // when an instance without a claim is old enough to be looked at
	ended     []time.Time // garbage collections of the brake's window
	Fenced    error       // a later leader is at work: nothing may be done any more
	GCStopped string      // why garbage collection stands still until a person releases it
	GCSince   time.Time   // since when

	Counters Counters
}

// Counters count what the executor did, for metrics.
type Counters struct {
	Created, Terminated, Collected, Adopted int64
	GivenUp                                 int64            // claims that got no instance
	Held                                    int64            // planned nodes whose offerings were short, with enough of them under way
	Forgotten                               int64            // lines of the diary that the ledger was away for too long for
	Evicted, Disrupted                      map[string]int64 // by outcome, by reason
	Failed                                  map[string]int64 // effects by kind and outcome
}

type retry struct {
	n  int
	at time.Time
}

// New makes an executor that knows nothing yet: its first step recovers.
func New(cfg Config, m *cluster.Mirror) *Executor {
	if cfg.Sweep == 0 {
		cfg.Sweep = DefaultSweep
	}
	if cfg.Brake == (Brake{}) {
		cfg.Brake = DefaultBrake
	}
	x := &Executor{cfg: cfg, m: m}
	x.Reset(0)
	return x
}

// Reset forgets everything, as a new leader with the given epoch does: what was
// under way is found again in objects, ledger and cloud.
func (x *Executor) Reset(epoch int64) {
	x.epoch = epoch
	x.inflight, x.retry = map[string]Effect{}, map[string]retry{}
	x.eventsAt, x.buckets = map[string]time.Time{}, map[string]*bucket{}
	x.Fenced = nil
	x.recovered, x.reclaim = false, map[string]ledger.ClaimState{}
	x.began, x.lookAgain = time.Time{}, time.Time{}
	x.launches, x.launchOf = nil, map[string]*launch{}
	x.tracks, x.commands = map[string]*track{}, nil
	x.gates, x.evicting = map[string]*gate{}, map[string]evicting{}
	x.outcomes = map[string][]bool{}
	x.describe = map[string]string{}
	x.health, x.probes = map[string]ledger.OfferingHealth{}, map[string]time.Time{}
	x.tags = tagging{names: map[string]string{}, done: map[string]bool{}}
	x.listed, x.classAt = map[string]machine{}, map[string]classSeen{}
	x.queue, x.queued, x.sent, x.untold = map[ledger.Key]ledger.Item{}, nil, nil, nil
	x.sweptAt, x.sweepNow, x.youngAt, x.ended, x.GCStopped = time.Time{}, false, time.Time{}, nil, ""
	x.Counters = Counters{Evicted: map[string]int64{}, Disrupted: map[string]int64{}, Failed: map[string]int64{}}
	for _, name := range x.m.Claims() {
		x.tracks[name] = &track{name: name}
	}
}

// Recovered says whether the state of before has been read; until then nothing is
// done, and no plan may be accepted.
func (x *Executor) Recovered() bool { return x.recovered }

// NextWake is when Step wants to be called although nothing came in; zero = no wish.
func (x *Executor) NextWake() time.Time { return x.next }

// Busy says how many effects are in flight.
func (x *Executor) Busy() int { return len(x.inflight) }

// Step answers what is to be done now.
func (x *Executor) Step(now time.Time) []Effect {
	x.now, x.next = now, time.Time{}
	if x.began.IsZero() {
		x.began = now
	}
	if !x.recovered {
		if now.Before(x.lookAgain) {
			x.wake(x.lookAgain)
			return x.take()
		}
		x.do("recover", Recover{Cluster: x.cfg.Cluster, Account: x.cfg.Account, Region: x.cfg.Region, Epoch: x.epoch})
		return x.take()
	}
	for _, l := range slices.Clone(x.launches) {
		x.stepLaunch(l)
	}
	x.stepCommands()
	x.stepClaims()
	x.stepDescribe()
	x.stepTags()
	x.stepSweep()
	x.tellShortages()
	x.flush()
	return x.take()
}

func (x *Executor) take() []Effect {
	out := x.out
	x.out = nil
	return out
}

// do emits an effect unless one of its key is in flight or waits for its next try.
func (x *Executor) do(key string, d Do) bool {
	if _, busy := x.inflight[key]; busy {
		return false
	}
	if r, ok := x.retry[key]; ok && x.now.Before(r.at) {
		x.wake(r.at)
		return false
	}
	e := Effect{Key: key, Do: d}
	x.inflight[key] = e
	x.out = append(x.out, e)
	return true
}

// Do emits an effect on behalf of control, with the same keys and retries as the
// executor's own. It answers false where one of the key is in flight or has to wait.
func (x *Executor) Do(key string, d Do, now time.Time) bool {
	x.now = now
	return x.do(key, d)
}

// Decide writes a line to the diary.
func (x *Executor) Decide(d ledger.Decision, now time.Time) {
	x.now = now
	x.serial++
	id, err := ledger.NewID(now, strings.NewReader(hash(x.cfg.Cluster, x.cfg.Holder, fmt.Sprint(x.epoch, x.serial))))
	if err != nil {
		panic(fmt.Sprintf("ulid: %v", err)) // the reader is long enough and the instant is after 1970
	}
	x.remember(ledger.DecisionKey(x.cfg.Cluster, now, id), d, ledger.Meta{Expires: now.Add(ledger.DecisionTTL)})
}

func (x *Executor) wake(at time.Time) {
	if x.next.IsZero() || at.Before(x.next) {
		x.next = at
	}
}

// Done takes in the result of an effect that this executor emitted. It may not be
// called for effects of others.
func (x *Executor) Done(r Result, now time.Time) {
	x.now = now
	delete(x.inflight, r.Effect.Key)
	x.ledgerSeen(r)
	if r.Err != nil && !benign(r) {
		x.Counters.Failed[r.Effect.Kind()+"/"+r.Outcome()]++
		n := x.retry[r.Effect.Key].n
		wait := min(FirstRetry<<min(n, 6), LastRetry)
		if r.Effect.Key == writeKey {
			wait = min(wait, ledger.HeartbeatEvery) // the sign of life is among what waits
		}
		x.retry[r.Effect.Key] = retry{n: n + 1, at: now.Add(wait)}
		x.wake(now.Add(wait))
	} else {
		delete(x.retry, r.Effect.Key)
	}
	x.dispatch(r)
}

// Owns says whether the effect is one of this executor's that is in flight.
func (x *Executor) Owns(e Effect) bool {
	_, ok := x.inflight[e.Key]
	return ok
}

// benign errors are answers: the object has gone its way, a budget says no.
func benign(r Result) bool {
	switch r.Effect.Do.(type) {
	case Evict, DeletePod, Emit:
		return true
	case PatchClaim, PatchNode, DeleteClaim, DeleteNode:
		return errors.Is(r.Err, ErrNotFound) || errors.Is(r.Err, ErrConflict)
	}
	return false
}

func (x *Executor) ledgerSeen(r Result) {
	switch r.Effect.Do.(type) {
	case OpenLaunch, CloseLaunch, Write, AddShortages, ReadHealth, ReadNotices, RecordNotice, AdvanceNotice:
		if r.Err == nil {
			x.LedgerDown = false
		} else if errors.Is(r.Err, ledger.ErrUnavailable) {
			x.LedgerDown = true
		}
	}
}

func (x *Executor) dispatch(r Result) {
	switch d := r.Effect.Do.(type) {
	case Recover:
		switch {
		case r.Err == nil:
			if found := r.Value.(Recovered); x.doubtful(found) {
				x.lookAgain = x.now.Add(lookEvery)
			} else {
				x.recover(found)
			}
		case errors.Is(r.Err, ErrFenced):
			x.Fenced = r.Err
		}
	case CreateClaim:
		x.createdClaim(d, r)
	case OpenLaunch:
		x.openedLaunch(d, r)
	case SendLaunch:
		x.sentLaunch(d, r)
	case FindLaunch:
		x.foundLaunch(d, r)
	case CloseLaunch:
		x.closedLaunch(d, r)
	case PatchClaim:
		x.patchedClaim(d, r)
	case PatchNode:
		x.recheckNode(d.Patch.Name)
	case DeleteNode:
		x.recheckNode(d.Name)
	case DeleteClaim:
		x.recheck(d.Name, Recheck)
	case Evict:
		x.evicted(d.Pod, d.Claim, r, d.Grace)
	case DeletePod:
		x.deletedPod(d, r)
	case Terminate:
		x.terminated(d, r)
	case Describe:
		x.describedInstances(d, r)
	case TagInstances:
		x.taggedInstances(r)
	case Sweep:
		if r.Err == nil {
			x.swept(r.Value.(Swept))
		}
	case Write:
		x.wrote(r)
	case AddShortages:
		x.shortagesAdded(d, r)
	case ReadHealth:
		if r.Err == nil {
			x.heard(r.Value.(map[string]ledger.OfferingHealth))
		}
	}
}

// id makes an id that no other step, process or leader makes.
func (x *Executor) id(salt string) string {
	x.serial++
	return hash(x.cfg.Cluster, x.cfg.Holder, fmt.Sprint(x.epoch), x.now.UTC().Format(time.RFC3339Nano), fmt.Sprint(x.serial), salt)
}

func hash(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d:%s", len(w), w)
	}
	return hex.EncodeToString(h.Sum(nil))[:26]
}

// token is the client token of one attempt of a launch.
func token(id string, attempt int) string { return "weir-" + hash(id, fmt.Sprint(attempt)) }

// --- the ledger's queue ---

// remember queues a record; a later one of the same key replaces it.
func (x *Executor) remember(k ledger.Key, v any, m ledger.Meta) {
	x.rememberItem(encode(k, v, m))
	if len(x.queue) > maxQueued {
		x.forgetDiary()
	}
}

// forgetDiary drops the oldest line of the diary that waits: a ledger that is away for
// days may not fill the memory, and what is known of machines must not be dropped.
func (x *Executor) forgetDiary() {
	for i, k := range x.queued {
		if strings.HasPrefix(k.Partition, x.cfg.Cluster+"/decision/") {
			delete(x.queue, k)
			x.queued = slices.Delete(x.queued, i, i+1)
			x.Counters.Forgotten++
			return
		}
	}
}

// remembered says whether nothing of the key waits to be written, or the ledger is
// away, in which case the object is what there is.
func (x *Executor) remembered(k ledger.Key) bool {
	_, waiting := x.queue[k]
	_, writing := x.sent[k]
	return !waiting && !writing || x.LedgerDown
}

// Remember queues a record of another room, such as a heartbeat.
func (x *Executor) Remember(k ledger.Key, v any, m ledger.Meta) { x.remember(k, v, m) }

// QueuedWrites is how many records wait for the ledger.
func (x *Executor) QueuedWrites() int { return len(x.queue) + len(x.sent) }

const (
	maxBatch  = 50
	maxQueued = 5000 // from then on the diary gives way
	writeKey  = "ledger/write"
)

func (x *Executor) flush() {
	if len(x.queued) == 0 || x.sent != nil {
		return
	}
	n := min(len(x.queued), maxBatch)
	items := make([]ledger.Item, 0, n)
	for _, k := range x.queued[:n] {
		items = append(items, x.queue[k])
	}
	if !x.do(writeKey, Write{Items: items}) {
		return
	}
	x.sent = make(map[ledger.Key]ledger.Item, n)
	for _, it := range items {
		x.sent[it.Key] = it
		delete(x.queue, it.Key)
	}
	x.queued = slices.Clone(x.queued[n:])
}

func (x *Executor) wrote(r Result) {
	sent := x.sent
	x.sent = nil
	if r.Err == nil {
		// Those who waited for their record go on.
		for _, t := range x.tracks {
			if t.awaitsLedger {
				t.due(x.now)
			}
		}
		return
	}
	// Back to the head of the queue, unless something newer waits there.
	var again []ledger.Key
	for _, it := range r.Effect.Do.(Write).Items {
		if _, newer := x.queue[it.Key]; !newer {
			x.queue[it.Key] = sent[it.Key]
			again = append(again, it.Key)
		}
	}
	x.queued = append(again, x.queued...)
	if x.LedgerDown {
		for _, t := range x.tracks {
			if t.awaitsLedger {
				t.due(x.now)
			}
		}
	}
}

// --- events ---

// bucket lets so many events of a kind pass.
type bucket struct {
	tokens float64
	at     time.Time
}

var limits = map[string]struct{ perSecond, burst float64 }{
	"Nominated":         {5, 10},
	"FailedScheduling":  {20, 200},
	"Evicted":           {50, 500},
	"FailedDraining":    {10, 100},
	"DisruptionBlocked": {2, 20},
	"Unconsolidatable":  {2, 20},
	"StrategyLate":      {2, 200},
	"StrategyDead":      {2, 200},
	"StrategyInvalid":   {2, 200},
	"StrategyEmpty":     {2, 200},
	"StrategyRefused":   {2, 200},
}

// event tells the cluster about something, equal events at most every two minutes
// (five for FailedScheduling), and some kinds at a bounded rate.
func (x *Executor) event(ev Event) {
	every := 2 * time.Minute
	if ev.Reason == "FailedScheduling" {
		every = 5 * time.Minute
	}
	key := ev.Object.Kind + "/" + ev.Object.Namespace + "/" + ev.Object.Name + "/" + ev.Object.UID + "/" + ev.Reason + "/" + ev.Message
	if at, ok := x.eventsAt[key]; ok && x.now.Sub(at) < every {
		return
	}
	if len(x.eventsAt) > 20000 {
		maps.DeleteFunc(x.eventsAt, func(_ string, at time.Time) bool { return x.now.Sub(at) >= 5*time.Minute })
	}
	if l, ok := limits[ev.Reason]; ok {
		b := x.buckets[ev.Reason]
		if b == nil {
			b = &bucket{tokens: l.burst, at: x.now}
			x.buckets[ev.Reason] = b
		}
		b.tokens = min(l.burst, b.tokens+l.perSecond*x.now.Sub(b.at).Seconds())
		b.at = x.now
		if b.tokens < 1 {
			return
		}
		b.tokens--
	}
	x.eventsAt[key] = x.now
	x.serial++
	ev.Message = cut(ev.Message)
	x.do(fmt.Sprintf("event/%d", x.serial), Emit{Event: ev})
}

// Event tells the cluster about something on behalf of control.
func (x *Executor) Event(ev Event, now time.Time) {
	x.now = now
	x.event(ev)
}

func podRef(p *model.Pod) ObjectRef {
	return ObjectRef{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func poolRef(p *model.Pool) ObjectRef {
	return ObjectRef{Kind: "NodePool", Name: p.Name, UID: p.UID}
}

func (x *Executor) claimEvent(c *model.Claim, warning bool, reason, format string, a ...any) {
	x.event(Event{Object: claim.Ref(c), Warning: warning, Reason: reason, Message: fmt.Sprintf(format, a...)})
}
