package aws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/cloud"
	aws "github.com/weir-project/weir/core/cloud/aws"
	"github.com/weir-project/weir/core/cloud/aws/render"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

// region answers with the types and zones it is given, and with one answer to fleets.
type region struct {
	aws.EC2 // whatever else is called is not expected
	names   []string
	zones   []string
	fleet   func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error)
}

func ptr[T any](v T) *T { return &v }

func (r *region) DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	out := &ec2.DescribeInstanceTypesOutput{}
	for _, n := range r.names {
		out.InstanceTypes = append(out.InstanceTypes, types.InstanceTypeInfo{
			InstanceType: types.InstanceType(n), VCpuInfo: &types.VCpuInfo{DefaultVCpus: ptr(int32(2))}, MemoryInfo: &types.MemoryInfo{SizeInMiB: ptr(int64(8192))},
			ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{"x86_64"}},
			NetworkInfo: &types.NetworkInfo{MaximumNetworkInterfaces: ptr(int32(3)), Ipv4AddressesPerInterface: ptr(int32(10)), DefaultNetworkCardIndex: ptr(int32(0)),
				NetworkCards: []types.NetworkCardInfo{{NetworkCardIndex: ptr(int32(0)), MaximumNetworkInterfaces: ptr(int32(3))}}},
			SupportedUsageClasses: []types.UsageClassType{"on-demand", "spot"},
		})
	}
	return out, nil
}

func (r *region) DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	out := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for _, n := range r.names {
		for _, z := range r.zones {
			out.InstanceTypeOfferings = append(out.InstanceTypeOfferings, types.InstanceTypeOffering{InstanceType: types.InstanceType(n), Location: &z})
		}
	}
	return out, nil
}

func (r *region) DescribeSpotPriceHistory(context.Context, *ec2.DescribeSpotPriceHistoryInput, ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	out := &ec2.DescribeSpotPriceHistoryOutput{}
	for _, n := range r.names {
		for _, z := range r.zones {
			out.SpotPriceHistory = append(out.SpotPriceHistory, types.SpotPrice{InstanceType: types.InstanceType(n), AvailabilityZone: &z, SpotPrice: ptr("0.03"), Timestamp: ptr(time.Unix(0, 0))})
		}
	}
	return out, nil
}

func (r *region) DescribeLaunchTemplates(_ context.Context, in *ec2.DescribeLaunchTemplatesInput, _ ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	out := &ec2.DescribeLaunchTemplatesOutput{}
	for _, n := range in.LaunchTemplateNames {
		out.LaunchTemplates = append(out.LaunchTemplates, types.LaunchTemplate{LaunchTemplateName: &n})
	}
	return out, nil
}

func (r *region) CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error) {
	return &ec2.CreateLaunchTemplateOutput{}, nil
}

func (r *region) CreateFleet(_ context.Context, in *ec2.CreateFleetInput, _ ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	return r.fleet(in)
}

type prices map[string]float64

func (p prices) OnDemand(context.Context) (map[string]float64, error) { return p, nil }
func (p prices) Currency() string                                     { return "USD" }

// scene is a provider with one class of the given subnets, id/zone, and what is free in them.
type scene struct {
	*aws.Provider
	r     *region
	class *awsv1.EC2NodeClass
	now   time.Time
}

