package workload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/integration/bench/workload"
)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func pods(t *testing.T, name string, shift uint64) []byte {
	t.Helper()
	ps, err := workload.Pods(name, shift)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := workload.WritePods(&b, ps); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The published workloads, byte by byte: figures of different programs can be compared
// only if the pods are the same.
func TestPublishedWorkloads(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "f6b15b3bc15c1dc0fbf3691f5cbced6a4cfa711d79a4167e0c9607c720905e2c",
		"b": "9574e0400b82eb515a5b8f2929df866a87aa534264dc89ffcf0296c158cc5bca",
		"c": "33cb1632c1e129f160c54f0ff4ed64e094ea1f487149d7da1b565845cfbe8854",
		"d": "ef470f7e5b091f8bce8bc4aaecb23cab4e851c4dff17fd7c6ad4b719b9fc20df",
		"e": "c3371cf14dd63d2c8f4a30ef8325d4faede990f68d72e58a346f5c8608ffdc67",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sum(pods(t, name, 0)); got != want {
				t.Errorf("SHA-256 of workload %s is %s, want %s", name, got, want)
			}
		})
	}
}

func TestShiftIsAnotherDraw(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"b", "c", "d", "e"} {
		if bytes.Equal(pods(t, name, 0), pods(t, name, 7)) {
			t.Errorf("workload %s is the same at shift 0 and 7", name)
		}
	}
}

func TestUnknownWorkload(t *testing.T) {
	t.Parallel()
	if _, err := workload.Pods("z", 0); err == nil || !strings.Contains(err.Error(), "a, b, c, d, e") {
		t.Errorf("got error %v, want one that names the workloads", err)
	}
}

func TestMixedGrowsFromTheSameDraw(t *testing.T) {
	t.Parallel()
	few, many := workload.Mixed(10, 4), workload.Mixed(1000, 4)
	for i := range few {
		if few[i].Request != many[i].Request {
			t.Fatalf("pod %d is %v of 10 and %v of 1000", i, few[i].Request, many[i].Request)
		}
	}
}

// Running clusters that were published, likewise.
func TestPublishedClusters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster workload.Cluster
		pods    int
		sum     string
	}{
		"plain": {workload.Cluster{Nodes: 100, Fill: 0.4, Seed: 11}, 1377, "f1ed9600dffa492004aa49a1796efcf5caef59612dc92411de055855b1821e98"},
		"hard":  {workload.Cluster{Nodes: 100, Fill: 0.4, Seed: 5, Hard: true}, 1365, "eeb79231bb7450472bf05efd7aa982016b89281fd50435a505e6f5c7d06364e9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := c.cluster.Draw(catalogue.Embedded())
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := r.Write(&b); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(b.Bytes()) {
				t.Error("not JSON")
			}
			if r.Pods != c.pods || sum(b.Bytes()) != c.sum {
				t.Errorf("%d pods, SHA-256 %s, want %d and %s", r.Pods, sum(b.Bytes()), c.pods, c.sum)
			}
		})
	}
}

func TestClusterThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]workload.Cluster{"negative": {Nodes: -1}, "over-full": {Nodes: 1, Fill: 1.5}} {
		if _, err := c.Draw(catalogue.Embedded()); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	small, err := catalogue.Load(strings.NewReader(`[{"name":"x1.small","vcpu":1,"memoryMiB":1024,"arch":"amd64","os":"linux","onDemandUSD":1,"eni":{"maxENIs":2,"defaultCardENIs":2,"networkCards":1,"ipv4PerENI":4},"labels":{},"allocatable":{"cpu":"900m","memory":"500Mi","pods":"8","ephemeral-storage":"17Gi"}}]`), "small")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (workload.Cluster{Nodes: 1}).Draw(small); err == nil {
		t.Error("a catalogue without the types of the cluster: got no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterThatFails(t *testing.T) {
	t.Parallel()
	if err := workload.WritePods(full{}, workload.Mixed(10, 1)); err == nil {
		t.Error("got no error")
	}
}
