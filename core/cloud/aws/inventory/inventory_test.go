package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/inventory"
)

var now = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

// region is an EC2 that has some types, offered and priced as the test says; it answers in pages of one.
type region struct {
	types []types.InstanceTypeInfo
	zones map[string][]string
	spot  []types.SpotPrice
	fail  map[string]error
}

func ptr[T any](v T) *T { return &v }

// page answers one element and the token of the next.
func page[T any](all []T, token *string) (one []T, next *string) {
	i := 0
	if token != nil {
		if _, err := fmt.Sscan(*token, &i); err != nil {
			panic(err)
		}
	}
	if i >= len(all) {
		return nil, nil
	}
	if i+1 < len(all) {
		next = ptr(fmt.Sprint(i + 1))
	}
	return all[i : i+1], next
}

func (r *region) DescribeInstanceTypes(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	one, next := page(r.types, in.NextToken)
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: one, NextToken: next}, r.fail["DescribeInstanceTypes"]
}

func (r *region) DescribeInstanceTypeOfferings(_ context.Context, in *ec2.DescribeInstanceTypeOfferingsInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	var all []types.InstanceTypeOffering
	for name, zones := range r.zones {
		for _, z := range zones {
			all = append(all, types.InstanceTypeOffering{InstanceType: types.InstanceType(name), Location: &z})
		}
	}
	slices.SortFunc(all, func(a, b types.InstanceTypeOffering) int {
		return strings.Compare(string(a.InstanceType)+*a.Location, string(b.InstanceType)+*b.Location)
	})
	one, next := page(all, in.NextToken)
	return &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: one, NextToken: next}, r.fail["DescribeInstanceTypeOfferings"]
}

func (r *region) DescribeSpotPriceHistory(_ context.Context, in *ec2.DescribeSpotPriceHistoryInput, _ ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	one, next := page(r.spot, in.NextToken)
	return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: one, NextToken: next}, r.fail["DescribeSpotPriceHistory"]
}

type list struct {
	usd      map[string]float64
	currency string // empty = USD
	err      error
}

func (l *list) Currency() string { return orUSD(l.currency) }

func orUSD(s string) string {
	if s == "" {
		return "USD"
	}
	return s
}

func (l *list) OnDemand(context.Context) (map[string]float64, error) { return l.usd, l.err }

func info(name string) types.InstanceTypeInfo {
	return types.InstanceTypeInfo{
		InstanceType: types.InstanceType(name), VCpuInfo: &types.VCpuInfo{DefaultVCpus: ptr(int32(2))}, MemoryInfo: &types.MemoryInfo{SizeInMiB: ptr(int64(8192))},
		ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{"i386", "x86_64"}, Manufacturer: ptr("Intel"), SustainedClockSpeedInGhz: ptr(3.1)},
		NetworkInfo: &types.NetworkInfo{MaximumNetworkInterfaces: ptr(int32(3)), Ipv4AddressesPerInterface: ptr(int32(10)), DefaultNetworkCardIndex: ptr(int32(0)),
			NetworkCards: []types.NetworkCardInfo{{NetworkCardIndex: ptr(int32(0)), MaximumNetworkInterfaces: ptr(int32(3))}}, EncryptionInTransitSupported: ptr(true)},
		Hypervisor: "nitro",
	}
}

func spot(name, zone, usd string, at time.Time) types.SpotPrice {
	return types.SpotPrice{InstanceType: types.InstanceType(name), AvailabilityZone: &zone, SpotPrice: &usd, Timestamp: &at}
}

// offered is what the table sells, as type/zone/capacity price source.
func offered(t testing.TB, v *inventory.Inventory) []string {
	t.Helper()
	table, err := v.Table()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range table.Offerings(nil, []string{"z-a", "z-b"}, catalogue.Options{Region: "r"}) {
		out = append(out, fmt.Sprintf("%s %g %s", o.Key(), o.USDPerHour, o.PriceSource))
	}
	slices.Sort(out)
	return out
}

