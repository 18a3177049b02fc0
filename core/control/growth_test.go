package control_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// holds counts the entries of every map and slice that can be reached from a value, by the fields on the way.
func holds(v any) map[string]int {
	out := map[string]int{}
	seen := map[[2]any]bool{}
	var walk func(path string, v reflect.Value, depth int)
	walk = func(path string, v reflect.Value, depth int) {
		if depth > 12 {
			return
		}
		switch v.Kind() {
		case reflect.Pointer, reflect.Map:
			if v.IsNil() || seen[[2]any{v.Pointer(), v.Type()}] {
				return
			}
			seen[[2]any{v.Pointer(), v.Type()}] = true
			if v.Kind() == reflect.Pointer {
				walk(path, v.Elem(), depth+1)
				return
			}
			out[path] += v.Len()
			for i := v.MapRange(); i.Next(); {
				walk(path+"[]", i.Value(), depth+1)
			}
		case reflect.Interface:
			if !v.IsNil() {
				walk(path, v.Elem(), depth+1)
			}
		case reflect.Slice:
			out[path] += v.Len()
			for i := range v.Len() {
				walk(path+"[]", v.Index(i), depth+1)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i), depth+1)
			}
		}
	}
	walk("", reflect.ValueOf(v), 0)
	return out
}

// Ten thousand claims that have come and gone leave nothing behind in the memory of the process, however they went: given back,
// ended from outside, interrupted, deleted by a person, refused by EC2, with calls that failed and answers that were lost, and
// with their pool and class.
func TestNothingGrowsWithTheClaimsThatHaveBeen(t *testing.T) {
	t.Parallel()
	rounds, each, atLeast := 48, 250, int64(10000)
	if testing.Short() {
		rounds, each, atLeast = 8, 40, 200
	}
	s := newScene(t, nil)
	// Ten machines in each round fail without a word: a person would be asked each time.
	s.settings.Brake = execute.Brake{Nodes: 1000, Share: 1, Window: 10 * time.Minute}
	w := &executetest.Workload{Name: "web", Requests: resource.New(7000, gib, 0, 0)} // one on each of the largest machines
	s.Workloads = append(s.Workloads, w)
	failed := 0
	s.Lose = func(_ int, e execute.Effect) error {
		if failed++; failed%97 == 0 && e.Kind() != "Plan" {
			return errors.New("the answer is lost")
		}
		return nil
	}
	var first map[string]int
	for round := range rounds {
		s.EC2 = sim.New(sim.Config{Seed: uint64(round), Now: s.Now, Cluster: executetest.Name, Catalogue: offerings})
		if round%12 == 2 { // seldom: what follows goes to larger machines, which are fewer
			s.EC2.FailNext(sim.OpLaunch, 2, cloud.Shortage, "InsufficientInstanceCapacity", "no")
		}
		s.EC2.FailNext(sim.OpTag, 3, cloud.Internal, "InternalError", "no")
		s.EC2.FailNext(sim.OpTerminate, 2, cloud.Internal, "InternalError", "no")
		name := fmt.Sprint("p", round)
		p := pool(name, model.Spot)
		p.Policy, p.ConsolidateAfter, p.NodeClass.Name = model.WhenEmpty, 0, name
		s.API.PutClass(&model.NodeClass{Name: name, UID: "uid-class-" + name, Family: "AL2023"})
		s.API.PutPool(p)
		w.Replicas = each
		if !s.Until(20*time.Minute, func() bool { return s.Running("web") == each }) {
			t.Fatalf("round %d: %d pods run; %d claims", round, s.Running("web"), len(s.API.Claims))
		}
		s.mishaps(t)
		w.Replicas = 0
		if !s.Until(20*time.Minute, func() bool { return len(s.API.Claims) == 0 && len(s.API.Nodes) == 0 && s.Machines() == 0 }) {
			t.Fatalf("round %d: %d claims, %d machines are left", round, len(s.API.Claims), s.Machines())
		}
		s.API.RemovePool(name)
		s.API.RemoveClass(name)
		s.EC2 = sim.New(sim.Config{Now: s.Now, Cluster: executetest.Name, Catalogue: offerings})
		s.Run(time.Minute)
		s.current.c.Settled()
		if round == 2 {
			s.Run(12 * time.Minute)
			first = holds(s.current.c)
		}
	}
	if n := s.current.c.Executor().Counters.Created; n < atLeast {
		t.Errorf("only %d claims were made", n)
	}
	s.Jump(25 * time.Hour) // notices are kept for a day
	s.Run(12 * time.Minute)
	last := holds(s.current.c)
	for _, path := range slices.Sorted(maps.Keys(last)) {
		if bound := max(first[path]+10, bounded[path]); last[path] > bound {
			t.Errorf("%s: %d entries after three rounds, %d in the end", path, first[path], last[path])
		}
	}
}

// bounded is what may grow up to a size of its own.
var bounded = map[string]int{
	".x.eventsAt": 20000, // events that are not told twice
	".x.ended":    50,    // garbage collections of the brake's window

	".x.Counters.Failed": 100, // kinds of effects, by what came of them
}

// mishaps befall some of the claims.
func (s *scene) mishaps(t *testing.T) {
	t.Helper()
	for i, name := range slices.Sorted(maps.Keys(s.API.Claims)) {
		c := s.API.Claims[name]
		id := model.InstanceID(c.ProviderID)
		var err error
		switch i % 25 {
		case 3:
			err = s.API.DeleteClaim(t.Context(), name, "")
		case 7:
			err = s.EC2.Fail(id)
		case 11:
			if err = s.EC2.Reclaim(id); err == nil {
				at := s.Now().Add(2 * time.Minute)
				s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{EventID: "e-" + name, Kind: model.NoticeSpot, InstanceID: id, Time: s.Now(), Deadline: &at, Action: "terminate"}})
			}
		case 13: // of an instance that nobody knows
			s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{EventID: "f-" + name, Kind: model.NoticeRebalance, InstanceID: id + "0", Time: s.Now()}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Run(10 * time.Second)
}
