package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// SetCapacity says how many more instances of an offering (type/zone/capacity type)
// there are; a negative number means endless. A zone or type may be *, which sets
// every offering that the catalogue sells to the class default.
func (e *EC2) SetCapacity(offering string, left int) error {
	typ, zone, ct, err := splitKey(offering)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	match := func(pattern, s string) bool { return pattern == "*" || pattern == s }
	found := false
	for key, o := range e.sold("default") {
		if match(typ, o.Type.Name) && match(zone, o.Zone) && match(ct, o.CapacityType) {
			found = true
			if left < 0 {
				delete(e.capacity, key)
			} else {
				e.capacity[key] = left
			}
		}
	}
	if !found {
		return fmt.Errorf("offering %q: the catalogue sells no such thing", offering)
	}
	return nil
}

// spotNotice is how long after the time of its warning a spot instance ends.
const spotNotice = 2 * time.Minute

// Reclaim takes a spot instance back: the warning goes out now, the instance ends
// after Delays.Notice, and its capacity does not come back. The warning bears the time
// two minutes before that end, so that who reads it knows the end whatever the delay.
func (e *EC2) Reclaim(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	m, err := e.living(id)
	if err != nil {
		return err
	}
	if m.CapacityType != model.Spot {
		return fmt.Errorf("instance %s: capacity type is %s, only spot is reclaimed", id, m.CapacityType)
	}
	end := now.Add(e.cfg.Delays.Notice)
	e.event(end.Add(-spotNotice), "EC2 Spot Instance Interruption Warning", m.ID, m.Zone, map[string]string{"instance-id": id, "instance-action": "terminate"})
	e.after(end, func(at time.Time) { e.end(at, m, reasonReclaim) })
	return nil
}

// Rebalance recommends to leave a spot instance; nothing else happens to it.
func (e *EC2) Rebalance(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	m, err := e.living(id)
	if err != nil {
		return err
	}
	e.event(now, "EC2 Instance Rebalance Recommendation", m.ID, m.Zone, map[string]string{"instance-id": id})
	return nil
}

// Fail ends an instance at once, without any warning.
func (e *EC2) Fail(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	m, err := e.living(id)
	if err != nil {
		return err
	}
	e.end(now, m, reasonFailure)
	return nil
}

// AddForeign starts an instance that somebody else bought: it carries the given
// tags only and no claim.
func (e *EC2) AddForeign(instanceType, zone string, tags map[string]string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	o := e.sold("default")[instanceType+"/"+zone+"/"+model.OnDemand]
	if o == nil {
		return "", fmt.Errorf("offering %s/%s/on-demand: the catalogue sells no such thing", instanceType, zone)
	}
	return e.start(now, cloud.Launch{CapacityType: model.OnDemand, Tags: tags}, "", pick{offering: o}), nil
}

// Adopt takes in a machine that was bought before and runs: Instance with its tags,
// Claim, NodeName, Capacity and Allocatable are the caller's. Its price is that of the
// catalogue; known is false where nothing of that kind is sold, and it costs nothing then.
func (e *EC2) Adopt(m Machine) (known bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	if m.ID == "" || e.machines[m.ID] != nil {
		return false, fmt.Errorf("instance %q: expected an id that is not taken", m.ID)
	}
	m.State, m.RunningAt = Running, now
	x := &machine{Machine: m, key: m.Type + "/" + m.Zone + "/" + m.CapacityType, offset: len(e.order)}
	if o := e.sold(m.Tags[model.LabelNodeClass])[x.key]; o != nil {
		x.USDPerHour, known = o.USDPerHour, true
	}
	e.machines[m.ID] = x
	e.order = append(e.order, x)
	return known, nil
}

func (e *EC2) living(id string) (*machine, error) {
	m := e.machines[id]
	if m == nil {
		return nil, fmt.Errorf("instance %s: not found", id)
	}
	if m.Gone() {
		return nil, fmt.Errorf("instance %s: is %s", id, m.State)
	}
	return m, nil
}

