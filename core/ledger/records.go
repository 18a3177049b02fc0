package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/weir-project/weir/core/model"
)

// Unowned is the cluster under which notices wait whose instance nobody knows yet.
const Unowned = "unowned"

// How long records live, and the numbers of capacity memory.
const (
	LaunchTTL        = 7 * 24 * time.Hour  // after a launch was closed
	ClaimTTL         = 7 * 24 * time.Hour  // after a claim is gone
	NoticeTTL        = 24 * time.Hour      // after its deadline, or after it was seen
	UnownedTTL       = 10 * time.Minute    // of notices without an owner
	DecisionTTL      = 30 * 24 * time.Hour // of the diary
	OfferingTTL      = 24 * time.Hour      // after the last shortage or interruption
	CapacityTTL      = 90 * 24 * time.Hour // after a node taught it last
	CommandTTL       = 2 * time.Hour       // of disruptions under way, which are over by then
	MovedTTL         = 2 * time.Hour       // of moves of pods
	PoolStateTTL     = 7 * 24 * time.Hour  // of what holds a pool back, after its last change
	HeartbeatEvery   = 15 * time.Second    // how often the scaler gives a sign of life
	HeartbeatStale   = 90 * time.Second    // after that it counts as dead
	HeartbeatActive  = 24 * time.Hour      // the Lambda acts only where the scaler was active within that
	ShortageFirst    = 3 * time.Minute     // an offering is closed for, doubling
	ShortageLongest  = 30 * time.Minute    // up to this
	conflictAttempts = 20                  // how often Update tries again after a conflict
)

// LaunchKey names a Launch.
func LaunchKey(cluster, id string) Key { return Key{cluster + "/launch", id} }

// FenceKey names the Fence of a cluster.
func FenceKey(cluster string) Key { return Key{cluster + "/fence", "leader"} }

// ClaimKey names a ClaimState.
func ClaimKey(cluster, uid string) Key { return Key{cluster + "/claim", uid} }

// InstanceKey names an InstanceOwner.
func InstanceKey(account, region, id string) Key {
	return Key{account + "/" + region + "/instance", id}
}

// NoticeKey names a Notice.
func NoticeKey(cluster, instance, kind string) Key {
	return Key{cluster + "/notice", instance + "/" + kind}
}

// OfferingKey names an OfferingHealth; offering is type/zone/capacity type.
func OfferingKey(account, region, offering string) Key {
	return Key{account + "/" + region + "/offering", offering}
}

// CapacityKey names a Capacity.
func CapacityKey(cluster, instanceType, image string) Key {
	return Key{cluster + "/capacity", instanceType + "/" + image}
}

// Capacities reads what real nodes of a cluster offered, by type/image.
func Capacities(ctx context.Context, s Store, cluster string, now time.Time) (map[string]Capacity, error) {
	items, err := s.Query(ctx, CapacityKey(cluster, "", "").Partition, "", now)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Capacity, len(items))
	for _, it := range items {
		c, err := Decode[Capacity](it)
		if err != nil {
			return nil, err
		}
		out[it.Sort] = c
	}
	return out, nil
}

// MovedKey names a Moved by its instant and the claim of the node.
func MovedKey(cluster string, at time.Time, claim string) Key {
	return Key{cluster + "/moved", at.UTC().Format("20060102T150405.000000000") + "/" + claim}
}

// CommandKey names a Command by its id.
func CommandKey(cluster, id string) Key { return Key{cluster + "/command", id} }

// Commands lists the disruptions that were not over, by id.
func Commands(ctx context.Context, s Store, cluster string, now time.Time) (map[string]Command, error) {
	items, err := s.Query(ctx, CommandKey(cluster, "").Partition, "", now)
	if err != nil {
		return nil, err
	}
	out := map[string]Command{}
	for _, it := range items {
		c, err := Decode[Command](it)
		if err != nil {
			return nil, err
		}
		if !c.Done {
			out[it.Sort] = c
		}
	}
	return out, nil
}

// PoolStateKey names the PoolState of a pool.
func PoolStateKey(cluster, pool string) Key { return Key{cluster + "/pool", pool} }

