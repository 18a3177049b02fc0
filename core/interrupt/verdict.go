package interrupt

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/model"
)

// Action is what is done about a notice.
type Action string

// The actions, in the words of the InterruptionVerdict.
const (
	Drain            Action = "drain"              // cordon, replace at the same time, evict until the deadline
	ReplaceThenDrain Action = "replace-then-drain" // there is time: the new node comes first
	Remove           Action = "remove"             // it is dead: claim and node go, nobody is waited for
	Cordon           Action = "cordon"             // no new pods for a while
	Record           Action = "record"             // remembered, nothing is done
	Ignore           Action = "ignore"             // not about us
	DeadLetter       Action = "dead-letter"        // cannot be read
)

// rank orders the actions by how much they do to a node.
var rank = map[Action]int{Ignore: 0, DeadLetter: 0, Record: 0, Cordon: 1, ReplaceThenDrain: 2, Drain: 3, Remove: 4}

// Acts says whether the action changes anything in the cluster.
func (a Action) Acts() bool { return rank[a] > 0 }

// CordonFor is how long a node stays cordoned after a rebalance recommendation.
const CordonFor = 30 * time.Minute

// Verdict is what one event means for one instance.
type Verdict struct {
	EventID  string
	Type     string // of the event
	Instance string // empty where the event is about none
	Node     string // empty where there is none, or where no cluster was looked at
	Action   Action
	Deadline *time.Time // when the instance goes, nil = not known
	Marks    bool       // its offering counts as short, for every cluster of the account
	Reason   string

	Message  string        // id of the SQS message it came in, or empty
	Notice   *model.Notice // nil where Action is Ignore or DeadLetter for the event as a whole
	Claim    string        // name of the node's claim
	Offering string        // type/zone/capacity type, where the labels tell
}

// Options say whose events are looked at. Empty fields are not compared.
type Options struct {
	Account, Region, Cluster string
	Now                      time.Time
}

// Explain says what events would do: one event, an array or an SQS batch, one
// verdict for each event and instance, in their order. w may be nil: then every
// instance is taken for one of ours. An error says that the input is no JSON of
// events at all; an event in it that cannot be read is a verdict.
func Explain(data []byte, w *model.World, o Options) ([]Verdict, error) {
	messages, err := event.Split(data)
	if err != nil {
		return nil, err
	}
	d := NewDecider(w, o)
	var out []Verdict
	for _, m := range messages {
		out = append(out, d.Message(m)...)
	}
	return out, nil
}

// Decider judges events one after the other and remembers what it said before, so
// that a node is drained once, however often and for how many reasons it is asked for.
type Decider struct {
	w      *model.World
	o      Options
	byID   map[string]*model.Node
	events map[string]bool // ids of events that were judged
	acts   map[string]said // by instance
}

type said struct {
	action   Action
	deadline *time.Time
}

// NewDecider makes a decider; w may be nil.
func NewDecider(w *model.World, o Options) *Decider {
	d := &Decider{w: w, o: o, byID: map[string]*model.Node{}, events: map[string]bool{}, acts: map[string]said{}}
	if w != nil {
		for _, n := range w.Nodes {
			if id := InstanceOf(n); id != "" {
				d.byID[id] = n
			}
		}
	}
	return d
}

// InstanceOf is the instance id of a node: of its provider id, never of its name,
// which may be anything.
func InstanceOf(n *model.Node) string {
	if n.ProviderID != "" {
		return model.InstanceID(n.ProviderID)
	}
	if n.Claim != nil && n.Claim.ProviderID != "" {
		return model.InstanceID(n.Claim.ProviderID)
	}
	return n.Labels[model.LabelInstanceID]
}

// Message judges one event.
func (d *Decider) Message(m event.Message) []Verdict {
	id := event.ID(m.Body)
	if id != "" && d.events[id] {
		return []Verdict{{EventID: id, Type: event.Unknown, Action: Ignore, Reason: "an event of this id was handled already", Message: m.ID}}
	}
	received := m.Sent
	if received.IsZero() {
		received = d.o.Now
	}
	p, err := event.Parse(m.Body, received)
	if err != nil {
		v := Verdict{EventID: id, Type: event.Unknown, Action: DeadLetter, Reason: err.Error(), Message: m.ID}
		var e *event.Error
		if errors.As(err, &e) {
			v.Type, v.Reason = e.Type, e.Reason
		}
		return []Verdict{v}
	}
	if id != "" {
		d.events[id] = true
	}
	if p.Ignored != "" {
		v := Verdict{EventID: p.ID, Type: p.Type, Instance: p.Instance, Action: Ignore, Reason: p.Ignored, Message: m.ID}
		if n := d.byID[p.Instance]; n != nil {
			v.Node = n.ID()
		}
		return []Verdict{v}
	}
	var out []Verdict
	for _, n := range p.Notices {
		v := d.Notice(p.Type, n)
		v.Message = m.ID
		out = append(out, v)
	}
	return out
}

