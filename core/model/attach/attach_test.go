package attach_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/model/resource"
)

// TestSlots compares the formula with types of each sort.
func TestSlots(t *testing.T) {
	t.Parallel()
	got := map[string]int64{}
	for _, o := range catalogue.Embedded().Offerings(nil, []string{"us-east-1a"}, catalogue.Options{}) {
		n, ok := attach.Slots(o.Type.Labels)
		if !ok || n < 1 {
			t.Errorf("%s: %d, %t", o.Type.Name, n, ok)
		}
		got[o.Type.Name] = n
	}
	for name, want := range map[string]int64{
		"m5.large": 25, "t3.micro": 25, "m7i.48xlarge": 25, "m5.metal": 25, // nothing but root and interfaces
		"m5d.large": 24, "m5d.24xlarge": 19, "i3en.24xlarge": 17, // local disks
		"g4dn.xlarge": 23, "g5.48xlarge": 9, "d3.8xlarge": 1, // GPUs, many disks
		"m4.large": 39, "t2.small": 39, // Xen
	} {
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
	if _, ok := attach.Slots(map[string]string{model.LabelInstanceType: "m5.large"}); ok {
		t.Error("a type without labels tells nothing")
	}
}

func TestStrip(t *testing.T) {
	t.Parallel()
	v := resource.New(1, 2, 3, 0).With("nvidia.com/gpu", 1).With(attach.Resource(attach.EBS), 4).With(attach.Resource("x"), 5)
	if got := attach.Strip(v); !got.Equal(resource.New(1, 2, 3, 0).With("nvidia.com/gpu", 1)) || v.Get(attach.Resource("x")) != 5 {
		t.Errorf("%v of %v", got, v)
	}
	if got := attach.Strip(resource.New(1, 0, 0, 0).With(attach.Resource("x"), 1)); got.Ext != nil {
		t.Errorf("%+v", got)
	}
}

func TestKnownKeepsTheLeast(t *testing.T) {
	t.Parallel()
	k := attach.Known{}
	for _, s := range []struct {
		n    int64
		want bool
	}{{25, true}, {26, false}, {25, false}, {24, true}} {
		if got := k.Note("m5.large", map[string]int64{attach.EBS: s.n}); got != s.want {
			t.Errorf("%d: %t", s.n, got)
		}
	}
	if k.Note("", map[string]int64{attach.EBS: 1}) || k["m5.large"][attach.EBS] != 24 {
		t.Errorf("%v", k)
	}
}

// TestWorldWithoutVolumesStays: whoever has no volumes pays nothing.
func TestWorldWithoutVolumesStays(t *testing.T) {
	t.Parallel()
	n := mt.Node("n", 1000, 1000, nil, func(n *model.Node) { n.VolumeLimits = map[string]int64{attach.EBS: 3} })
	off := []*model.Offering{{Type: &model.InstanceType{Name: "m5.large"}, Zone: "a"}, {Type: &model.InstanceType{Name: "m5.large"}, Zone: "b"}}
	off[1].Type = off[0].Type
	w := &model.World{Nodes: []*model.Node{n}, Pods: mt.Pods(1, "p", 1, 1), Offerings: map[string][]*model.Offering{"c": off}}
	attach.World(w)
	if w.Nodes[0] != n || w.Offerings["c"][0] != off[0] {
		t.Error("copied for nothing")
	}
	w.Pods[0].Requests = w.Pods[0].Requests.With(attach.Resource(attach.EBS), 1).With(attach.Resource("x"), 1)
	attach.World(w)
	list := w.Offerings["c"]
	if list[0].Type != list[1].Type || list[0].Type == off[0].Type || off[0].Type.Allocatable.Get(attach.Resource("x")) != 0 || n.Allocatable.Get(attach.Resource("x")) != 0 {
		t.Error("types are copied once, the old ones left alone")
	}
	got := map[string]int64{"node ebs": w.Nodes[0].Allocatable.Get(attach.Resource(attach.EBS)), "node x": w.Nodes[0].Allocatable.Get(attach.Resource("x")), "new x": list[1].Type.Allocatable.Get(attach.Resource("x"))}
	if d := cmp.Diff(map[string]int64{"node ebs": 3, "node x": attach.Unlimited, "new x": attach.Unlimited}, got); d != "" {
		t.Error(d)
	}
}
