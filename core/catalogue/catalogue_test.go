package catalogue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

func offering(t *testing.T, class *model.NodeClass, opts catalogue.Options, name string) *model.Offering {
	t.Helper()
	for _, o := range catalogue.Embedded().Offerings(class, nil, opts) {
		if o.Type.Name == name {
			return o
		}
	}
	t.Fatalf("no offering of %s", name)
	return nil
}

// TestAmountsMatchTheTable computes every type's allocatable from the raw facts and
// compares it with what the table states.
func TestAmountsMatchTheTable(t *testing.T) {
	t.Parallel()
	for _, o := range catalogue.Embedded().Offerings(nil, []string{"us-east-1a"}, catalogue.Options{}) {
		ty := catalogue.Embedded().Get(o.Type.Name)
		if computed := ty.Computed(); !computed.Equal(o.Type.Allocatable) {
			t.Errorf("%s: computed %s, the table says %s", ty.Name, computed, o.Type.Allocatable)
		}
		if got := o.Type.Allocatable.Get("pods"); resource.Format("pods", got) != ty.Allocatable["pods"] {
			t.Errorf("%s: %d pods, the table says %s", ty.Name, got, ty.Allocatable["pods"])
		}
	}
}

func TestCapacityRules(t *testing.T) {
	t.Parallel()
	m5large := int64(8192-615) << 20 // after 7.5% for the hypervisor
	for _, c := range []struct {
		name   string
		typ    string
		class  model.NodeClass
		opts   catalogue.Options
		memory int64 // allocatable, MiB
		pods   int64
	}{
		{name: "defaults", typ: "m5.large", memory: 6903, pods: 29},
		{name: "a soft threshold is not subtracted (B091)", typ: "m5.large", class: model.NodeClass{}, memory: 6903, pods: 29},
		{name: "hard threshold as a quantity (B091)", typ: "m5.large", class: model.NodeClass{EvictionMemory: "1Gi"}, memory: 6903 + 100 - 1024, pods: 29},
		{name: "threshold of 100% is off", typ: "m5.large", class: model.NodeClass{EvictionMemory: "100%"}, memory: 7003, pods: 29},
		{name: "maxPods on AL2023 does not change what is reserved (B092)", typ: "t3.large", class: model.NodeClass{Family: "AL2023", MaxPods: ptr.To(int32(10))}, memory: 6837, pods: 10},
		{name: "maxPods on Bottlerocket does (B092)", typ: "t3.large", class: model.NodeClass{Family: "Bottlerocket", MaxPods: ptr.To(int32(10))}, memory: 6837 + 640 - 365, pods: 10},
		{name: "maxPods on Windows does (B092)", typ: "t3.large", class: model.NodeClass{Family: "Windows2022", MaxPods: ptr.To(int32(10))}, memory: 6837 + 640 - 365, pods: 10},
		{name: "Custom reserves as AL2023 (B092)", typ: "t3.large", class: model.NodeClass{Family: "Custom", MaxPods: ptr.To(int32(10))}, memory: 6837, pods: 10},
		{name: "podsPerCore", typ: "m5.large", class: model.NodeClass{PodsPerCore: ptr.To(int32(4))}, memory: 6903, pods: 8},
		{name: "reserved interfaces", typ: "m5.large", opts: catalogue.Options{ReservedENIs: 1}, memory: 6903, pods: 20},
		{name: "prefix delegation, small (B094)", typ: "t3.small", opts: catalogue.Options{PrefixDelegation: true}, memory: 1418, pods: 110},
		{name: "prefix delegation (B094)", typ: "m5.large", opts: catalogue.Options{PrefixDelegation: true}, memory: 6903, pods: 110},
		{name: "prefix delegation, large (B094)", typ: "m5.8xlarge", opts: catalogue.Options{PrefixDelegation: true}, memory: 118312, pods: 250},
		{name: "few addresses even with prefixes", typ: "t3.nano", opts: catalogue.Options{PrefixDelegation: true, ReservedENIs: 1}, memory: 74, pods: 18},
		{name: "no interface left, prefixes or not", typ: "t3.nano", opts: catalogue.Options{PrefixDelegation: true, ReservedENIs: 2}, memory: 74, pods: 0},
		{name: "Xen machines have no prefixes", typ: "m4.large", opts: catalogue.Options{PrefixDelegation: true}, memory: 7002, pods: 20},
		{name: "prefixes are no matter of Windows", typ: "m5.large", class: model.NodeClass{Family: "Windows2022"}, opts: catalogue.Options{PrefixDelegation: true}, memory: 6903 - 11*(110-29), pods: 110},
		{name: "maxPods wins over prefixes", typ: "m5.large", class: model.NodeClass{MaxPods: ptr.To(int32(42))}, opts: catalogue.Options{PrefixDelegation: true}, memory: 6903, pods: 42},
		{name: "podsPerCore bounds prefixes", typ: "m5.large", class: model.NodeClass{PodsPerCore: ptr.To(int32(30))}, opts: catalogue.Options{PrefixDelegation: true}, memory: 6903, pods: 60},
		{name: "podsPerCore is not read by Bottlerocket", typ: "m5.large", class: model.NodeClass{Family: "Bottlerocket", PodsPerCore: ptr.To(int32(4))}, memory: 6903, pods: 29},
		{name: "EFA-only interfaces of the first card carry no pods", typ: "c5n.18xlarge", class: model.NodeClass{Interfaces: model.Interfaces{Cards: 1, EFAOnly: 1, EFAOnlyDefaultCard: 1}}, memory: 173400, pods: 688},
		{name: "no overhead", typ: "m5.large", opts: catalogue.Options{VMMemoryOverheadPercent: ptr.To(0.0)}, memory: 6903 + 615, pods: 29},
		{name: "learned memory (B095)", typ: "r6a.12xlarge", opts: catalogue.Options{LearnedMemory: map[string]int64{"r6a.12xlarge": 378000 << 20}}, memory: 378000 - (11*234 + 255) - 100, pods: 234},
		{name: "estimated memory (B095)", typ: "r6a.12xlarge", memory: 360795, pods: 234},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.class.Name = "x"
			if c.class.Family == "" {
				c.class.Family = "AL2023"
			}
			o := offering(t, &c.class, c.opts, c.typ)
			if got := o.Type.Allocatable.Base[resource.Memory] >> 20; got != c.memory {
				t.Errorf("allocatable memory %d MiB, want %d", got, c.memory)
			}
			if got := o.Type.Allocatable.Base[resource.Pods]; got != c.pods {
				t.Errorf("pods %d, want %d", got, c.pods)
			}
		})
	}
	percent := offering(t, &model.NodeClass{Family: "AL2023", EvictionMemory: "5%"}, catalogue.Options{}, "m5.large")
	want := m5large - 574<<20 - (m5large*5+99)/100
	if got := percent.Type.Allocatable.Base[resource.Memory]; got != want {
		t.Errorf("a threshold of 5%%: allocatable %d bytes, want %d", got, want)
	}
}

