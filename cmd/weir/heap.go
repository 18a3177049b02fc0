package main

import (
	"runtime/metrics"
	"sync"
	"time"
)

// heapWatch keeps the highest heap in use while it runs.
type heapWatch struct {
	stop chan struct{}
	wait sync.WaitGroup
	peak uint64
}

const heapMetric = "/memory/classes/heap/objects:bytes"

func heapInUse(s []metrics.Sample) uint64 {
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// watchHeap samples every few milliseconds until close is called.
func watchHeap() *heapWatch {
	h := &heapWatch{stop: make(chan struct{})}
	h.wait.Add(1)
	go func() {
		defer h.wait.Done()
		sample := []metrics.Sample{{Name: heapMetric}}
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for {
			h.peak = max(h.peak, heapInUse(sample))
			select {
			case <-h.stop:
				h.peak = max(h.peak, heapInUse(sample))
				return
			case <-tick.C:
			}
		}
	}()
	return h
}

// close ends the sampling and answers the peak in bytes.
func (h *heapWatch) close() uint64 {
	close(h.stop)
	h.wait.Wait()
	return h.peak
}
