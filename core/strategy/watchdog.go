package strategy

import (
	"fmt"
	"time"
)

// lookEvery is how often the ceilings of a process are looked at.
const lookEvery = 200 * time.Millisecond

// watchdog holds what a process takes against its ceilings. The kernel's own limits
// are the second line: they bound what can be taken between two looks.
type watchdog struct {
	pid    int
	spec   Spec
	window time.Duration

	began time.Time     // of the window
	cpu   time.Duration // that it had taken then
}

func newWatchdog(pid int, spec Spec, window time.Duration) *watchdog {
	return &watchdog{pid: pid, spec: spec, window: window}
}

// look is an error if the process has to end, with the reason.
func (w *watchdog) look(now time.Time) error {
	if w.pid == 0 { // in a container, which has ceilings of its own
		return nil
	}
	t, ok := look(w.pid)
	if !ok {
		return nil
	}
	return w.judge(t, now)
}

func (w *watchdog) judge(t taken, now time.Time) error {
	if w.spec.MemoryLimit > 0 && t.memory > w.spec.MemoryLimit {
		return fmt.Errorf("the process was ended: it held %d MiB of memory, memoryLimit is %d MiB", t.memory>>20, w.spec.MemoryLimit>>20)
	}
	if t.threads > maxThreads {
		return fmt.Errorf("the process was ended: it had %d threads, %d is the most", t.threads, maxThreads)
	}
	if w.spec.CPULimit <= 0 {
		return nil
	}
	if w.began.IsZero() {
		w.began, w.cpu = now, t.cpu
		return nil
	}
	passed := now.Sub(w.began)
	if used := t.cpu - w.cpu; used.Seconds() > w.spec.CPULimit*w.window.Seconds() {
		return fmt.Errorf("the process was ended: it took %s of processor time within %s, cpuLimit is %g processors over %s",
			used.Round(time.Millisecond), passed.Round(time.Millisecond), w.spec.CPULimit, w.window)
	}
	if passed >= w.window {
		w.began, w.cpu = now, t.cpu
	}
	return nil
}
