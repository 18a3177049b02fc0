package execute

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/model"
)

// A pod whose eviction is still being asked for is not asked for again: its answer would be counted once, its question twice.
func TestGateCountsAQuestionOnce(t *testing.T) {
	t.Parallel()
	m := cluster.New(cluster.Options{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	x := New(Config{Cluster: "c"}, m)
	x.Reset(1)
	b := &model.PDB{Namespace: "d", Name: "web", DisruptionsAllowed: 5, Selects: func(map[string]string) bool { return true }}
	m.Apply(cluster.UpsertPDB{PDB: b}, now)
	p := &model.Pod{UID: "u", Namespace: "d", Name: "p", Ready: true}
	x.now = now
	for _, urgent := range []bool{false, true} {
		ask := x.admits("c1", urgent)
		if ok, _ := ask(p); !ok {
			t.Fatal("not admitted")
		}
		x.now = x.now.Add(drain.MaxBackoff + time.Second) // no answer yet
		if ok, _ := ask(p); ok {
			x.notAsked(p) // x.do says that it is in flight
		}
		x.gateAnswered(p, drain.Accepted)
		if g := x.gates["d/web"]; g.asking != 0 {
			t.Errorf("urgent %v: asking %d for ever", urgent, g.asking)
			g.asking = 0
		}
	}
}
