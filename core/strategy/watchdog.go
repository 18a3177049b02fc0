package strategy

import (
	"fmt"
	"os"
	"time"
)

// lookEvery is how often the ceilings of a process are looked at.
const lookEvery = 200 * time.Millisecond

// watchdog holds what a process takes against its ceilings. The kernel's own limits
// are the second line: they bound what can be taken between two looks.
type watchdog struct {
	spec   Spec
	window time.Duration // of processor time
	dir    string        // its own folder, empty = none

	pid   int
	began time.Time     // of the window
	cpu   time.Duration // that it had taken then
}

func newWatchdog(spec Spec, window time.Duration, dir string) *watchdog {
	return &watchdog{spec: spec, window: window, dir: dir}
}

// begin says which process it is, and since when.
func (w *watchdog) begin(pid int, now time.Time) { w.pid, w.began = pid, now }

// look is an error if the process has to end, with the reason.
func (w *watchdog) look(now time.Time) error {
	t, ok := look(w.pid)
	if !ok {
		return nil
	}
	if err := w.judge(t, now); err != nil {
		return err
	}
	return w.folder()
}

// folder is an error if there is more in the process's own folder than it can need:
// files stay empty, and each takes a little of the machine all the same.
func (w *watchdog) folder() error {
	if w.dir == "" {
		return nil
	}
	dir, err := os.Open(w.dir)
	if err != nil {
		return nil // it is being removed
	}
	defer dir.Close()
	if names, _ := dir.Readdirnames(maxEntries + 1); len(names) > maxEntries {
		return fmt.Errorf("the process was ended: it had more than %d files in its folder", maxEntries)
	}
	return nil
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