type fault struct {
	kind          cloud.ErrorKind
	code, message string
	after         bool // do it, then lose the answer
}

// FailNext makes the next n calls of an operation fail before they do anything.
func (e *EC2) FailNext(op string, n int, kind cloud.ErrorKind, code, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range n {
		e.faults[op] = append(e.faults[op], fault{kind: kind, code: code, message: message})
	}
}

// LoseNext makes the next n calls of an operation do their work and lose the answer.
func (e *EC2) LoseNext(op string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range n {
		e.faults[op] = append(e.faults[op], fault{kind: cloud.Internal, code: "RequestTimeout", message: "the answer was lost", after: true})
	}
}

// Throttle lets an operation through at a rate (calls per second) after a burst;
// a burst of 0 ends the throttling.
func (e *EC2) Throttle(op string, perSecond float64, burst int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if burst <= 0 {
		delete(e.buckets, op)
		return
	}
	e.buckets[op] = rate.NewLimiter(rate.Limit(perSecond), burst)
}

// begin counts a call and answers what stops it before it does anything.
func (e *EC2) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.calls[op]++
	if b := e.buckets[op]; b != nil && !b.AllowN(e.cfg.Now(), 1) {
		return &cloud.Error{Op: op, Kind: cloud.Throttled, Code: "RequestLimitExceeded", Message: "request limit exceeded"}
	}
	if q := e.faults[op]; len(q) > 0 && !q[0].after {
		e.faults[op] = q[1:]
		return &cloud.Error{Op: op, Kind: q[0].kind, Code: q[0].code, Message: q[0].message}
	}
	return nil
}

// lost answers the error that stands for an answer that never arrived.
func (e *EC2) lost(op string) error {
	if q := e.faults[op]; len(q) > 0 && q[0].after {
		e.faults[op] = q[1:]
		return &cloud.Error{Op: op, Kind: q[0].kind, Code: q[0].code, Message: q[0].message}
	}
	return nil
}

type envelope struct {
	Version    string            `json:"version"`
	ID         string            `json:"id"`
	DetailType string            `json:"detail-type"`
	Source     string            `json:"source"`
	Account    string            `json:"account"`
	Time       string            `json:"time"`
	Region     string            `json:"region"`
	Resources  []string          `json:"resources"`
	Detail     map[string]string `json:"detail"`
}

func (e *EC2) stateEvent(at time.Time, m *machine) {
	e.event(at, "EC2 Instance State-change Notification", m.ID, "", map[string]string{"instance-id": m.ID, "state": m.State})
}

// event appends an event. zone, where set, stands in the resource's ARN as it
// does in spot and rebalance events.
func (e *EC2) event(at time.Time, detailType, id, zone string, detail map[string]string) {
	seq := int64(len(e.events) + 1)
	n := fmt.Sprint(seq)
	a, b := e.hash("event-a", n), e.hash("event-b", n)
	arn := fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", e.cfg.Region, e.cfg.Account, id)
	if zone != "" {
		arn = fmt.Sprintf("arn:aws:ec2:%s:instance/%s", zone, id)
	}
	raw, err := json.Marshal(envelope{Version: "0",
		ID:         fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff),
		DetailType: detailType, Source: "aws.ec2", Account: e.cfg.Account, Time: at.UTC().Format(time.RFC3339), Region: e.cfg.Region,
		Resources: []string{arn}, Detail: detail})
	if err != nil {
		panic(err) // strings only: cannot happen
	}
	e.events = append(e.events, Event{Seq: seq, At: at, JSON: raw})
	close(e.more)
	e.more = make(chan struct{})
}

// Events is the events after the given sequence number; 0 gives all.
func (e *EC2) Events(after int64) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	after = min(max(after, 0), int64(len(e.events)))
	return append([]Event(nil), e.events[after:]...)
}

// changed is closed when there are events behind the given number.
func (e *EC2) changed(after int64) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if int64(len(e.events)) > after {
		c := make(chan struct{})
		close(c)
		return c
	}
	return e.more
}