// TestExtendedResources: what each family of machines offers besides CPU and memory, and
// what node classes add to it.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	efa := model.NodeClass{Interfaces: model.Interfaces{Cards: 2, EFAOnly: 2, EFAOnlyDefaultCard: 1}}
	for _, c := range []struct {
		typ   string
		class model.NodeClass
		want  map[string]int64
		why   string // not available
	}{
		{typ: "g5.12xlarge", want: map[string]int64{"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 1}},
		{typ: "g4ad.xlarge", want: map[string]int64{"amd.com/gpu": 1, "vpc.amazonaws.com/pod-eni": 12, "nvidia.com/gpu": 0}},
		{typ: "inf2.xlarge", want: map[string]int64{"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 2}},
		{typ: "m5.large", want: map[string]int64{"vpc.amazonaws.com/pod-eni": 9, "vpc.amazonaws.com/PrivateIPv4Address": 0}},
		{typ: "t3.large", want: map[string]int64{"vpc.amazonaws.com/pod-eni": 0}},
		{typ: "m5.large", class: model.NodeClass{Family: "Windows2022"}, want: map[string]int64{"vpc.amazonaws.com/PrivateIPv4Address": 9, "pods": 110}},
		{typ: "m6g.large", class: model.NodeClass{Family: "Windows2022"}, why: "amd64 only"},
		{typ: "p5.48xlarge", want: map[string]int64{"vpc.amazonaws.com/efa": 32}},
		{typ: "p5.48xlarge", class: efa, want: map[string]int64{"vpc.amazonaws.com/efa": 2}},
		{typ: "c5n.18xlarge", class: efa, why: "interfaces on 2 network cards, the type has 1"},
		{typ: "m5.large", class: model.NodeClass{Interfaces: model.Interfaces{Cards: 1, EFAOnly: 1}}, why: "1 EFA interfaces, the type can have 0"},
	} {
		c.class.Name = "x"
		if c.class.Family == "" {
			c.class.Family = "AL2023"
		}
		o := offering(t, &c.class, catalogue.Options{}, c.typ)
		if o.Available != (c.why == "") || !strings.Contains(o.Unavailable, c.why) {
			t.Errorf("%s on %s: available %v (%s), want the reason %q", c.typ, c.class.Family, o.Available, o.Unavailable, c.why)
		}
		for name, n := range c.want {
			if got, cap := o.Type.Allocatable.Get(name), o.Type.Capacity.Get(name); got != n || cap != n {
				t.Errorf("%s on %s: %s %d of %d, want %d", c.typ, c.class.Family, name, got, cap, n)
			}
		}
	}
}

func TestOfferingsOfATableOfOnesOwn(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name":"x.1","arch":"amd64","onDemandUSD":1,"labels":{"instance-family":"x"},
		"allocatable":{"cpu":"3","memory":"7Gi","pods":"12"},
		"offerings":[{"zone":"z1","capacityType":"spot","usdPerHour":0.2},{"zone":"z2","capacityType":"spot","usdPerHour":0.1,"available":false},
		 {"zone":"z1","capacityType":"reserved","reservationId":"cr-1","count":2}]}]`), "own")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Key, Source, Why string
		Price            float64
		Available        bool
	}
	var got []row
	for _, o := range table.Offerings(nil, []string{"z1"}, catalogue.Options{}) {
		got = append(got, row{o.Key(), o.PriceSource, o.Unavailable, o.USDPerHour, o.Available})
		if a := o.Type.Allocatable; a.Base[resource.CPU] != 3000 || a.Base[resource.Memory] != 7<<30 || a.Base[resource.Pods] != 12 {
			t.Errorf("allocatable %s, want what the table states", a)
		}
	}
	want := []row{
		{"x.1/z1/spot", "catalogue", "", 0.2, true},
		{"x.1/z2/spot", "catalogue", "the catalogue says it is not available", 0.1, false},
		{"x.1/z1/reserved", "reserved", "", 1e-7, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadTables(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:     "expected a JSON array",
		`{}`:   "expected a JSON array",
		`[]`:   "holds no instance type",
		`[{}]`: "entry 0 (): name",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":-1}]`:                                                    "onDemandUSD",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":1},{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":1}]`: "twice",
		`[{"name":"a","onDemandUSD":1}]`:                                                                            "vcpu, memoryMiB",
		`[{"name":"a","onDemandUSD":1,"allocatable":{"cpu":"x"}}]`:                                                  "allocatable.cpu",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"offerings":[{"zone":"z","capacityType":"free"}]}]`:                    "capacityType",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":1e308}]`:                                                 "onDemandUSD: expected a price of 0 to 1e+06",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"offerings":[{"zone":"z","capacityType":"spot","usdPerHour":1e308}]}]`: "offerings[0].usdPerHour",
		`[{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":1}`:                                                      "does not end",
	} {
		if _, err := catalogue.Load(strings.NewReader(in), "file"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", in, err, want)
		}
	}
}

