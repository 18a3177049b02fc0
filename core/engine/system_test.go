package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// TestOperatingSystemsAndArchitectures: pods for Windows go onto Windows machines and
// nothing else does, unless it has no other place; pods for arm64 go onto arm64.
func TestOperatingSystemsAndArchitectures(t *testing.T) {
	t.Parallel()
	os := func(v string) func(*model.Pod) { return mt.Requires(own(model.LabelOS, require.In, v)) }
	of := func(p *model.Pool, class string) *model.Pool {
		p.NodeClass.Name = class
		return p
	}
	od := mt.CapacityType(model.OnDemand)
	types := mt.Types("m5.large", "m5.xlarge", "m6g.large")
	linux := func() *model.Pool { return of(mt.Pool("linux", types, od), "linux") }
	// the names and weights are such that v1, and the price alone, would pick Windows
	windows := func() *model.Pool {
		p := of(mt.Pool("zz-windows", types, od), "windows")
		p.Weight = 100
		return p
	}
	build := func(v string) func(*model.Pod) { return mt.Requires(own(model.LabelWindowsBuild, require.In, v)) }
	for _, c := range []struct {
		name    string
		pods    []*model.Pod
		pools   []*model.Pool
		want    []string
		reasons []model.Filter
	}{
		{name: "Windows", pods: []*model.Pod{mt.Pod("w", 1000, 0, os("windows"))}, pools: []*model.Pool{linux(), windows()}, want: []string{"zz-windows m5.large"}},
		{name: "the build", pods: []*model.Pod{mt.Pod("w", 1000, 0, build("10.0.20348"))}, pools: []*model.Pool{linux(), windows()}, want: []string{"zz-windows m5.large"}},
		{name: "another build", pods: []*model.Pod{mt.Pod("w", 1000, 0, build("10.0.26100"))}, pools: []*model.Pool{linux(), windows()},
			reasons: []model.Filter{model.FilterRequirements, model.FilterRequirements}},
		{name: "Linux", pods: []*model.Pod{mt.Pod("l", 1000, 0, os("linux"))}, pools: []*model.Pool{linux(), windows()}, want: []string{"linux m6g.large"}},
		{name: "neither", pods: []*model.Pod{mt.Pod("n", 1000, 0)}, pools: []*model.Pool{linux(), windows()}, want: []string{"linux m6g.large"}},
		{name: "neither, and too large for Linux", pods: []*model.Pod{mt.Pod("n", 3000, 0)}, want: []string{"zz-windows m5.xlarge"},
			pools: []*model.Pool{of(mt.Pool("linux", mt.Types("m5.large"), od), "linux"), windows()}},
		{name: "neither, and there is Windows only", pods: []*model.Pod{mt.Pod("n", 1000, 0)}, pools: []*model.Pool{windows()}, want: []string{"zz-windows m5.large"}},
		{name: "Windows on arm64", pods: []*model.Pod{mt.Pod("w", 1000, 0, mt.Requires(own(model.LabelOS, require.In, "windows"), own(model.LabelArch, require.In, "arm64")))},
			pools: []*model.Pool{linux(), windows()}, reasons: []model.Filter{model.FilterOfferings, model.FilterRequirements}},
		{name: "arm64", pods: []*model.Pod{mt.Pod("a", 1000, 0, mt.Requires(own(model.LabelArch, require.In, "arm64")))}, pools: []*model.Pool{linux()}, want: []string{"linux m6g.large"}},
		{name: "amd64", pods: []*model.Pod{mt.Pod("a", 1000, 0, mt.Requires(own(model.LabelArch, require.In, "amd64")))}, pools: []*model.Pool{linux()}, want: []string{"linux m5.large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world(c.pods, c.pools...)
			for name, family := range map[string]string{"linux": "AL2023", "windows": "Windows2022"} {
				class := &model.NodeClass{Name: name, Family: family}
				w.NodeClasses[name] = class
				w.Offerings[name] = catalogue.Embedded().Offerings(class, nil, catalogue.Options{})
			}
			r := place(t, w, nil)
			if d := cmp.Diff(c.want, bought(r)); d != "" {
				t.Errorf("bought (-want +got):\n%s", d)
			}
			var filters []model.Filter
			for _, v := range r.Unplaced {
				for _, reason := range v.Reasons {
					filters = append(filters, reason.Filter)
				}
			}
			if d := cmp.Diff(c.reasons, filters); d != "" {
				t.Errorf("reasons (-want +got):\n%s", d)
			}
		})
	}
}

// TestZoneIDs: pods may ask for a zone by the name that it has in every account, where
// the node class says which zone that is.
func TestZoneIDs(t *testing.T) {
	t.Parallel()
	ask := mt.Requires(own(model.LabelZoneID, require.In, "use1-az6"))
	w := world(mt.Pods(1, "p", 1000, 0, ask), mt.Pool("p", mt.Types("m5.large"), mt.CapacityType(model.OnDemand)))
	if r := place(t, w, nil); len(r.New) != 0 || r.Unplaced[0].Reasons[0].Filter != model.FilterRequirements {
		t.Errorf("nobody said which zone that is: %v, %+v", bought(r), r.Unplaced)
	}
	class := w.NodeClasses[mt.Class]
	class.ZoneIDs = map[string]string{"us-east-1a": "use1-az4", "us-east-1b": "use1-az6"}
	w.Offerings[mt.Class] = catalogue.Embedded().Offerings(class, nil, catalogue.Options{})
	r := place(t, w, nil)
	if len(r.New) != 1 || r.New[0].Offering.Zone != "us-east-1b" || r.New[0].Labels[model.LabelZoneID] != "use1-az6" {
		t.Errorf("bought %v, %+v", r.New, r.Unplaced)
	}
}

// TestDaemonsOfNodesOnTheirWay: a machine that has not joined yet keeps the room of the
// daemon pods that will come, also of those that wait for its registration.
func TestDaemonsOfNodesOnTheirWay(t *testing.T) {
	t.Parallel()
	flying := func() *model.Node {
		n := mt.Node("n1", 2000, 8000, nil, mt.Managed("p"))
		n.Name, n.UID = "", ""
		delete(n.Labels, model.LabelRegistered)
		delete(n.Labels, model.LabelInitialized)
		n.Claim.Conditions = nil
		return n
	}
	late := mt.DaemonSet("late", 500, 0, mt.Requires(own(model.LabelRegistered, require.In, "true")))
	elsewhere := mt.DaemonSet("elsewhere", 500, 0, mt.Requires(own("rack", require.Exists)))
	for cpu, want := range map[int64]int{1500: 0, 1600: 1} { // new nodes
		w := world(mt.Pods(1, "a", cpu, 0), mt.Pool("p", mt.Types("m5.xlarge")))
		w.Nodes, w.DaemonSets = []*model.Node{flying()}, []*model.DaemonSet{late, elsewhere}
		if r := place(t, w, nil); len(r.New) != want || len(r.Unplaced) > 0 {
			t.Errorf("%dm beside 500m of daemon pods on 2000m: %d new nodes, want %d; %+v", cpu, len(r.New), want, r.Unplaced)
		}
	}
}
