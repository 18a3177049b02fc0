package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weir-project/weir/integration/harness"
)

// patience bounds every wait: it is many times what a healthy machine needs, and only
// keeps a fault from hanging the run.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	code := harness.Shared(m)
	if err := os.RemoveAll(packed.dir); err != nil {
		fmt.Fprintln(os.Stderr, "remove the packed function:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