func newScene(t testing.TB, names []string, free map[string]int, subnets ...string) *scene {
	t.Helper()
	s := &scene{r: &region{names: names}, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	list := prices{}
	for i, n := range names {
		list[n] = 0.1 + float64(i)/1000
	}
	s.class = &awsv1.EC2NodeClass{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"default","generation":1},"spec":{"amiSelectorTerms":[{"alias":"al2023@latest"}],"role":"node"},
		"status":{"amis":[{"id":"ami-1","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]}]}],"securityGroups":[{"id":"sg-1"}],
		"instanceProfile":"p","conditions":[{"type":"Ready","status":"True","observedGeneration":1,"reason":"Ready","message":"","lastTransitionTime":null}]}}`), s.class); err != nil {
		t.Fatal(err)
	}
	for _, x := range subnets {
		id, zone, _ := strings.Cut(x, "/")
		s.class.Status.Subnets = append(s.class.Status.Subnets, awsv1.Subnet{ID: id, Zone: zone})
		if !slices.Contains(s.r.zones, zone) {
			s.r.zones = append(s.r.zones, zone)
		}
	}
	s.Provider = aws.New(aws.Config{
		Region: "eu-west-1", Cluster: userdata.Cluster{Name: "prod", Endpoint: "https://x", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16"}, Reservations: true,
		Now: func() time.Time { return s.now },
	}, s.r, list)
	if err := s.Refresh(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	s.SetClass(s.class, free)
	return s
}

// offers is what can be bought now, with why not, by offering key.
func (s *scene) offers(t testing.TB) map[string]*model.Offering {
	t.Helper()
	list, err := s.Offerings(t.Context(), &model.NodeClass{Name: "default", Family: "AL2023", Reservations: s.reservations()})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*model.Offering{}
	for _, o := range list {
		out[o.Key()] = o
	}
	return out
}

func (s *scene) reservations() (out []model.Reservation) {
	for _, r := range s.class.Status.CapacityReservations {
		out = append(out, model.Reservation{ID: r.ID, InstanceType: r.InstanceType, Zone: r.AvailabilityZone, Type: "default"})
	}
	return out
}

// launch renders and sends a launch of one claim; it answers the subnets that were named, in order.
func (s *scene) launch(t testing.TB, capacity string, offers ...cloud.Offer) ([]string, cloud.Answer, error) {
	t.Helper()
	s.offers(t)
	b, err := s.Render(t.Context(), cloud.Launch{ID: "l", Claims: []string{"c"}, Pool: "p", NodeClass: "default", CapacityType: capacity, Offers: offers,
		Tags: map[string]string{"eks:eks-cluster-name": "prod"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := render.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var subnets []string
	for _, c := range r.Fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			subnets = append(subnets, *o.SubnetId)
		}
	}
	a, err := s.Launch(t.Context(), "token", b)
	return subnets, a, err
}

// refuse answers every line of a fleet with a code.
func refuse(code string) func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	return func(in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
		out := &ec2.CreateFleetOutput{}
		for _, c := range in.LaunchTemplateConfigs {
			for _, o := range c.Overrides {
				out.Errors = append(out.Errors, types.CreateFleetError{ErrorCode: &code, ErrorMessage: ptr("no"), LaunchTemplateAndOverrides: &types.LaunchTemplateAndOverridesResponse{
					Overrides: &types.FleetLaunchTemplateOverrides{InstanceType: o.InstanceType, AvailabilityZone: o.AvailabilityZone, SubnetId: o.SubnetId}}})
			}
		}
		return out, nil
	}
}

// Case B079: an error about a subnet is one about the subnet; a count that EC2 has not brought up to date does not open it.
func TestAFullSubnetIsNoFullZone(t *testing.T) {
	t.Parallel()
	s := newScene(t, []string{"m5.large"}, map[string]int{"s1": 300, "s2": 200, "s3": 50}, "s1/z-a", "s2/z-a", "s3/z-b")
	offer := cloud.Offer{InstanceType: "m5.large", Zone: "z-a"}
	s.r.fleet = refuse("InsufficientFreeAddressesInSubnet")
	first, _, err := s.launch(t, model.OnDemand, offer)
	if err != nil || first[0] != "s1" {
		t.Fatalf("%v, %v", first, err)
	}
	for range 2 { // the class is looked at again, and EC2 still counts 300
		s.now = s.now.Add(time.Minute)
		s.SetClass(s.class, map[string]int{"s1": 300, "s2": 200, "s3": 50})
		if o := s.offers(t)["m5.large/z-a/on-demand"]; !o.Available {
			t.Fatalf("the zone is not available: %s", o.Unavailable)
		}
	}
	second, _, _ := s.launch(t, model.OnDemand, offer)
	if second[0] != "s2" {
		t.Errorf("launched in %s, want s2", second[0])
	}
	o := s.offers(t)
	if a := o["m5.large/z-a/on-demand"]; a.Available || !strings.Contains(a.Unavailable, "free addresses") {
		t.Errorf("both subnets are full, yet available %t: %s", a.Available, a.Unavailable)
	}
	if !o["m5.large/z-b/on-demand"].Available {
		t.Error("the other zone is not available")
	}
	s.now = s.now.Add(time.Minute)
	if third, _, _ := s.launch(t, model.OnDemand, offer); third[0] != "s1" {
		t.Errorf("three minutes later: launched in %s, want s1", third[0])
	}
}

// Case B077: throttling is no missing capacity, of reservations neither.
func TestThrottlingIsNoMissingCapacity(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]cloud.ErrorKind{"RequestLimitExceeded": cloud.Throttled, "InsufficientInstanceCapacity": cloud.Shortage, "ReservationCapacityExceeded": cloud.Shortage} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, []string{"m5.large"}, map[string]int{"s1": 300, "cr-9": 3}, "s1/z-a")
			s.class.Status.CapacityReservations = []awsv1.CapacityReservation{{ID: "cr-9", InstanceType: "m5.large", AvailabilityZone: "z-a"}}
			s.SetClass(s.class, map[string]int{"cr-9": 3})
			s.r.fleet = refuse(code)
			_, a, err := s.launch(t, model.Reserved, cloud.Offer{InstanceType: "m5.large", Zone: "z-a", ReservationID: "cr-9"})
			if err != nil || len(a.Errors) != 1 || a.Errors[0].Kind != want {
				t.Fatalf("%+v, %v, want one error of kind %s", a, err, want)
			}
			if o := s.offers(t)["m5.large/z-a/reserved"]; o == nil || !o.Available {
				t.Errorf("the reservation with instances left is not offered: %+v", o)
			}
			s.r.fleet = func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
				return nil, &smithy.GenericAPIError{Code: code, Message: "no"}
			}
			if _, _, err := s.launch(t, model.Reserved, cloud.Offer{InstanceType: "m5.large", Zone: "z-a", ReservationID: "cr-9"}); cloud.KindOf(err) != want {
				t.Errorf("the whole call refused: %v, want kind %s", err, want)
			}
		})
	}
}

// Case B082: however much fits, a request names at most 60 lines, the best first, and stays far below what the API takes.
func TestARequestStaysSmall(t *testing.T) {
	t.Parallel()
	var names, subnets []string
	free := map[string]int{}
	for i := range 600 {
		names = append(names, fmt.Sprintf("m%d.large", i+1))
	}
	for _, z := range []string{"a", "b", "c", "d", "e", "f"} {
		subnets, free["s-"+z] = append(subnets, "s-"+z+"/z-"+z), 4000
	}
	s := newScene(t, names, free, subnets...)
	var offers []cloud.Offer
	for _, n := range names {
		for _, z := range s.r.zones {
			offers = append(offers, cloud.Offer{InstanceType: n, Zone: z, USDPerHour: 0.1})
		}
	}
	s.offers(t)
	b, err := s.Render(t.Context(), cloud.Launch{ID: "l", Claims: []string{"c"}, NodeClass: "default", CapacityType: model.Spot, Offers: offers})
	if err != nil {
		t.Fatal(err)
	}
	r, err := render.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range r.Fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			lines = append(lines, string(o.InstanceType)+"/"+*o.AvailabilityZone)
		}
	}
	var want []string
	for _, o := range offers[:render.MaxOffers] {
		want = append(want, o.InstanceType+"/"+o.Zone)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(b) > 64<<10 {
		t.Errorf("%d bytes", len(b))
	}
}

// Case B095: which image a machine will run stands on its type, so that what nodes of it taught is found.
func TestTypesNameTheirImage(t *testing.T) {
	t.Parallel()
	s := newScene(t, []string{"m5.large"}, map[string]int{"s1": 300}, "s1/z-a")
	if got := s.offers(t)["m5.large/z-a/on-demand"].Type; got.Image != "ami-1" || got.MemoryFrom != "estimated" {
		t.Errorf("image %q, memory %s", got.Image, got.MemoryFrom)
	}
}
