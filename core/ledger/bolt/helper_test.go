package bolt_test

import (
	"sync"

	"github.com/weir-project/weir/core/ledger"
)

// paths remembers where each store of the suite keeps its file.
type paths struct {
	mu sync.Mutex // guards m
	m  map[ledger.Store]string
}

func newPaths() *paths { return &paths{m: map[ledger.Store]string{}} }

func (p *paths) set(s ledger.Store, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m[s] = path
}

func (p *paths) get(s ledger.Store) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[s]
}
