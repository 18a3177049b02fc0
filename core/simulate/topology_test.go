package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

func TestSchedulerKeepsHardTopology(t *testing.T) {
	t.Parallel()
	web := model.Selector{ID: "app=web", Matches: func(p *model.Pod) bool { return p.Labels["app"] == "web" }}
	const zone = model.LabelZone
	for name, tc := range map[string]struct {
		topology model.Topology
		want     map[string]int // pods by node; a and b are in zone 1, c in zone 2
	}{
		"nothing asked":                  {model.Topology{}, map[string]int{"a": 2, "b": 2, "c": 2}},
		"one a node":                     {model.Topology{AntiAffinity: []model.PodTerm{{Key: model.LabelHostname, Selector: web}}}, map[string]int{"a": 1, "b": 1, "c": 1, "": 3}},
		"one a zone":                     {model.Topology{AntiAffinity: []model.PodTerm{{Key: zone, Selector: web}}}, map[string]int{"a": 1, "c": 1, "": 4}},
		"all in one zone, the first too": {model.Topology{Affinity: []model.PodTerm{{Key: zone, Selector: web}}}, map[string]int{"a": 3, "b": 3}},
		"even over zones":                {model.Topology{Spreads: []model.Spread{{Key: zone, MaxSkew: 1, Selector: web}}}, map[string]int{"a": 2, "b": 1, "c": 3}},
		"too few zones":                  {model.Topology{Spreads: []model.Spread{{Key: zone, MaxSkew: 1, MinDomains: 3, Selector: web}}}, map[string]int{"a": 1, "c": 1, "": 4}},
		"a port each":                    {model.Topology{HostPorts: []model.HostPort{{Protocol: "TCP", Port: 80}}}, map[string]int{"a": 1, "b": 1, "c": 1, "": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bench(t)
			for node, z := range map[string]string{"a": "1", "b": "1", "c": "2"} {
				s.machine(node, 9000)
				s.api.editNode(node, func(n *model.Node) { n.Labels = map[string]string{model.LabelHostname: node, zone: z} })
			}
			pod := webPod()
			pod.Topology = &tc.topology
			if err := s.apply(&Input{Workloads: []*Workload{{Kind: "Deployment", Namespace: "default", Name: "web", Replicas: 6, Pod: pod}}}); err != nil {
				t.Fatal(err)
			}
			s.run(t, time.Minute)
			if d := cmp.Diff(tc.want, s.where()); d != "" {
				t.Errorf("pods by node (-want +got):\n%s", d)
			}
		})
	}
}
