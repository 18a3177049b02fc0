package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

func TestInstancesAreTaggedOnceTheirNodesHaveJoined(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(3))
	s.EC2.FailNext(sim.OpTag, 2, cloud.Throttled, "RequestLimitExceeded", "Request limit exceeded.")
	tagged := func() bool {
		if len(s.API.Claims) == 0 {
			return false
		}
		for _, c := range s.API.Claims {
			m, ok := s.EC2.Machine(model.InstanceID(c.ProviderID))
			if !ok || c.Annotations["karpenter.k8s.aws/tagged"] != "true" || c.Annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"] != "true" ||
				m.Tags[execute.TagName] != c.NodeName || c.NodeName == "" || m.Tags[execute.TagClaim] != c.Name || m.Tags[execute.TagLaunch] == "" {
				return false
			}
		}
		return true
	}
	if !s.Until(10*time.Minute, tagged) {
		t.Fatalf("claims %v are not all tagged", s.API.Claims)
	}
	before := s.EC2.Calls()[sim.OpTag]
	s.Run(10 * time.Minute)
	s.Restart()
	s.Run(10 * time.Minute)
	if after := s.EC2.Calls()[sim.OpTag]; after != before {
		t.Errorf("%d further calls although all tags are there", after-before)
	}
	v.check()
}

// Instances that EC2 refuses to tag keep no others from their tags, however many they are.
func TestInstancesThatCannotBeTaggedKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	p.Requirements = p.Requirements.With(require.Must(model.LabelInstanceType, "In", "m5.large"))
	s := newScene(t, nil, p)
	s.Workloads = append(s.Workloads, web(0))
	s.Run(5 * time.Second)
	refused := map[string]bool{} // the ten that come first
	s.current.sift = func(effects []execute.Effect) []execute.Effect {
		return slices.DeleteFunc(effects, func(e execute.Effect) bool {
			d, ok := e.Do.(execute.TagInstances)
			if !ok {
				return false
			}
			r := execute.Result{Effect: e}
			var done []string
			for id := range d.Tags {
				if refused[id] {
					r.Err = &cloud.Error{Op: sim.OpTag, Kind: cloud.Internal, Code: "TagLimitExceeded", Message: "no"}
				} else {
					done = append(done, id)
				}
			}
			if len(refused) > 0 {
				r.Value = done
			} else {
				r.Err = &cloud.Error{Op: sim.OpTag, Kind: cloud.Throttled, Code: "RequestLimitExceeded", Message: "no"}
			}
			s.current.in = append(s.current.in, r)
			return true
		})
	}
	s.Workloads[0].Replicas = 13
	mustRun(t, s, 13, 5*time.Minute)
	var ids []string
	for _, c := range s.API.Claims {
		ids = append(ids, model.InstanceID(c.ProviderID))
	}
	slices.Sort(ids)
	if len(ids) != 13 {
		t.Fatalf("%d machines, expected one a pod", len(ids))
	}
	for _, id := range ids[:10] {
		refused[id] = true
	}
	tagged := func() (n int) {
		for _, c := range s.API.Claims {
			if c.Annotations["karpenter.k8s.aws/tagged"] == "true" {
				n++
			}
		}
		return n
	}
	if !s.Until(30*time.Minute, func() bool { return tagged() == 3 }) {
		t.Errorf("%d of 3 instances have their tags", tagged())
	}
}
