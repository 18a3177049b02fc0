package respond

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// Cluster is what is done to a cluster; *direct.Client does it. Every call has the
// deadline of its context.
type Cluster interface {
	NodeByInstance(ctx context.Context, id string, h direct.Hints) (*direct.Found, error)
	PoolAnnotations(ctx context.Context, name string) (map[string]string, error)
	Pods(ctx context.Context, node string) ([]*model.Pod, error)
	OnlyReady(ctx context.Context, p *model.Pod) (bool, error)
	PatchNode(ctx context.Context, p model.NodePatch) error
	AnnotateClaim(ctx context.Context, name, uid string, annotations map[string]string) error
	DeleteClaim(ctx context.Context, name, uid string) error
	Evict(ctx context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error)
	DeletePod(ctx context.Context, p *model.Pod, grace time.Duration) (drain.Outcome, error)
	Emit(ctx context.Context, e model.Event, now time.Time) error
}

var _ Cluster = (*direct.Client)(nil)

// DeadLetters is a queue that a person looks at.
type DeadLetters interface {
	Keep(ctx context.Context, l DeadLetter) error
}

// Clock tells the time and waits; nil in a Config means the real one.
type Clock interface {
	Now() time.Time
	// Sleep waits until the instant or the end of the context.
	Sleep(ctx context.Context, until time.Time)
}

// Config of a Responder. Cluster and Log are needed.
type Config struct {
	Cluster Cluster
	Ledger  ledger.Store // nil: none
	Clock   Clock
	Log     *zap.Logger
	// DeadLetters takes what cannot be read; nil: the ledger keeps it, where there is one.
	DeadLetters DeadLetters
	Metrics     io.Writer // takes lines in the embedded metric format; nil: none

	ClusterName     string
	Account, Region string        // events of others are not ours; empty = not compared
	TimeBox         time.Duration // how long one invocation works at most; 0 = what its context leaves
	// Relay says that every event that comes alone comes in a queue as well: a drain that such an
	// invocation has no time to finish is no error then, for another one goes on with it, and
	// what cannot be read is a dead letter of that one.
	Relay bool
}

// The timings of an invocation.
const (
	callTimeout = 5 * time.Second  // of one call to the API server or the ledger
	reserve     = 2 * time.Second  // before the end of the invocation, to answer
	near        = 15 * time.Minute // a deadline further away is no reason to hurry
	parallel    = 10               // evictions at once, per node
	nodesAtOnce = 16               // nodes tainted at once

	lookFor     = 500 * time.Millisecond // a taint waits no longer for the ledger
	awayFor     = 2 * time.Second        // of one call to a ledger that did not answer before
	ledgerCalls = 16                     // to the ledger at once, beside the work
	insistFor   = 5 * time.Second        // what fails is tried again for so long
	firstWait   = 100 * time.Millisecond // before the second try
	longestWait = time.Second            // between two tries
	aloneFor    = 2 * time.Second        // how long it is believed which pods are the only ready ones
)

// Responder handles invocations. Safe for concurrent use.
type Responder struct {
	cfg Config
}

// New makes a responder.
func New(cfg Config) *Responder {
	if cfg.Clock == nil {
		cfg.Clock = realClock{}
	}
	return &Responder{cfg: cfg}
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now().UTC() }

func (realClock) Sleep(ctx context.Context, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// BatchResponse tells SQS which messages must come again; all others are deleted.
type BatchResponse struct {
	BatchItemFailures []ItemFailure `json:"batchItemFailures"`
}

// ItemFailure is one message that must come again.
type ItemFailure struct {
	ItemIdentifier string `json:"itemIdentifier"`
}

// Outcome is what was done about one event and instance, for the log and for
// whoever invokes the function by hand.
type Outcome struct {
	Event    string           `json:"event"`
	Type     string           `json:"type"`
	Instance string           `json:"instance,omitempty"`
	Node     string           `json:"node,omitempty"`
	Action   interrupt.Action `json:"action"`
	Done     bool             `json:"done"` // nothing is left to do here
	Evicted  int              `json:"evicted,omitempty"`
	Waiting  int              `json:"waiting,omitempty"` // pods still on the node
	Reason   string           `json:"reason"`
}

// Response answers an event that came alone.
type Response struct {
	Outcomes []Outcome `json:"outcomes"`
}

// Handle handles one invocation: an event, an array of events, a batch of SQS
// messages or the tick of a schedule. For a batch the answer is a *BatchResponse; an
// error means that the whole invocation must come again.
func (r *Responder) Handle(ctx context.Context, payload []byte) (any, error) {
	ctx, cancel := r.box(ctx)
	defer cancel()
	v, stop := r.visit(ctx)
	defer stop()
	defer v.report()
	if tick(payload) {
		return v.sweep(ctx)
	}
	messages, err := event.Split(payload)
	if err != nil {
		return nil, v.unreadable(ctx, payload, err)
	}
	items := make([]*item, len(messages))
	for i, m := range messages {
		items[i] = &item{message: m}
	}
	v.work(ctx, items)
	return v.answer(items)
}

// box ends the work early enough to answer before the invocation is killed.
func (r *Responder) box(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if ok {
		end = end.Add(-reserve)
	}
	if own := r.cfg.Clock.Now().Add(r.cfg.TimeBox); r.cfg.TimeBox > 0 && (!ok || own.Before(end)) {
		end, ok = own, true
	}
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end)
}

