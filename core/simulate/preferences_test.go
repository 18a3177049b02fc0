package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
)

func TestSchedulerHeedsPreferences(t *testing.T) {
	t.Parallel()
	web := model.Selector{ID: "app=web", Matches: func(p *model.Pod) bool { return p.Labels["app"] == "web" }}
	term := func(key string) []model.WeightedTerm {
		return []model.WeightedTerm{{Weight: 100, PodTerm: model.PodTerm{Key: key, Selector: web}}}
	}
	for name, tc := range map[string]struct {
		soft model.Soft
		want map[string]int // pods by node; a and b are in zone 1, c in zone 2
	}{
		"one a node as far as it goes": {model.Soft{AntiAffinity: term(model.LabelHostname)}, map[string]int{"a": 1, "b": 1, "c": 2}},
		"together":                     {model.Soft{Affinity: term(model.LabelHostname)}, map[string]int{"c": 4}},
		"even over zones":              {model.Soft{Spreads: []model.Spread{{Key: model.LabelZone, MaxSkew: 1, Selector: web}}}, map[string]int{"a": 1, "b": 1, "c": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bench(t)
			for _, n := range []struct {
				name, zone string
				cpu        int64
			}{{"a", "1", 9000}, {"b", "1", 9000}, {"c", "2", 10000}} {
				s.machine(n.name, n.cpu)
				s.api.editNode(n.name, func(x *model.Node) {
					x.Labels = map[string]string{model.LabelHostname: n.name, model.LabelZone: n.zone}
				})
			}
			pod := webPod()
			pod.Soft = &tc.soft
			if err := s.apply(&Input{Workloads: []*Workload{{Kind: "Deployment", Namespace: "default", Name: "web", Replicas: 4, Pod: pod}}}); err != nil {
				t.Fatal(err)
			}
			s.run(t, time.Minute)
			if d := cmp.Diff(tc.want, s.where()); d != "" {
				t.Errorf("pods by node (-want +got):\n%s", d)
			}
		})
	}
}

// What is bought for preferences is kept as long as somebody prefers it, given back
// afterwards, and never bought twice. Replicas that come later find room: kube-scheduler
// does not have them wait for the sake of a preference, so nothing is bought for them.
func TestPreferencesAreBoughtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ignore               bool
		bought, most, atLast int
	}{
		"Respect": {bought: 3, most: 3, atLast: 2},
		"Ignore":  {ignore: true, bought: 1, most: 1, atLast: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := load.Files([]string{demo + "/seed/ec2-node-class-default.yaml", "testdata/preferences.yaml"}, nil, load.Options{})
			if err != nil {
				t.Fatal(err)
			}
			opts := options(t)
			opts.Catalogue = few
			opts.Settings.Planning.IgnorePreferences = tc.ignore
			five, two := 5, 2
			r, err := Run(t.Context(), FromFiles(in), &Scenario{Name: "preferences", Seed: 5, Start: monday, End: 3 * time.Hour, Steps: []Step{
				{At: 40 * time.Minute, Scale: &ScaleStep{Workload: "default/web", Replicas: &five}},
				{At: 80 * time.Minute, Scale: &ScaleStep{Workload: "default/web", Replicas: &two}},
			}}, opts)
			if err != nil {
				t.Fatal(err)
			}
			most := 0
			for _, s := range r.Samples {
				most = max(most, s.Nodes)
			}
			if r.Totals.Nodes != tc.bought || most != tc.most || r.Final.Nodes != tc.atLast || r.Final.Pending != 0 || r.Final.Pods["default/web"] != 2 {
				t.Errorf("%d nodes bought, at most %d at a time, %d at the end; want %d, %d, %d; left: %+v", r.Totals.Nodes, most, r.Final.Nodes, tc.bought, tc.most, tc.atLast, r.Final)
				for _, b := range r.Bill {
					t.Logf("%s from %s to %s: %s", b.InstanceType+" "+b.Zone, b.Launched.Format("15:04:05"), b.Ended.Format("15:04:05"), b.EndReason)
				}
			}
		})
	}
}
