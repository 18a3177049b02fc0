package strategy

import (
	"context"
	"fmt"
)

// AwaitShadows waits until all shadows serve, which Settled does not wait for. It fails
// when one of them has failed to start, or when ctx ends.
func (h *Host) AwaitShadows(ctx context.Context) error {
	for {
		h.mu.RLock()
		gen, wait := h.current, h.changed
		h.mu.RUnlock()
		ready := true
		for _, x := range gen.shadows {
			switch st := x.slot.snapshot(); {
			case st.State == BackingOff || st.State == Broken:
				return fmt.Errorf("shadow %q: %s", x.name, st.LastError)
			case !st.State.serving():
				ready = false
			}
		}
		if ready {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("waiting for shadows: %w", ctx.Err())
		}
	}
}

// CatchUp waits until all shadows have seen the problems that the host was asked about so
// far, as whoever asks once must before Close. It fails when ctx ends, or the host does.
func (h *Host) CatchUp(ctx context.Context) error {
	for _, x := range h.shadowsOf(ctx) {
		seen := make(chan struct{})
		select {
		case x.bg.jobs <- func(context.Context) { close(seen) }:
		case <-x.bg.ctx.Done():
			return fmt.Errorf("shadow %q has ended", x.name)
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-seen:
		case <-x.bg.ctx.Done():
			return fmt.Errorf("shadow %q has ended", x.name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
