package e2e

import (
	"os"
	"testing"

	"github.com/weir-project/weir/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Shared(m)) }