// Notice judges one notice; kind is the type of its event.
func (d *Decider) Notice(kind string, n model.Notice) Verdict {
	v := Verdict{EventID: n.EventID, Type: kind, Instance: n.InstanceID, Action: Ignore, Deadline: n.Deadline, Notice: &n}
	if why := foreign(n, d.o); why != "" {
		v.Reason = why
		return v
	}
	if d.w == nil {
		v.Action, v.Marks, v.Reason = react(n, "")
		v.Reason += "; no cluster was given, so the instance is taken for one of ours"
		return d.once(v)
	}
	node := d.byID[n.InstanceID]
	if node == nil {
		v.Reason = "instance " + n.InstanceID + " is no node of this cluster"
		return v
	}
	v.Node = node.ID()
	if !node.Managed() {
		v.Reason = "node " + node.ID() + " has no NodeClaim: it is not ours"
		return v
	}
	v.Claim, v.Offering = node.Claim.Name, OfferingOf(node)
	rebalance := ""
	if p := d.w.Pool(node.Pool()); p != nil {
		rebalance = p.Annotations[model.AnnotationRebalance]
	}
	v.Action, v.Marks, v.Reason = react(n, rebalance)
	v.Marks = v.Marks && v.Offering != "" && (n.Kind != model.NoticeSpot || node.CapacityType() == model.Spot)
	if node.BeingRemoved() && v.Action.Acts() && v.Action != Remove {
		v.Reason = "the node is being drained already; " + v.Reason
		v.Action = Record
	}
	return d.once(v)
}

// once turns a verdict that asks for no more than an earlier one into a record: the
// earliest deadline still wins, but nothing is started twice.
func (d *Decider) once(v Verdict) Verdict {
	before, ok := d.acts[v.Instance]
	if !ok || rank[v.Action] > rank[before.action] {
		if v.Action.Acts() {
			d.acts[v.Instance] = said{v.Action, earliest(before.deadline, v.Deadline)}
		}
		return v
	}
	if v.Action.Acts() {
		reason := fmt.Sprintf("an earlier event asks for %s already", before.action)
		if v.Deadline != nil && (before.deadline == nil || v.Deadline.Before(*before.deadline)) {
			reason += "; its deadline moves closer"
		}
		v.Action, v.Reason = Record, reason+"; "+v.Reason
		d.acts[v.Instance] = said{before.action, earliest(before.deadline, v.Deadline)}
	}
	return v
}

func earliest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// foreign says why a notice is not for this cluster by account and region alone.
func foreign(n model.Notice, o Options) string {
	switch {
	case o.Account != "" && n.Account != "" && n.Account != o.Account:
		return fmt.Sprintf("it is about account %s, this is %s", n.Account, o.Account)
	case o.Region != "" && n.Region != "" && n.Region != o.Region:
		return fmt.Sprintf("it is about region %s, this is %s", n.Region, o.Region)
	}
	return ""
}

// React is what a notice asks for on a managed node. rebalance is the choice of the
// node's pool (annotation weir.dev/rebalance), empty = record.
func React(n model.Notice, rebalance string) (Action, string) {
	a, _, reason := react(n, rebalance)
	return a, reason
}

func react(n model.Notice, rebalance string) (a Action, marks bool, reason string) {
	switch n.Kind {
	case model.NoticeSpot:
		if n.Action == "hibernate" {
			return Drain, true, "AWS hibernates the spot instance, which starts at once"
		}
		return Drain, true, "AWS takes the spot instance back within two minutes"
	case model.NoticeRebalance:
		return rebalanceAction(rebalance)
	case model.NoticeScheduled:
		if n.State == "closed" {
			return Record, false, "the scheduled change is over or was called off"
		}
		return Drain, false, "AWS scheduled maintenance or retirement of the instance; budgets are respected"
	case model.NoticeStopped:
		return Drain, false, "the instance is " + n.Action + ": its pods are moved as far as that still works"
	case model.NoticeTerminated:
		return Remove, false, "the instance is gone: claim and node are removed, there is nothing to drain"
	case model.NoticeReservation:
		return Drain, true, "AWS takes the capacity of the reservation back"
	case model.NoticeLifecycle:
		return Drain, false, "an Auto Scaling group ends the instance"
	case model.NoticeStatus:
		return Remove, false, "the instance failed its status check: it cannot take part in a drain"
	}
	return Record, false, fmt.Sprintf("notices of kind %q have no reaction", n.Kind)
}

func rebalanceAction(choice string) (Action, bool, string) {
	const what = "the spot instance is more likely than others to be taken back"
	switch choice {
	case "", string(Record):
		return Record, false, what + "; its pool only records that"
	case string(Cordon):
		return Cordon, false, fmt.Sprintf("%s; its pool wants no new pods on it for %d minutes", what, int(CordonFor.Minutes()))
	case string(ReplaceThenDrain):
		return ReplaceThenDrain, false, what + "; its pool wants it replaced and then drained"
	}
	return Record, false, fmt.Sprintf("%s; %s of its pool is %q, expected record, cordon or replace-then-drain", what, model.AnnotationRebalance, choice)
}

// Until is when the pods must be off the node: the deadline of the notice, or what
// AWS promises for its kind where the event does not name one. ok is false where
// nothing presses.
func Until(n model.Notice) (at time.Time, ok bool) {
	switch {
	case n.Deadline != nil:
		return *n.Deadline, true
	case n.Kind == model.NoticeReservation && !n.Time.IsZero():
		return n.Time.Add(event.SpotNotice), true
	case n.Kind == model.NoticeStopped || n.Kind == model.NoticeTerminated || n.Kind == model.NoticeStatus:
		return n.Time, true
	}
	return time.Time{}, false
}

// OfferingOf is type/zone/capacity type of a node, or empty where its labels do not tell.
func OfferingOf(n *model.Node) string {
	t, z, c := n.InstanceType(), n.Zone(), n.CapacityType()
	if t == "" || z == "" || c == "" {
		return ""
	}
	return t + "/" + z + "/" + c
}