// An empty list replaces the default as any other does: there is nothing to be had.
func TestEmptyListOfOfferings(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name":"a","vcpu":1,"memoryMiB":1024,"onDemandUSD":1,"offerings":[]}]`), "file")
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Offerings(nil, nil, catalogue.Options{}); len(got) != 0 {
		t.Errorf("%d offerings, want none", len(got))
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(`[{"name":"a","vcpu":1,"memoryMiB":1,"onDemandUSD":1}]`)
	f.Fuzz(func(t *testing.T, in string) {
		table, err := catalogue.Load(strings.NewReader(in), "fuzz")
		if err != nil {
			return
		}
		for _, o := range table.Offerings(nil, nil, catalogue.Options{}) {
			for _, x := range o.Type.Allocatable.Base {
				if x < 0 {
					t.Fatalf("%s offers %s", o.Type.Name, o.Type.Allocatable)
				}
			}
		}
	})
}

// Case B122: what is paid for on-demand after a discount decides, not the list price, and the price says where it is from.
func TestADiscountMakesOnDemandCheaperThanSpot(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name":"m5d.12xlarge","vcpu":48,"memoryMiB":196608,"onDemandUSD":2.712,
		"offerings":[{"zone":"z-a","capacityType":"on-demand"},{"zone":"z-a","capacityType":"spot","usdPerHour":1.56}]}]`), "file")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*model.Offering{}
	for _, o := range table.Offerings(nil, []string{"z-a"}, catalogue.Options{OnDemandDiscount: 0.55}) {
		got[o.CapacityType] = o
	}
	od, spot := got[model.OnDemand], got[model.Spot]
	if d := od.USDPerHour - 1.4916; d > 1e-9 || d < -1e-9 || od.USDPerHour >= spot.USDPerHour || od.PriceSource != "override x0.55" || spot.USDPerHour != 1.56 {
		t.Errorf("on-demand %g (%s), spot %g (%s)", od.USDPerHour, od.PriceSource, spot.USDPerHour, spot.PriceSource)
	}
}

// Case B121: a type without a price is not sold at a guess.
func TestAnUnknownPriceIsUnknown(t *testing.T) {
	t.Parallel()
	table, err := catalogue.Load(strings.NewReader(`[{"name":"zz9.huge","vcpu":2,"memoryMiB":4096,"offerings":[{"zone":"z-a","capacityType":"on-demand"},{"zone":"z-a","capacityType":"spot"}]}]`), "file")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range table.Offerings(nil, []string{"z-a"}, catalogue.Options{}) {
		if o.Available || o.PriceSource != "unknown" || o.USDPerHour != 0 || o.Unavailable != "its price is not known" {
			t.Errorf("%s: available %t, %g (%s): %s", o.Key(), o.Available, o.USDPerHour, o.PriceSource, o.Unavailable)
		}
	}
}
