package strategy

import "runtime"

// stacks is the stacks of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
