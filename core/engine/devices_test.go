package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/require"
)

// TestDevices: pods that ask for devices or special interfaces get machines that have
// them, and the others do not land there for want of looking.
func TestDevices(t *testing.T) {
	t.Parallel()
	with := func(name string, n int64) func(*model.Pod) {
		return func(p *model.Pod) { p.Requests = p.Requests.With(name, n) }
	}
	od := mt.CapacityType(model.OnDemand)
	for _, c := range []struct {
		name    string
		pod     *model.Pod
		pool    *model.Pool
		class   *model.NodeClass // nil = AL2023
		want    string           // instance type, or the beginning of the message
		filters []model.Filter
	}{
		{name: "one GPU", pod: mt.Pod("p", 1000, 0, with("nvidia.com/gpu", 1)), pool: mt.Pool("p", od, own(model.LabelArch, require.In, "amd64")), want: "g4dn.xlarge"},
		{name: "eight GPUs", pod: mt.Pod("p", 1000, 0, with("nvidia.com/gpu", 8)), pool: mt.Pool("p", od, own("karpenter.k8s.aws/instance-gpu-name", require.In, "h100")), want: "p5.48xlarge"},
		{name: "a GPU of AMD", pod: mt.Pod("p", 1000, 0, with("amd.com/gpu", 1)), pool: mt.Pool("p", od), want: "g4ad.xlarge"},
		{name: "a Neuron device", pod: mt.Pod("p", 1000, 0, with("aws.amazon.com/neuron", 1)), pool: mt.Pool("p", od), want: "inf1.xlarge"},
		{name: "Neuron cores", pod: mt.Pod("p", 1000, 0, with("aws.amazon.com/neuroncore", 2)), pool: mt.Pool("p", od, own("karpenter.k8s.aws/instance-accelerator-name", require.In, "inferentia2")), want: "inf2.xlarge"},
		{name: "EFA", pod: mt.Pod("p", 1000, 0, with("vpc.amazonaws.com/efa", 1)), pool: mt.Pool("p", mt.Types("m5.large", "c5n.9xlarge", "c5n.18xlarge"), od), want: "c5n.9xlarge"},
		{name: "EFA interfaces that the node class names", pod: mt.Pod("p", 1000, 0, with("vpc.amazonaws.com/efa", 3)), pool: mt.Pool("p", mt.Types("p5.48xlarge"), od),
			class: &model.NodeClass{Family: "AL2023", Interfaces: model.Interfaces{Cards: 2, EFAOnly: 2}}, want: "needs 3 vpc.amazonaws.com/efa", filters: []model.Filter{model.FilterResources}},
		{name: "a security group of its own", pod: mt.Pod("p", 100, 0, with("vpc.amazonaws.com/pod-eni", 1)), pool: mt.Pool("p", mt.Types("t3.large", "m5.large"), od), want: "m5.large"},
		{name: "addresses of Windows", pod: mt.Pod("p", 100, 0, with("vpc.amazonaws.com/PrivateIPv4Address", 10), mt.Requires(own(model.LabelOS, require.In, "windows"))),
			pool: mt.Pool("p", mt.Types("m5.large", "m5.xlarge"), od), class: &model.NodeClass{Family: "Windows2022"}, want: "m5.xlarge"},
		{name: "a device that nothing has", pod: mt.Pod("p", 1000, 0, with("habana.ai/gaudi", 1)), pool: mt.Pool("p", mt.Types("m5.large"), od), want: "needs 1 habana.ai/gaudi", filters: []model.Filter{model.FilterResources}},
		{name: "more huge pages than none", pod: mt.Pod("p", 1000, 0, with("hugepages-2Mi", 4<<20)), pool: mt.Pool("p", mt.Types("m5.large"), od), want: "needs 4Mi hugepages-2Mi", filters: []model.Filter{model.FilterResources}},
		{name: "no device asked for", pod: mt.Pod("p", 3000, 0), pool: mt.Pool("p", mt.Types("g4dn.xlarge", "m5.24xlarge"), od), want: "m5.24xlarge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world([]*model.Pod{c.pod}, c.pool)
			if c.class != nil {
				c.class.Name = mt.Class
				w.Offerings[mt.Class] = catalogue.Embedded().Offerings(c.class, nil, catalogue.Options{})
			}
			r := place(t, w, nil)
			if c.filters == nil {
				if len(r.New) != 1 || r.New[0].Offering.Type.Name != c.want {
					t.Fatalf("bought %v, want %s; %+v", bought(r), c.want, r.Unplaced)
				}
				return
			}
			var filters []model.Filter
			for _, reason := range r.Unplaced[0].Reasons {
				filters = append(filters, reason.Filter)
			}
			if d := cmp.Diff(c.filters, filters); d != "" || !strings.HasPrefix(r.Unplaced[0].Reasons[0].Message, c.want) {
				t.Errorf("%s%s, want %s", d, r.Unplaced[0].Reasons[0].Message, c.want)
			}
		})
	}
}
