package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/weir-project/weir/integration/harness"
	"github.com/weir-project/weir/plugins/sdk"
)

// patience bounds every wait for what processes and the API server bring about. It is
// many times what a healthy machine needs, for a wait ends as soon as its condition
// holds: a limit only keeps a fault from hanging the run.
const patience = 5 * time.Minute

// nodeGrace is how late a heartbeat may come where machines die: nobody waits for it, as
// Node objects go with their machines.
const nodeGrace = 2 * time.Minute

// The shared cluster: nothing here waits for a node to turn NotReady, and nothing may
// fail because a heartbeat, or a Node object that no kubelet stands behind, came late.
func TestMain(m *testing.M) {
	if isStrategy() {
		sdk.Serve(&heldStrategy{})
		return
	}
	os.Exit(harness.Shared(m, harness.NodeMonitorGrace(patience), harness.ExtraArg(harness.ControllerManager, "--node-startup-grace-period=1h")))
}
