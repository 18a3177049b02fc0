package main

import (
	"context"
	"testing"

	"github.com/weir-project/weir/integration/bench/measure"
	"github.com/weir-project/weir/integration/bench/workload"
)

// Both give back from a small half-empty cluster, and both leave a place for every pod.
func TestConsolidationOfASmallCluster(t *testing.T) {
	q := &measure.Question{Cluster: workload.Cluster{Nodes: 12, Fill: 0.4, Seed: 11}, Pool: "cmr-on-demand", Runs: 1, AnySaving: true}
	k, err := consolidateWithKarpenter(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	w, err := measure.Run(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Karpenter: %d decisions, %d nodes, %.2f > %.2f USD/h; Weir: %d nodes, %.2f > %.2f", k.Commands, k.Nodes, k.USDBefore, k.USD, w.Nodes, w.USDBefore, w.USD)
	if k.Pods != w.Pods || k.NodesBefore != 12 || w.NodesBefore != 12 || k.USDBefore < w.USDBefore-0.01 || k.USDBefore > w.USDBefore+0.01 {
		t.Errorf("not the same cluster: %+v and %+v", k, w)
	}
	if k.Commands == 0 || k.USD >= k.USDBefore || w.USD >= w.USDBefore {
		t.Errorf("nothing was saved: Karpenter %.2f > %.2f USD/h, Weir %.2f > %.2f", k.USDBefore, k.USD, w.USDBefore, w.USD)
	}
	if w.USD > k.USD {
		t.Errorf("Weir ends at %.2f USD/h, Karpenter at %.2f", w.USD, k.USD)
	}
}