func same(t testing.TB, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// m5.large is in the embedded table at 0.096; new.large is not.
func start(t testing.TB) (*region, *list, *inventory.Inventory) {
	t.Helper()
	r := &region{types: []types.InstanceTypeInfo{info("m5.large"), info("new.large")}, zones: map[string][]string{"m5.large": {"z-a", "z-b"}, "new.large": {"z-a"}, "gone.large": {"z-a"}},
		fail: map[string]error{}}
	l := &list{}
	v := inventory.New(r, l, catalogue.Embedded())
	if err := v.ReadTypes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, l, v
}

// Each price comes from the best source there is, and says from which.
func TestPricesAndTheirSources(t *testing.T) {
	t.Parallel()
	r, l, v := start(t)
	same(t, "before the first answer spot costs what on-demand costs, and what has no price is not sold", []string{
		"m5.large/z-a/on-demand 0.096 embedded", "m5.large/z-a/spot 0.096 embedded", "m5.large/z-b/on-demand 0.096 embedded", "m5.large/z-b/spot 0.096 embedded",
	}, offered(t, v))

	l.usd = map[string]float64{"m5.large": 0.1, "new.large": 0.2}
	r.spot = []types.SpotPrice{spot("m5.large", "z-a", "0.0300", now.Add(-time.Hour)), spot("m5.large", "z-a", "0.0400", now), spot("m5.large", "z-a", "0.05", now.Add(-2*time.Hour))}
	if err := v.ReadPrices(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	after := []string{"m5.large/z-a/on-demand 0.1 list", "m5.large/z-a/spot 0.04 spot-history", "m5.large/z-b/on-demand 0.1 list", "new.large/z-a/on-demand 0.2 list"}
	same(t, "the newest spot price; no spot without one", after, offered(t, v))

	// an outage, an empty answer and nonsense keep what was known
	for name, change := range map[string]func(){
		"outage":   func() { r.fail["DescribeSpotPriceHistory"], l.err, l.usd = errors.New("away"), errors.New("away"), nil },
		"empty":    func() { r.fail, r.spot = map[string]error{}, nil },
		"nonsense": func() { r.spot = []types.SpotPrice{spot("m5.large", "z-a", "NaN", now)} },
		"free":     func() { r.spot = []types.SpotPrice{spot("m5.large", "z-a", "0", now)} },
	} {
		change()
		if err := v.ReadPrices(t.Context(), now); err == nil {
			t.Errorf("%s: no error", name)
		}
		same(t, name, after, offered(t, v))
	}
}

// Case B119: prices of China are in CNY; the embedded ones, in USD, never stand beside them.
func TestCurrenciesAreNotMixed(t *testing.T) {
	t.Parallel()
	_, l, v := start(t)
	l.currency = "CNY"
	same(t, "before prices are read", nil, offered(t, v))
	l.usd = map[string]float64{"new.large": 1.2}
	if err := v.ReadPrices(t.Context(), now); err == nil {
		t.Fatal("spot prices that are not there were read")
	}
	same(t, "afterwards", []string{"new.large/z-a/on-demand 1.2 list", "new.large/z-a/spot 1.2 list"}, offered(t, v))
}

func TestTypesStayThroughAnOutage(t *testing.T) {
	t.Parallel()
	r, _, v := start(t)
	before := offered(t, v)
	r.fail["DescribeInstanceTypes"] = errors.New("away")
	if err := v.ReadTypes(t.Context()); err == nil {
		t.Error("no error")
	}
	r.fail, r.types = map[string]error{}, nil
	if err := v.ReadTypes(t.Context()); err == nil {
		t.Error("an empty region is believed")
	}
	same(t, "after the outage", before, offered(t, v))
	if _, err := inventory.New(r, nil, catalogue.Embedded()).Table(); err == nil {
		t.Error("a table of nothing")
	}
}

func TestType(t *testing.T) {
	t.Parallel()
	gpu := info("x9-2tb.large")
	gpu.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Name: ptr("A10G Pro"), Manufacturer: ptr("NVIDIA"), Count: ptr(int32(4)), MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: ptr(int32(22888))}}}}
	gpu.NetworkInfo.EfaSupported, gpu.NetworkInfo.EfaInfo = ptr(true), &types.EfaInfo{MaximumEfaInterfaces: ptr(int32(2))}
	gpu.NetworkInfo.NetworkCards = append(gpu.NetworkInfo.NetworkCards, types.NetworkCardInfo{NetworkCardIndex: ptr(int32(1)), MaximumNetworkInterfaces: ptr(int32(9))})
	gpu.NetworkInfo.MaximumNetworkInterfaces, gpu.NetworkInfo.MaximumNetworkCards = ptr(int32(12)), ptr(int32(2))
	got, ok := inventory.Type(gpu, nil)
	if !ok {
		t.Fatal("not a type")
	}
	want := map[string]string{
		"instance-family": "x9-2tb", "instance-size": "large", "instance-category": "x", "instance-generation": "9", "instance-cpu": "2", "instance-memory": "8192", "instance-hypervisor": "nitro",
		"instance-capability-flex": "false", "instance-encryption-in-transit-supported": "true", "instance-cpu-manufacturer": "intel", "instance-cpu-sustained-clock-speed-mhz": "3100",
		"instance-gpu-name": "a10g-pro", "instance-gpu-manufacturer": "nvidia", "instance-gpu-count": "4", "instance-gpu-memory": "22888",
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "2"}, got.Allocatable); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if got.ENI.DefaultCard != 3 || got.ENI.Max != 12 || got.ENI.Cards != 2 {
		t.Errorf("interfaces %+v", got.ENI)
	}
	// of a type that says nothing of placement groups nothing is known; one that takes none says so
	if got.Placement != nil {
		t.Errorf("strategies of placement groups %v", got.Placement)
	}
	for _, strategies := range [][]types.PlacementGroupStrategy{{}, {"partition", "spread"}} {
		gpu.PlacementGroupInfo = &types.PlacementGroupInfo{SupportedStrategies: strategies}
		if got, _ := inventory.Type(gpu, nil); got.Placement == nil || len(got.Placement) != len(strategies) {
			t.Errorf("strategies of placement groups %v, EC2 says %v", got.Placement, strategies)
		}
	}
	// two kinds of GPUs have no label, yet both are counted
	gpu.GpuInfo.Gpus = append(gpu.GpuInfo.Gpus, types.GpuDeviceInfo{Name: ptr("B"), Manufacturer: ptr("NVIDIA"), Count: ptr(int32(1))})
	if got, _ := inventory.Type(gpu, nil); got.Labels["instance-gpu-name"] != "" || got.Allocatable["nvidia.com/gpu"] != "5" {
		t.Errorf("labels %v, resources %v", got.Labels, got.Allocatable)
	}
	mac := info("mac2.metal")
	mac.ProcessorInfo.SupportedArchitectures = []types.ArchitectureType{"arm64_mac"}
	if _, ok := inventory.Type(mac, nil); ok {
		t.Error("a Mac is taken for a node")
	}
	if _, ok := inventory.Type(types.InstanceTypeInfo{InstanceType: "empty.large"}, nil); ok {
		t.Error("a type without facts is taken")
	}
}