func (v *visit) answer(items []*item) (any, error) {
	var batch BatchResponse
	batch.BatchItemFailures = []ItemFailure{}
	var resp Response
	var errs []error
	sqs := false
	for _, it := range items {
		resp.Outcomes = append(resp.Outcomes, it.outcomes()...)
		sqs = sqs || it.message.SQS
		if it.err == nil {
			continue
		}
		if it.message.SQS {
			batch.BatchItemFailures = append(batch.BatchItemFailures, ItemFailure{it.message.ID})
		} else if !v.cfg.Relay || !errors.Is(it.err, errUnfinished) {
			errs = append(errs, it.err)
		}
	}
	if sqs {
		return &batch, nil
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &resp, nil
}

// item is one message on its way through an invocation.
type item struct {
	message event.Message
	swept   bool // its targets come from the ledger, there is no message
	targets []*target
	other   []Outcome // of events that are about no node of ours
	letter  error     // why nobody keeps what cannot be read
	err     error     // why the message must come again
}

func (it *item) outcomes() []Outcome {
	out := it.other
	for _, t := range it.targets {
		out = append(out, t.outcome)
	}
	return out
}

func (it *item) fail(err error) { it.err = errors.Join(it.err, err) }

// work taints the nodes of all items before it evicts from any.
func (v *visit) work(ctx context.Context, items []*item) {
	seen := map[string]bool{}
	byInstance := map[string][]*target{}
	for _, it := range items {
		if !it.swept {
			v.read(ctx, it, seen)
		}
		for _, t := range it.targets {
			byInstance[t.notice.InstanceID] = append(byInstance[t.notice.InstanceID], t)
		}
	}
	// One after the other for one instance, so that the second notice sees what the first one wrote.
	var wg sync.WaitGroup
	slots := make(chan struct{}, nodesAtOnce)
	for _, targets := range byInstance {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for i, t := range targets {
				if t.twin = twin(targets[:i], t); t.twin == nil {
					t.err = v.insist(ctx, t)
				}
			}
		})
	}
	wg.Wait()
	v.drainAll(ctx, items)
	v.asked.Wait()
	for _, it := range items {
		v.close(it)
	}
}

// twin is one of the earlier notices about the same instance that says all that t says:
// what becomes of it becomes of t.
func twin(earlier []*target, t *target) *target {
	for _, o := range earlier {
		later := t.notice.Deadline == nil || o.notice.Deadline != nil && !t.notice.Deadline.Before(*o.notice.Deadline)
		if o.twin == nil && o.notice.Kind == t.notice.Kind && o.notice.Action == t.notice.Action && t.notice.EventARN == "" && later &&
			o.notice.Account == t.notice.Account && o.notice.Region == t.notice.Region {
			return o
		}
	}
	return nil
}

// drainAll empties the nodes that were tainted; two notices about one node share one drain.
func (v *visit) drainAll(ctx context.Context, items []*item) {
	byNode := map[string][]*target{}
	for _, it := range items {
		for _, t := range it.targets {
			if t.drain {
				byNode[t.found.Node.Name] = append(byNode[t.found.Node.Name], t)
			}
		}
	}
	var wg sync.WaitGroup
	for _, targets := range byNode {
		wg.Go(func() { v.drainNode(ctx, targets) })
	}
	wg.Wait()
}

// unreadable answers an invocation in whose payload there is nothing to take apart.
func (v *visit) unreadable(ctx context.Context, payload []byte, err error) error {
	v.count(Outcome{Type: event.Unknown, Action: interrupt.DeadLetter})
	v.tally.sums[MetricDeadLetters]++
	return v.deadLetter(ctx, event.Message{Body: payload}, err.Error(), false)
}

// close says what became of a message, and whether it must come again.
func (v *visit) close(it *item) {
	for _, t := range it.targets {
		if o := t.twin; o != nil {
			t.found, t.err, t.recorded, t.unfinished = o.found, o.err, o.recorded, o.unfinished
			t.outcome.Node, t.outcome.Action, t.outcome.Done, t.outcome.Waiting = o.outcome.Node, o.outcome.Action, o.outcome.Done, o.outcome.Waiting
			t.outcome.Reason = "event " + o.notice.EventID + " says the same: " + o.outcome.Reason
		}
		if err := errors.Join(t.err, t.recorded); err != nil {
			t.outcome.Done = false
			t.outcome.Reason = err.Error()
			it.fail(fmt.Errorf("event %s, instance %s: %w", t.notice.EventID, t.notice.InstanceID, err))
		}
		if t.unfinished != nil {
			it.fail(t.unfinished)
		}
		v.log(t)
	}
	if it.letter != nil {
		it.fail(it.letter)
	}
	for _, o := range it.outcomes() {
		v.count(o)
		if o.Action == interrupt.DeadLetter {
			v.tally.sums[MetricDeadLetters]++
		}
	}
	if it.err != nil {
		v.tally.sums[MetricRetried]++
	}
}

