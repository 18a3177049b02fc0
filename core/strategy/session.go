package strategy

import (
	"context"
	"sync"
)

// Begin pins the strategies that are in service for everything that is asked with the
// context that it answers: one plan hears one generation throughout. The function it
// answers has to be called when the plan is made.
func (h *Host) Begin(ctx context.Context) (context.Context, func()) {
	if _, ok := ctx.Value(sessionKey{h}).(*generation); ok {
		return ctx, func() {}
	}
	ctx, _ = traced(ctx)
	h.mu.RLock()
	gen := h.current
	var entered []*slot
	for _, name := range sortedNames(gen.slots) {
		s := gen.slots[name]
		s.enter()
		entered = append(entered, s)
	}
	for _, t := range gen.trials {
		if t.from.enterAwake() {
			entered = append(entered, t.from)
		}
	}
	h.mu.RUnlock()
	return context.WithValue(ctx, sessionKey{h}, gen), sync.OnceFunc(func() {
		for _, s := range entered {
			s.leave()
		}
	})
}

// sessionKey finds the generation that a context pins.
type sessionKey struct{ host *Host }

// generationOf is what a context pins, else what is in service. The caller holds mu.
func (h *Host) generationOf(ctx context.Context) *generation {
	if gen, ok := ctx.Value(sessionKey{h}).(*generation); ok {
		return gen
	}
	return h.current
}
