package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// boughtTypes counts the machines that were ever bought, by type.
func (s *scene) boughtTypes() map[string]int {
	out := map[string]int{}
	for _, m := range s.EC2.Machines() {
		out[m.Type]++
	}
	return out
}

// keeps has machines of a type report less than they were bought for.
func keeps(instanceType string, capacity, allocatable resource.Vector) func(*model.Node) {
	return func(n *model.Node) {
		if n.Labels[model.LabelInstanceType] == instanceType {
			n.Capacity, n.Allocatable = n.Capacity.Sub(capacity), n.Allocatable.Sub(capacity).Sub(allocatable)
		}
	}
}

// Promise: the same misfit never happens twice. A pod that does not fit on the machine that
// was bought for it gets a larger one, and neither it nor the next of its kind gets the same again.
func TestAPodThatDidNotFitIsNotPlannedOntoTheSameTypeAgain(t *testing.T) {
	t.Parallel()
	for name, less := range map[string]struct{ capacity, allocatable resource.Vector }{
		"less memory than estimated":          {resource.New(0, gib, 0, 0), resource.Vector{}},
		"the image keeps more CPU for itself": {resource.Vector{}, resource.New(500, 0, 0, 0)},
		"both":                                {resource.New(0, gib, 0, 0), resource.New(500, 0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := mem.New()
			s := newScene(t, store, pool("default", model.OnDemand))
			s.Joins = keeps("m5.large", less.capacity, less.allocatable)
			// To the byte what an m5.large should leave for pods.
			w := &executetest.Workload{Name: "web", Replicas: 1, Requests: resource.New(1850, 7*gib, 0, 0)}
			s.Workloads = append(s.Workloads, w)
			mustRun(t, s, 1, 5*time.Minute)
			if n := s.boughtTypes()["m5.large"]; n != 1 {
				t.Fatalf("%d machines of the type that does not fit were bought for the first pod, want the one that taught it: %v", n, s.boughtTypes())
			}
			if !s.hasEvent("LessAllocatable", "m5.large/") {
				t.Errorf("no event tells of the misfit: %v", s.API.Events)
			}
			w.Replicas = 4
			mustRun(t, s, 4, 5*time.Minute)
			if n := s.boughtTypes()["m5.large"]; n != 1 {
				t.Errorf("%d machines of the type that does not fit: %v", n, s.boughtTypes())
			}
			records, err := ledger.Capacities(t.Context(), store, executetest.Name, s.Now())
			if err != nil {
				t.Fatal(err)
			}
			for key, r := range records {
				if strings.HasPrefix(key, "m5.large/") && r.Memory != 8*gib-less.capacity.Base[resource.Memory] {
					t.Errorf("%s: %d bytes of memory are remembered", key, r.Memory)
				}
			}

			// A leader that finds no machine any more still knows it.
			w.Replicas = 0
			if !s.Until(15*time.Minute, func() bool { return s.Machines() == 0 && len(s.API.Claims) == 0 }) {
				t.Fatal("not everything was given back")
			}
			s.Restart()
			w.Replicas = 2
			mustRun(t, s, 2, 5*time.Minute)
			if n := s.boughtTypes()["m5.large"]; n != 1 {
				t.Errorf("after a restart: %v", s.boughtTypes())
			}
		})
	}
}

// Where the ledger has lost it, the nodes that run teach a new leader again.
func TestNodesThatRunTeachANewLeader(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.Joins = keeps("m5.large", resource.New(0, gib, 0, 0), resource.Vector{})
	small := &executetest.Workload{Name: "small", Replicas: 1, Requests: resource.New(1500, gib, 0, 0)}
	s.Workloads = append(s.Workloads, small)
	if !s.Until(3*time.Minute, func() bool { return s.Running("small") == 1 }) {
		t.Fatal("the small pod does not run")
	}
	s.Ledger = mem.New()
	s.Restart()
	s.Workloads = append(s.Workloads, &executetest.Workload{Name: "web", Replicas: 1, Requests: resource.New(1850, 7*gib, 0, 0)})
	mustRun(t, s, 1, 5*time.Minute)
	if got := s.boughtTypes(); got["m5.large"] != 1 {
		t.Errorf("bought %v", got)
	}
}

// A node that has more than was thought is planned with as well: the next pod gets the machine that it really fits on.
func TestMoreThanEstimatedIsUsed(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.Joins = func(n *model.Node) {
		if n.Labels[model.LabelInstanceType] == "m5.large" {
			n.Capacity, n.Allocatable = n.Capacity.Add(resource.New(0, gib/2, 0, 0)), n.Allocatable.Add(resource.New(0, gib/2, 0, 0))
		}
	}
	s.Workloads = append(s.Workloads, &executetest.Workload{Name: "small", Replicas: 1, Requests: resource.New(1500, gib, 0, 0)})
	if !s.Until(3*time.Minute, func() bool { return s.Running("small") == 1 }) {
		t.Fatal("the small pod does not run")
	}
	s.Workloads = append(s.Workloads, &executetest.Workload{Name: "web", Replicas: 1, Requests: resource.New(1850, 7*gib+gib/4, 0, 0)})
	mustRun(t, s, 1, 5*time.Minute)
	if got := s.boughtTypes(); got["m5.large"] != 2 {
		t.Errorf("bought %v", got)
	}
}

// One machine that reports next to no memory is told of and does not change what the type is planned with: not at once, not
// after a restart, and not in the ledger. A second one does.
func TestOneNodeWithoutMemoryIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]int{"one": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := mem.New()
			s := newScene(t, store, pool("default", model.OnDemand))
			joined := 0
			s.Joins = func(n *model.Node) {
				if joined++; joined <= broken && n.Labels[model.LabelInstanceType] == "m5.large" {
					n.Capacity.Base[resource.Memory], n.Allocatable.Base[resource.Memory] = gib/2, gib/8
				}
			}
			s.Workloads = append(s.Workloads, &executetest.Workload{Name: "web", Replicas: 1, Requests: resource.New(1500, 4*gib, 0, 0)})
			mustRun(t, s, 1, 5*time.Minute)
			want := map[string]int{"m5.large": 2}
			if broken == 2 {
				want = map[string]int{"m5.large": 2, "m5.xlarge": 1}
			}
			if diff := cmp.Diff(want, s.boughtTypes()); diff != "" {
				t.Errorf("bought (-want +got):\n%s", diff)
			}
			if !s.hasEvent("ImplausibleMemory", "m5.large/") {
				t.Errorf("no event tells of it: %v", s.API.Events)
			}
			if told := s.hasEvent("LessAllocatable", "m5.large/"); told != (broken == 2) {
				t.Errorf("an event tells that the type is planned with less: %t", told)
			}
			s.Run(10 * time.Second)
			records, err := ledger.Capacities(t.Context(), store, executetest.Name, s.Now())
			if err != nil || len(records) == 0 {
				t.Fatalf("records %v, %v", records, err)
			}
			for key, r := range records {
				if believed := r.Memory == gib/2; strings.HasPrefix(key, "m5.large/") && believed != (broken == 2) {
					t.Errorf("%s: remembered is %+v", key, r)
				}
			}
			s.Restart()
			s.Workloads[0].Replicas = 2
			mustRun(t, s, 2, 5*time.Minute)
			if got := s.boughtTypes(); broken == 1 && got["m5.large"] != 3 || broken == 2 && got["m5.large"] != 2 {
				t.Errorf("after a restart: %v", s.boughtTypes())
			}
		})
	}
}