// PoolStates reads what holds pools back, by name.
func PoolStates(ctx context.Context, s Store, cluster string, now time.Time) (map[string]PoolState, error) {
	items, err := s.Query(ctx, PoolStateKey(cluster, "").Partition, "", now)
	if err != nil {
		return nil, err
	}
	out := make(map[string]PoolState, len(items))
	for _, it := range items {
		if out[it.Sort], err = Decode[PoolState](it); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// HeartbeatKey names the Heartbeat of a cluster.
func HeartbeatKey(cluster string) Key { return Key{cluster + "/heartbeat", "scaler"} }

// DecisionKey names a Decision by its day and id.
func DecisionKey(cluster string, at time.Time, id string) Key {
	return Key{cluster + "/decision/" + at.UTC().Format(time.DateOnly), id}
}

// NewID is a ULID for the instant: ids sort by time. With a seeded entropy the ids
// of a simulation are the same each time.
func NewID(at time.Time, entropy io.Reader) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), entropy)
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// Meta is what a record's item carries beside its data.
type Meta struct {
	Expires  time.Time // zero = never
	Instance string    // instance id the record is about, or empty
}

// Decode reads the data of an item.
func Decode[T any](it Item) (T, error) {
	var v T
	if err := json.Unmarshal(it.Data, &v); err != nil {
		return v, fmt.Errorf("ledger: record %v: %w", it.Key, err)
	}
	return v, nil
}

// Load reads one record; version is 0 where there is none.
func Load[T any](ctx context.Context, s Store, k Key, now time.Time) (v T, version int64, ok bool, err error) {
	it, ok, err := s.Get(ctx, k, now)
	if err != nil || !ok {
		return v, 0, false, err
	}
	v, err = Decode[T](it)
	return v, it.Version, err == nil, err
}

// Encode makes the item of a record.
func Encode(k Key, v any, m Meta) (Item, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return Item{}, fmt.Errorf("ledger: record %v: %w", k, err)
	}
	return Item{Key: k, Expires: m.Expires, Instance: m.Instance, Data: b}, nil
}

// Save writes one record where the stored version equals expect (see Store.Put).
func Save(ctx context.Context, s Store, k Key, v any, m Meta, expect int64, now time.Time) (int64, error) {
	it, err := Encode(k, v, m)
	if err != nil {
		return 0, err
	}
	return s.Put(ctx, it, expect, now)
}

