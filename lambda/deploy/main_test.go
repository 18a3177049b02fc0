package main

import (
	"os"
	"testing"
	"time"

	"github.com/weir-project/weir/integration/harness"
)

// patience bounds every wait: it is many times what a healthy machine needs, and only
// keeps a fault from hanging the run.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(harness.Shared(m)) }
