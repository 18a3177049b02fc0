package load_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/kube/load"
)

// The API server's own lists name the kind once, for all items: GET /api/v1/nodes.
func TestTypedListsOfEveryKind(t *testing.T) {
	t.Parallel()
	in, err := load.Files([]string{"-"}, strings.NewReader(`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}
{"kind":"CSINodeList","apiVersion":"storage.k8s.io/v1","items":[{"metadata":{"name":"a"},"spec":{"drivers":[{"name":"d","nodeID":"a","allocatable":{"count":3}}]}},{"metadata":{"name":"b"},"spec":{"drivers":[]}}]}
{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[{"metadata":{"name":"a","namespace":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}}]}`), load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Nodes) != 2 || in.Nodes[0].VolumeLimits["d"] != 3 || len(in.DaemonSets) != 1 {
		t.Errorf("%d nodes, limits %v, %d daemonsets", len(in.Nodes), in.Nodes[0].VolumeLimits, len(in.DaemonSets))
	}
}
