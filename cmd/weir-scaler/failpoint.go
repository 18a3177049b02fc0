package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/weir-project/weir/core/execute"
)

// Failpoints kill this process with SIGKILL before or after an effect, for the tests
// that show that a death anywhere is harmless:
//
//	WEIR_FAILPOINT=SendLaunch:before,Terminate:after
type failpoints map[string]bool

func parseFailpoints(text string) (failpoints, error) {
	if text == "" {
		return nil, nil
	}
	out := failpoints{}
	for _, part := range strings.Split(text, ",") {
		kind, when, ok := strings.Cut(part, ":")
		if !ok || kind == "" || when != "before" && when != "after" {
			return nil, fmt.Errorf("WEIR_FAILPOINT %q: expected <effect kind>:before or <effect kind>:after, separated by commas", part)
		}
		out[kind+":"+when] = true
	}
	return out, nil
}

// hit does not return where the failpoint is set.
func (f failpoints) hit(e execute.Effect, when string) {
	if f == nil || !f[e.Kind()+":"+when] {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