// read takes a message apart. The same event twice in one invocation is one event.
func (v *visit) read(ctx context.Context, it *item, seen map[string]bool) {
	id := event.ID(it.message.Body)
	ignore := func(kind, instance, why string) {
		it.other = append(it.other, Outcome{Event: id, Type: kind, Instance: instance, Action: interrupt.Ignore, Done: true, Reason: why})
		v.cfg.Log.Info("event ignored", zap.String("event", id), zap.String("type", kind), zap.String("instance", instance), zap.String("reason", why))
	}
	if id != "" && seen[id] {
		ignore(event.Unknown, "", "an event of this id is handled already")
		return
	}
	received := it.message.Sent
	if received.IsZero() {
		received = v.cfg.Clock.Now()
	}
	p, err := event.Parse(it.message.Body, received)
	if err != nil {
		kind := event.Unknown
		var e *event.Error
		if errors.As(err, &e) {
			kind = e.Type
		}
		it.other = append(it.other, Outcome{Event: id, Type: kind, Action: interrupt.DeadLetter, Done: true, Reason: err.Error()})
		v.asked.Go(func() { it.letter = v.deadLetter(ctx, it.message, err.Error(), it.message.SQS) })
		return
	}
	seen[id] = true
	for _, w := range p.Warnings {
		v.cfg.Log.Warn("a part of an event was left out", zap.String("event", id), zap.String("reason", w))
	}
	if p.Ignored != "" {
		ignore(p.Type, p.Instance, p.Ignored)
		return
	}
	for _, n := range p.Notices {
		it.targets = append(it.targets, &target{
			notice: n, kind: p.Type, outcome: Outcome{Event: n.EventID, Type: p.Type, Instance: n.InstanceID, Action: interrupt.Ignore},
		})
	}
}

// deadLetter keeps what cannot be read. Parse errors never get better, so nothing
// comes again: of a message in a batch that is certain; an event that came alone is
// handed back as an error where neither the queue nor the ledger keeps it, so that the
// dead-letter queue of the function does.
func (v *visit) deadLetter(ctx context.Context, m event.Message, reason string, sqs bool) error {
	body := string(m.Body)
	if len(body) > 4096 {
		body = strings.ToValidUTF8(body[:4096], "")
	}
	v.cfg.Log.Error("event cannot be read", zap.String("reason", reason), zap.String("message", m.ID), zap.String("body", body))
	if v.cfg.Relay && !sqs {
		return nil
	}
	if v.cfg.DeadLetters != nil {
		err := v.sendDeadLetter(ctx, DeadLetter{At: v.cfg.Clock.Now(), Message: m.ID, Reason: reason, Body: string(m.Body)})
		if err == nil {
			return nil
		}
		v.cfg.Log.Error("the queue did not take a dead letter", zap.Error(err))
	}
	if v.cfg.Ledger != nil {
		err := v.keepDeadLetter(ctx, m.ID, body, reason)
		if err == nil {
			return nil
		}
		v.cfg.Log.Error("the ledger did not take a dead letter", zap.Error(err))
	}
	if sqs {
		return nil
	}
	return fmt.Errorf("event cannot be read: %s", reason)
}

// DeadLetter is an event that could not be read, as the ledger keeps it.
// Partition "<cluster>/deadletter", sort = time and message id.
type DeadLetter struct {
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
	Reason  string    `json:"reason"`
	Body    string    `json:"body"`
}

func (v *visit) sendDeadLetter(ctx context.Context, l DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return v.cfg.DeadLetters.Keep(ctx, l)
}

func (v *visit) keepDeadLetter(ctx context.Context, id, body, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := v.cfg.Clock.Now()
	k := ledger.Key{Partition: v.cfg.ClusterName + "/deadletter", Sort: now.UTC().Format(time.RFC3339Nano) + "/" + id}
	_, err := ledger.Save(ctx, v.cfg.Ledger, k, DeadLetter{At: now, Message: id, Reason: reason, Body: body}, ledger.Meta{Expires: now.Add(ledger.DecisionTTL)}, ledger.Any, now)
	return err
}

func (v *visit) log(t *target) {
	v.cfg.Log.Info("interruption handled",
		zap.String("event", t.notice.EventID), zap.String("kind", string(t.notice.Kind)), zap.String("instance", t.notice.InstanceID),
		zap.String("node", t.outcome.Node), zap.String("action", string(t.outcome.Action)), zap.Bool("done", t.outcome.Done),
		zap.Int("evicted", t.outcome.Evicted), zap.Int("waiting", t.outcome.Waiting), zap.String("reason", t.outcome.Reason))
}

// tick says whether the payload is that of a schedule.
func tick(payload []byte) bool {
	var e struct {
		Source     string `json:"source"`
		DetailType string `json:"detail-type"`
	}
	return json.Unmarshal(payload, &e) == nil && e.Source == "aws.events" && e.DetailType == "Scheduled Event"
}
