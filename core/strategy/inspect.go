package strategy

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// Manifest is what the strategy of a name says about itself: its process, the last time
// that one was ready, or the built-in. It is an error if there is none, or none yet.
func (h *Host) Manifest(name string) (*sdk.Manifest, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := h.current.slots[name]
	if h.next != nil && h.next.slots[name] != nil {
		s = h.next.slots[name]
	}
	if s == nil {
		return nil, fmt.Errorf("there is no strategy %q", name)
	}
	if s.local != nil {
		m := manifestOf(s.local)
		m.Contracts = slices.DeleteFunc(m.Contracts, func(c sdk.Contract) bool { return s.foreign(c.Kind) })
		return m, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manifest == nil {
		return nil, fmt.Errorf("strategy %q has not been ready yet (%s): %s", name, s.status.State, s.status.LastError)
	}
	return s.manifest, nil
}

// BuiltinManifest is the manifest of a built-in strategy.
func BuiltinManifest(name string) (*sdk.Manifest, error) {
	s, err := builtin.New(name)
	if err != nil {
		return nil, err
	}
	return manifestOf(s), nil
}

// manifestOf is what a process of the strategy would say.
func manifestOf(s sdk.Strategy) *sdk.Manifest {
	m := &sdk.Manifest{Description: s.Describe()}
	if _, ok := s.(sdk.Pricer); ok {
		m.Contracts = append(m.Contracts, sdk.Contract{Kind: sdk.InstanceSelection, Version: sdk.ProtocolVersion, Levels: []string{"price"}})
	}
	if _, ok := s.(sdk.Scorer); ok {
		m.Contracts = append(m.Contracts, sdk.Contract{Kind: sdk.Consolidation, Version: sdk.ProtocolVersion, Levels: []string{"score"}})
	}
	return m
}

// foreign says that no member of the chain serves a kind, as far as is known. The caller
// holds the host's mu.
func (c *chain) foreign(kind sdk.Kind) bool {
	if c.host == nil {
		return false
	}
	for _, m := range c.members {
		s := c.host.extra[m.Strategy]
		for _, gen := range []*generation{c.host.current, c.host.next} {
			if gen != nil && gen.slots[m.Strategy] != nil {
				s = gen.slots[m.Strategy]
			}
		}
		if s != nil && !s.foreign(kind) {
			return false
		}
	}
	return true
}
