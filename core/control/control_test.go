package control_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

func web(replicas int) *executetest.Workload {
	return &executetest.Workload{Name: "web", Replicas: replicas, Requests: resource.New(1500, 2*gib, 0, 0)}
}

func TestPodsGetNodesAndNodesGoAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	v := watch(t, s)
	w := web(6)
	s.Workloads = append(s.Workloads, w)
	if !s.Until(3*time.Minute, func() bool { return s.Running("web") == 6 }) {
		t.Fatalf("only %d of 6 pods run; claims %v", s.Running("web"), s.API.Claims)
	}
	for name, c := range s.API.Claims {
		if !s.Until(time.Minute, func() bool {
			return s.API.Claims[name].Is(model.CondInitialized) && s.API.Claims[name].Is(model.CondReady)
		}) {
			t.Errorf("claim %s is not ready: %+v", name, s.API.Claims[name].Conditions)
		}
		n := s.API.Nodes[s.API.Claims[name].NodeName]
		if n == nil || n.Labels[model.LabelInstanceID] != model.InstanceID(s.API.Claims[name].ProviderID) || n.Labels["team"] != "a" || s.API.Owner[n.Name] != c.UID {
			t.Errorf("node of claim %s was not taken over: %+v", name, n)
		}
	}
	w.Replicas = 0
	if !s.Until(10*time.Minute, func() bool { return s.Machines() == 0 && len(s.API.Claims) == 0 && len(s.API.Nodes) == 0 }) {
		t.Fatalf("nodes were not given back: %d machines, claims %v, nodes %v", s.Machines(), s.API.Claims, s.API.Nodes)
	}
	v.check()
}
