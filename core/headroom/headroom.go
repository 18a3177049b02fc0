package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	spare = 128 << 20 // bytes that the heap may grow by, if that is within the two following, percent of what is held
	least = 100       // Go's own default
	most  = 400
)

// Make sets the collector up for what the process holds now. It returns the percentage that it set, 0 where GOGC is set.
func Make() int {
	if os.Getenv("GOGC") != "" {
		return 0
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p := percent(m.HeapAlloc)
	debug.SetGCPercent(p)
	return p
}

// percent is how much the heap may grow, for so many bytes that are held.
func percent(held uint64) int {
	return int(min(most, max(least, 100*spare/max(held, 1))))
}
