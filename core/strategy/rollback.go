package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/sdk"
)

// RollBack says that a strategy was taken out of service again.
type RollBack struct {
	At       time.Time
	From, To string // name and version
	Why      string
	Name     string   // of what was taken out
	Kind     sdk.Kind // of the binding that went back; empty = Name itself did, to the version before
	Serves   Spec     // what is in service instead
}

// What cannot be taken back, or tried again.
var (
	ErrNoLastGood    = errors.New("there is no last good version to go back to")
	ErrNotRolledBack = errors.New("nothing of it was rolled back")
)

// rolledBack is a change that was taken back and is not tried again until it is another
// or somebody asks for it.
type rolledBack struct {
	RollBack
	key  string // of the spec that was tried
	from *slot  // who is in service instead
}

// rollBack takes a strategy out of service that took another's place, nil = it is none
// any more. Plans that are being made go on with what they began with.
func (h *Host) rollBack(t *trial, why string) *rolledBack {
	h.mu.Lock()
	if h.closed || !slices.Contains(h.current.trials, t) || !t.move(RolledBack) {
		h.mu.Unlock()
		return nil
	}
	r := &rolledBack{RollBack: RollBack{At: time.Now(), From: t.to.label(), To: t.from.label(), Why: why, Name: t.name, Kind: t.kind, Serves: t.from.spec},
		key: t.to.spec.key(), from: t.from}
	h.rolled = append(h.rolled, r)
	before := h.current
	gen := &generation{config: before.config, slots: map[string]*slot{}, shadows: before.shadows}
	for name, s := range before.slots {
		gen.slots[name] = s
	}
	h.keepRolledBack(gen)
	for _, o := range before.trials {
		if o != t && gen.slots[o.name] == o.to && (o.kind == "" || gen.config.bound(o.kind) == o.name) {
			gen.trials = append(gen.trials, o)
		}
	}
	h.current = gen
	if h.next != nil {
		h.keepRolledBack(h.next)
	}
	h.rouse(t.from, true)
	h.retireUnused(before)
	h.tell()
	st := h.statusOf(t.from)
	h.mu.Unlock()
	h.opts.Log.Named("strategy").Error("strategy is rolled back", zap.String("strategy", t.name), zap.String("from", r.From), zap.String("to", r.To), zap.String("why", why))
	h.opts.OnState(st)
	return r
}

// instead is the slot that serves in place of a spec that was rolled back, nil if it was
// not. The caller holds mu.
func (h *Host) instead(spec Spec) *slot {
	for _, r := range h.rolled {
		if r.Kind == "" && r.Name == spec.Name && r.key == spec.key() {
			return r.from
		}
	}
	return nil
}

// keepRolledBack puts what was rolled back out of a generation. The caller holds mu.
func (h *Host) keepRolledBack(gen *generation) {
	for _, r := range h.rolled {
		s := gen.slots[r.Name]
		if s == nil || s.spec.key() != r.key {
			continue
		}
		if r.Kind == "" {
			gen.slots[r.Name] = r.from
			continue
		}
		if gen.config.bound(r.Kind) != r.Name {
			continue
		}
		name := r.from.spec.Name
		if gen.slots[name] == nil {
			gen.slots[name] = r.from
		}
		if r.Kind == sdk.Consolidation {
			gen.config.Consolidation = name
		} else {
			gen.config.InstanceSelection = name
		}
	}
}

// forget drops what was rolled back and is no longer asked for. The caller holds mu.
func (h *Host) forget(config Config) {
	h.desired = config
	h.rolled = slices.DeleteFunc(h.rolled, func(r *rolledBack) bool {
		if r.Kind != "" && config.bound(r.Kind) != r.Name {
			return true
		}
		return !slices.ContainsFunc(config.Strategies, func(s Spec) bool { return s.Name == r.Name && s.key() == r.key })
	})
}

// Retry tries once more what was rolled back under a name. It returns at once, as Apply
// does; an error if nothing was.
func (h *Host) Retry(name string) error {
	h.mu.Lock()
	n := len(h.rolled)
	h.rolled = slices.DeleteFunc(h.rolled, func(r *rolledBack) bool { return r.Name == name })
	found, config := len(h.rolled) < n, h.desired
	h.mu.Unlock()
	if !found {
		return fmt.Errorf("strategy %q: %w", name, ErrNotRolledBack)
	}
	return h.Apply(config)
}

// RollBack takes the strategy of a name out of service and its last good version back
// in, on a person's word. It returns when that is done; the error is ErrNoLastGood, or that
// of ctx where that version does not start before it ends.
func (h *Host) RollBack(ctx context.Context, name, why string) (RollBack, error) {
	h.mu.Lock()
	t := h.current.trial("", name)
	if t == nil || h.closed {
		h.mu.Unlock()
		return RollBack{}, fmt.Errorf("strategy %q: %w", name, ErrNoLastGood)
	}
	h.rouse(t.from, true)
	h.mu.Unlock()
	for {
		h.mu.RLock()
		wait := h.changed
		h.mu.RUnlock()
		if t.from.state().serving() {
			break
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return RollBack{}, fmt.Errorf("waiting for %s to serve again: %w", t.from.label(), ctx.Err())
		}
	}
	t.mu.Lock()
	t.state = Probation // a passed one is judged again, by a person
	t.mu.Unlock()
	r := h.rollBack(t, why)
	if r == nil {
		return RollBack{}, fmt.Errorf("strategy %q is no longer in service: %w", name, ErrNoLastGood)
	}
	return r.RollBack, nil
}
