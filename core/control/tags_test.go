package control_test

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
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