// List reads the records of a partition whose sort begins with prefix, in order.
func List[T any](ctx context.Context, s Store, partition, prefix string, now time.Time) ([]T, error) {
	items, err := s.Query(ctx, partition, prefix, now)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, it := range items {
		if out[i], err = Decode[T](it); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Update changes one record by f, again from the start when somebody else wrote in
// between. f sees the record (ok false: there is none) and answers what to write;
// write false leaves it. It may be called several times. What is answered is the
// record as it is stored then.
func Update[T any](ctx context.Context, s Store, k Key, now time.Time, f func(v T, ok bool) (next T, m Meta, write bool)) (T, error) {
	var none T
	for range conflictAttempts {
		v, version, ok, err := Load[T](ctx, s, k, now)
		if err != nil {
			return none, err
		}
		next, m, write := f(v, ok)
		if !write {
			return v, nil
		}
		_, err = Save(ctx, s, k, next, m, version, now)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, ErrConflict) {
			return none, err
		}
	}
	return none, fmt.Errorf("updating %v: %w (%d times in a row)", k, ErrConflict, conflictAttempts)
}

// NoticeChange says what a notice changed.
type NoticeChange string

// What PutNotice did.
const (
	NoticeNew     NoticeChange = "new"     // the first of its kind for the instance
	NoticeSame    NoticeChange = "same"    // nothing new: a repetition, or a later deadline
	NoticeSooner  NoticeChange = "sooner"  // the deadline moved closer
	NoticeUpdated NoticeChange = "updated" // a later word on the same scheduled change
)

// NoticeOf is the record of a notice that was parsed.
func NoticeOf(n model.Notice, now time.Time) Notice {
	r := Notice{
		Instance: n.InstanceID, Kind: string(n.Kind), EventID: n.EventID, EventARN: n.EventARN,
		FirstSeen: now, State: NoticeSeen, EventTime: n.Time, EventState: n.State,
	}
	if n.Deadline != nil {
		r.Deadline = *n.Deadline
	}
	return r
}

// Model is the notice as planning sees it.
func (n Notice) Model() model.Notice {
	m := model.Notice{
		EventID: n.EventID, Kind: model.NoticeKind(n.Kind), InstanceID: n.Instance,
		Time: n.EventTime, EventARN: n.EventARN, State: n.EventState,
	}
	if !n.Deadline.IsZero() {
		d := n.Deadline
		m.Deadline = &d
	}
	return m
}

// PutNotice keeps a notice: at most one record per instance and kind, in which the
// earliest deadline wins, whichever order the notices come in. A scheduled change is
// different: a later word on the same event (event ARN) replaces deadline and state.
// The state of what was done about it never goes back. It answers the record as stored.
func PutNotice(ctx context.Context, s Store, cluster string, n Notice, now time.Time) (Notice, NoticeChange, error) {
	var change NoticeChange
	stored, err := Update(ctx, s, NoticeKey(cluster, n.Instance, n.Kind), now, func(old Notice, ok bool) (Notice, Meta, bool) {
		next := n
		if !ok {
			change = NoticeNew
		} else {
			next, change = mergeNotice(old, n)
		}
		return next, noticeMeta(cluster, next, now), change != NoticeSame
	})
	if err != nil {
		return Notice{}, "", fmt.Errorf("recording the %s notice of %s: %w", n.Kind, n.Instance, err)
	}
	return stored, change, nil
}

func mergeNotice(old, n Notice) (Notice, NoticeChange) {
	next := old
	if n.EventARN != "" && n.EventARN == old.EventARN {
		same := n.Deadline.Equal(old.Deadline) && n.EventState == old.EventState
		if same || n.EventTime.Before(old.EventTime) {
			return old, NoticeSame
		}
		next.EventID, next.EventTime, next.EventState, next.Deadline = n.EventID, n.EventTime, n.EventState, n.Deadline
		return next, NoticeUpdated
	}
	if n.Deadline.IsZero() || !old.Deadline.IsZero() && !n.Deadline.Before(old.Deadline) {
		return old, NoticeSame
	}
	next.EventID, next.EventTime, next.Deadline = n.EventID, n.EventTime, n.Deadline
	next.EventARN, next.EventState = n.EventARN, n.EventState
	return next, NoticeSooner
}

func noticeMeta(cluster string, n Notice, now time.Time) Meta {
	if cluster == Unowned {
		return Meta{Instance: n.Instance, Expires: now.Add(UnownedTTL)}
	}
	from := n.FirstSeen
	if n.Deadline.After(from) {
		from = n.Deadline
	}
	return Meta{Instance: n.Instance, Expires: from.Add(NoticeTTL)}
}

// noticeRank orders the states of a notice.
var noticeRank = map[string]int{NoticeSeen: 0, NoticeCordoned: 1, NoticeDraining: 2, NoticeDone: 3}

// AdvanceNotice sets what was done about a notice; it never goes back, and a notice
// that is not there any more is left so.
func AdvanceNotice(ctx context.Context, s Store, cluster, instance string, kind model.NoticeKind, state, action string, now time.Time) error {
	if _, ok := noticeRank[state]; !ok {
		return fmt.Errorf("advancing the notice of %s: %q is no state of a notice", instance, state)
	}
	_, err := Update(ctx, s, NoticeKey(cluster, instance, string(kind)), now, func(n Notice, ok bool) (Notice, Meta, bool) {
		if !ok || noticeRank[state] <= noticeRank[n.State] {
			return n, Meta{}, false
		}
		n.State = state
		if action != "" {
			n.Action = action
		}
		return n, noticeMeta(cluster, n, now), true
	})
	return err
}

// Notices lists the notices of a cluster, by instance and kind.
func Notices(ctx context.Context, s Store, cluster string, now time.Time) ([]Notice, error) {
	return List[Notice](ctx, s, cluster+"/notice", "", now)
}

// Beat writes a sign of life. It keeps a day and more, so that the Lambda can tell a
// scaler that died from one that never was active.
func Beat(ctx context.Context, s Store, cluster string, h Heartbeat) error {
	_, err := Save(ctx, s, HeartbeatKey(cluster), h, Meta{Expires: h.At.Add(7 * 24 * time.Hour)}, Any, h.At)
	if err != nil {
		return fmt.Errorf("writing the heartbeat of %s: %w", cluster, err)
	}
	return nil
}

// Alive says whether the heartbeat is fresh.
func (h Heartbeat) Alive(now time.Time) bool { return now.Sub(h.At) < HeartbeatStale }

// Governs says whether the scaler was active lately enough for the Lambda to act in
// its place.
func (h Heartbeat) Governs(now time.Time) bool {
	return h.Active && now.Sub(h.At) < HeartbeatActive
}

// PutDecision adds a line to the diary; id is from NewID.
func PutDecision(ctx context.Context, s Store, cluster, id string, d Decision) error {
	_, err := Save(ctx, s, DecisionKey(cluster, d.At, id), d, Meta{Expires: d.At.Add(DecisionTTL)}, 0, d.At)
	if err != nil {
		return fmt.Errorf("writing decision %s: %w", id, err)
	}
	return nil
}
