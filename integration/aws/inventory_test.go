package aws_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/inventory"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/aws/moto"
)

// What EC2 tells of its types gives the very labels and amounts that the embedded table has for them.
func TestInventoryAgreesWithTheTable(t *testing.T) {
	t.Parallel()
	for _, s := range standIns {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			inventoryAgrees(t, s.start(t))
		})
	}
}

func inventoryAgrees(t *testing.T, server standIn) {
	v := inventory.New(ec2.NewFromConfig(server.Config()), nil, catalogue.Embedded())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := v.ReadTypes(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := v.Table()
	if err != nil {
		t.Fatal(err)
	}
	both := 0
	differ := map[string]int{}
	example := map[string]string{}
	note := func(what, name string, want, have any) {
		if fmt.Sprint(want) != fmt.Sprint(have) {
			differ[what]++
			example[what] = fmt.Sprintf("%s: table %v, EC2 %v", name, want, have)
		}
	}
	for _, want := range catalogue.Embedded().Types {
		have := got.Get(want.Name)
		if have == nil {
			continue
		}
		both++
		note("vcpu", want.Name, want.VCPU, have.VCPU)
		note("memory", want.Name, want.MemoryMiB, have.MemoryMiB)
		note("arch", want.Name, want.Arch, have.Arch)
		note("metal", want.Name, want.BareMetal, have.BareMetal)
		note("eni", want.Name, want.ENI, have.ENI)
		for k, x := range want.Labels {
			note("label "+k, want.Name, x, have.Labels[k])
		}
		for k, x := range have.Labels {
			note("label "+k, want.Name, want.Labels[k], x)
		}
		for k, x := range want.Allocatable {
			if k != "cpu" && k != "memory" && k != "pods" && k != "ephemeral-storage" {
				note("resource "+k, want.Name, x, have.Allocatable[k])
			}
		}
	}
	if both < 900 {
		t.Errorf("%d types in common, want most of %d", both, len(catalogue.Embedded().Types))
	}
	delete(differ, "label instance-cpu-sustained-clock-speed-mhz") // the two are of different months, and the newest families differ
	for what, n := range differ {
		if n > both/100 {
			t.Errorf("%s differs for %d of %d types, such as %s", what, n, both, example[what])
		} else {
			t.Logf("%s differs for %d of %d types, such as %s", what, n, both, example[what])
		}
	}
	class := &model.NodeClass{Name: "default", Family: "AL2023", Zones: []string{moto.Region + "a"}}
	// The stand-in has spot prices of one region only, and they are made up: those are tested in core/cloud/aws/inventory.
	n := 0
	for _, o := range got.Offerings(class, []string{moto.Region + "a"}, catalogue.Options{Region: moto.Region}) {
		if o.Zone != moto.Region+"a" || o.Type.Labels[model.LabelRegion] != moto.Region {
			t.Fatalf("offering %+v", o)
		}
		n++
	}
	if n < 500 {
		t.Errorf("%d offerings in the zone", n)
	}
}
