package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/fleet"
	"github.com/weir-project/weir/core/cloud/aws/render"
)

var now = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

// service is an EC2 that keeps templates and instances and answers fleets as it is told.
type service struct {
	templates map[string]time.Time
	instances []types.Instance
	fleets    []*ec2.CreateFleetInput
	answer    func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error)
	ended     [][]string
	filters   [][]types.Filter
	calls     map[string]int
}

func (s *service) count(op string) {
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[op]++
}

func ptr[T any](v T) *T { return &v }

func refused(code string) error {
	return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code, Message: "no: " + code})
}

func (s *service) CreateFleet(_ context.Context, in *ec2.CreateFleetInput, _ ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	s.count("CreateFleet")
	s.fleets = append(s.fleets, in)
	for _, c := range in.LaunchTemplateConfigs {
		if _, ok := s.templates[*c.LaunchTemplateSpecification.LaunchTemplateName]; !ok {
			return nil, refused("InvalidLaunchTemplateName.NotFoundException")
		}
	}
	return s.answer(in)
}

func (s *service) CreateLaunchTemplate(_ context.Context, in *ec2.CreateLaunchTemplateInput, _ ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error) {
	s.count("CreateLaunchTemplate")
	if _, ok := s.templates[*in.LaunchTemplateName]; ok {
		return nil, refused("InvalidLaunchTemplateName.AlreadyExistsException")
	}
	s.templates[*in.LaunchTemplateName] = now
	return &ec2.CreateLaunchTemplateOutput{}, nil
}

func (s *service) DeleteLaunchTemplate(_ context.Context, in *ec2.DeleteLaunchTemplateInput, _ ...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error) {
	delete(s.templates, *in.LaunchTemplateName)
	return &ec2.DeleteLaunchTemplateOutput{}, nil
}

func (s *service) DescribeLaunchTemplates(_ context.Context, in *ec2.DescribeLaunchTemplatesInput, _ ...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error) {
	s.count("DescribeLaunchTemplates")
	out := &ec2.DescribeLaunchTemplatesOutput{}
	for name, made := range s.templates {
		if len(in.LaunchTemplateNames) == 0 || slices.Contains(in.LaunchTemplateNames, name) {
			out.LaunchTemplates = append(out.LaunchTemplates, types.LaunchTemplate{LaunchTemplateName: &name, CreateTime: &made})
		}
	}
	if len(out.LaunchTemplates) == 0 && len(in.LaunchTemplateNames) > 0 {
		return nil, refused("InvalidLaunchTemplateName.NotFoundException")
	}
	return out, nil
}

func (s *service) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	s.count("DescribeInstances")
	s.filters = append(s.filters, in.Filters)
	r := types.Reservation{}
	for _, i := range s.instances {
		ok := true
		for _, f := range in.Filters {
			if *f.Name == "instance-id" {
				ok = slices.Contains(f.Values, *i.InstanceId)
			}
		}
		if ok {
			r.Instances = append(r.Instances, i)
		}
	}
	return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{r}}, nil
}

func (s *service) TerminateInstances(_ context.Context, in *ec2.TerminateInstancesInput, _ ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error) {
	s.count("TerminateInstances")
	for _, id := range in.InstanceIds {
		if !slices.ContainsFunc(s.instances, func(i types.Instance) bool { return *i.InstanceId == id }) {
			return nil, refused("InvalidInstanceID.NotFound")
		}
	}
	s.ended = append(s.ended, in.InstanceIds)
	return &ec2.TerminateInstancesOutput{}, nil
}

func (s *service) CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error) {
	s.count("CreateTags")
	return &ec2.CreateTagsOutput{}, nil
}

// request names two types in two zones, spot.
func request(t testing.TB) []byte {
	t.Helper()
	line := func(ty, zone, subnet string) types.FleetLaunchTemplateOverridesRequest {
		return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(ty), AvailabilityZone: &zone, SubnetId: &subnet, ImageId: ptr("ami-1")}
	}
	b, err := json.Marshal(render.Request{
		Templates: []render.Template{{Name: "karpenter.k8s.aws/1", Data: &types.RequestLaunchTemplateData{ImageId: ptr("ami-1")}, Tags: map[string]string{"a": "b", cloud.TagLaunch: "l-1"}}},
		Fleet: &ec2.CreateFleetInput{
			LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: ptr("karpenter.k8s.aws/1")},
				Overrides:                   []types.FleetLaunchTemplateOverridesRequest{line("m5.large", "z-a", "subnet-a"), line("m5.xlarge", "z-a", "subnet-a"), line("m5.large", "z-b", "subnet-b")},
			}},
			TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: ptr(int32(2)), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeSpot},
			TagSpecifications:           []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: ptr("k"), Value: ptr("v")}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bought(ty, subnet string, ids ...string) types.CreateFleetInstance {
	return types.CreateFleetInstance{InstanceType: types.InstanceType(ty), InstanceIds: ids, Lifecycle: types.InstanceLifecycleSpot,
		LaunchTemplateAndOverrides: &types.LaunchTemplateAndOverridesResponse{Overrides: &types.FleetLaunchTemplateOverrides{SubnetId: &subnet, ImageId: ptr("ami-1")}}}
}

func no(code, ty, zone, subnet string) types.CreateFleetError {
	e := types.CreateFleetError{ErrorCode: &code, ErrorMessage: ptr("no: " + code)}
	if ty != "" {
		o := &types.FleetLaunchTemplateOverrides{InstanceType: types.InstanceType(ty)}
		if zone != "" {
			o.AvailabilityZone = &zone
		}
		if subnet != "" {
			o.SubnetId = &subnet
		}
		e.LaunchTemplateAndOverrides = &types.LaunchTemplateAndOverridesResponse{Overrides: o}
	}
	return e
}

func start(s *service) *fleet.Fleet {
	if s.templates == nil {
		s.templates = map[string]time.Time{}
	}
	if s.answer == nil {
		s.answer = func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) { return &ec2.CreateFleetOutput{}, nil }
	}
	return fleet.New(s, "prod", func() time.Time { return now })
}

func TestLaunchBuysAndTellsWhatItCouldNot(t *testing.T) {
	t.Parallel()
	var full []string
	s := &service{answer: func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
		return &ec2.CreateFleetOutput{
			Instances: []types.CreateFleetInstance{bought("m5.large", "subnet-b", "i-1", "i-2")},
			Errors: []types.CreateFleetError{no("InsufficientInstanceCapacity", "m5.large", "z-a", ""), no("InsufficientInstanceCapacity", "m5.large", "z-a", ""),
				no("InsufficientFreeAddressesInSubnet", "m5.xlarge", "", "subnet-a"), no("VcpuLimitExceeded", "", "", "")},
		}, nil
	}}
	f := start(s)
	f.Full = func(subnet string) { full = append(full, subnet) }
	a, err := f.Launch(t.Context(), "token-1", request(t))
	if err != nil {
		t.Fatal(err)
	}
	one := cloud.Instance{ID: "i-1", Type: "m5.large", Zone: "z-b", CapacityType: "spot", ImageID: "ami-1", State: "pending", Launched: now, Tags: map[string]string{"k": "v"}}
	two := one
	two.ID = "i-2"
	if diff := cmp.Diff([]cloud.Instance{one, two}, a.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	var got []string
	for _, e := range a.Errors {
		got = append(got, fmt.Sprintf("%s %s %s/%s", e.Kind, e.Code, e.Offer.InstanceType, e.Offer.Zone))
	}
	want := []string{
		"shortage InsufficientInstanceCapacity m5.large/z-a", "template InsufficientFreeAddressesInSubnet m5.xlarge/z-a",
		"quota VcpuLimitExceeded m5.large/z-a", "quota VcpuLimitExceeded m5.xlarge/z-a", "quota VcpuLimitExceeded m5.large/z-b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"subnet-a"}, full); diff != "" {
		t.Errorf("full subnets (-want +got):\n%s", diff)
	}
	if s.fleets[0].ClientToken == nil || *s.fleets[0].ClientToken != "token-1" {
		t.Errorf("client token %v", s.fleets[0].ClientToken)
	}
}

// A template is made once, found when somebody else made it, and made again when somebody deleted it.
func TestTemplatesAreThereWhenTheyAreNeeded(t *testing.T) {
	t.Parallel()
	s := &service{}
	f := start(s)
	launch := func() {
		t.Helper()
		if _, err := f.Launch(t.Context(), "t", request(t)); err != nil {
			t.Fatal(err)
		}
	}
	launch()
	launch()
	if s.calls["CreateLaunchTemplate"] != 1 || s.calls["DescribeLaunchTemplates"] != 1 || s.calls["CreateFleet"] != 2 {
		t.Errorf("calls %v", s.calls)
	}
	delete(s.templates, "karpenter.k8s.aws/1")
	launch()
	if len(s.templates) != 1 || s.calls["CreateFleet"] != 4 {
		t.Errorf("templates %v, calls %v", s.templates, s.calls)
	}
	other := start(s)
	if _, err := other.Launch(t.Context(), "t", request(t)); err != nil || s.calls["CreateLaunchTemplate"] != 2 {
		t.Errorf("%v, calls %v", err, s.calls)
	}
}

// EC2 may also say in the fleet's answer that the template is gone.
func TestAMissingTemplateInTheAnswer(t *testing.T) {
	t.Parallel()
	s := &service{}
	n := 0
	s.answer = func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
		if n++; n == 1 {
			return &ec2.CreateFleetOutput{Errors: []types.CreateFleetError{no("InvalidLaunchTemplateName.NotFoundException", "", "", "")}}, nil
		}
		return &ec2.CreateFleetOutput{Instances: []types.CreateFleetInstance{bought("m5.large", "subnet-a", "i-1")}}, nil
	}
	a, err := start(s).Launch(t.Context(), "t", request(t))
	if err != nil || len(a.Instances) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestErrorsOfAWholeLaunch(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]cloud.ErrorKind{
		"RequestLimitExceeded": cloud.Throttled, "IdempotentParameterMismatch": cloud.Token, "UnauthorizedOperation": cloud.Auth,
		"InvalidParameterValue": cloud.Template, "InternalError": cloud.Internal, "InsufficientInstanceCapacity": cloud.Shortage,
	} {
		s := &service{answer: func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) { return nil, refused(code) }}
		if _, err := start(s).Launch(t.Context(), "t", request(t)); cloud.KindOf(err) != want {
			t.Errorf("%s: %v of kind %s, want %s", code, err, cloud.KindOf(err), want)
		}
	}
	if _, err := start(&service{}).Launch(t.Context(), "t", []byte("{")); cloud.KindOf(err) != cloud.Template {
		t.Errorf("garbage: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &service{answer: func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) { return nil, ctx.Err() }}
	if _, err := start(s).Launch(ctx, "t", request(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// One id that is gone fails the whole call in EC2; the others must end all the same.
func TestTerminate(t *testing.T) {
	t.Parallel()
	id := func(n int) string { return fmt.Sprintf("i-%04d", n) }
	s := &service{}
	for n := range 1200 {
		s.instances = append(s.instances, types.Instance{InstanceId: ptr(id(n)), State: &types.InstanceState{Name: "running"}})
	}
	s.instances[3].State.Name = "terminated"
	f := start(s)
	var ids []string
	for n := range 1200 {
		ids = append(ids, id(n))
	}
	if err := f.Terminate(t.Context(), append(ids, "i-gone")); err != nil {
		t.Fatal(err)
	}
	var ended []string
	for _, c := range s.ended {
		if len(c) > 500 {
			t.Errorf("%d ids in one call", len(c))
		}
		ended = append(ended, c...)
	}
	slices.Sort(ended)
	if diff := cmp.Diff(ids, ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if err := f.Terminate(t.Context(), []string{"i-gone"}); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	if err := f.Terminate(t.Context(), []string{id(3), "i-gone"}); err != nil || slices.Contains(s.ended[len(s.ended)-1], id(3)) {
		t.Errorf("one that has ended is ended again: %v", err)
	}
	if err := f.Terminate(t.Context(), nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

func TestDescribeAndList(t *testing.T) {
	t.Parallel()
	s := &service{}
	for n := range 450 {
		s.instances = append(s.instances, types.Instance{InstanceId: ptr(fmt.Sprintf("i-%04d", n)), InstanceType: "m5.large", State: &types.InstanceState{Name: "running"},
			Placement: &types.Placement{AvailabilityZone: ptr("z-a")}, ImageId: ptr("ami-1"), LaunchTime: &now})
	}
	s.instances[0].InstanceLifecycle = types.InstanceLifecycleTypeSpot
	s.instances[1].CapacityReservationId = ptr("cr-1")
	s.instances[2].CapacityReservationId = ptr("cr-1")
	s.instances[2].CapacityReservationSpecification = &types.CapacityReservationSpecificationResponse{CapacityReservationPreference: "capacity-reservations-only"}
	f := start(s)
	var ids []string
	for _, i := range s.instances {
		ids = append(ids, *i.InstanceId)
	}
	got, err := f.Describe(t.Context(), append(ids, "i-gone"))
	if err != nil || len(got) != 450 || s.calls["DescribeInstances"] != 3 {
		t.Fatalf("%d instances in %d calls, %v", len(got), s.calls["DescribeInstances"], err)
	}
	var kinds []string
	for _, i := range got[:4] {
		kinds = append(kinds, i.CapacityType)
	}
	if diff := cmp.Diff([]string{"spot", "on-demand", "reserved", "on-demand"}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.filters = nil
	if _, err := f.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, x := range s.filters[0] {
		asked = append(asked, *x.Name+"="+strings.Join(x.Values, ","))
	}
	want := []string{"tag:eks:eks-cluster-name=prod", "tag-key=karpenter.k8s.aws/ec2nodeclass", "instance-state-name=pending,running,stopping,stopped,shutting-down"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What drift compares: network, reservation, and the name of the profile out of its ARN.
func TestWhatAnInstanceHas(t *testing.T) {
	t.Parallel()
	s := &service{instances: []types.Instance{{
		InstanceId: ptr("i-1"), SubnetId: ptr("subnet-1"), CapacityReservationId: ptr("cr-1"), ImageId: ptr("ami-1"),
		SecurityGroups:     []types.GroupIdentifier{{GroupId: ptr("sg-1"), GroupName: ptr("nodes")}, {GroupId: ptr("sg-2")}},
		IamInstanceProfile: &types.IamInstanceProfile{Arn: ptr("arn:aws:iam::111122223333:instance-profile/karpenter/us-east-1/prod/uid/prod_123")},
	}, {InstanceId: ptr("i-2")}}}
	got, err := start(s).Describe(t.Context(), []string{"i-1", "i-2"})
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.Instance{
		{ID: "i-1", ImageID: "ami-1", CapacityType: "on-demand", Subnet: "subnet-1", Reservation: "cr-1", Profile: "prod_123", SecurityGroups: []string{"sg-1", "sg-2"}, Tags: map[string]string{}},
		{ID: "i-2", CapacityType: "on-demand", Tags: map[string]string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTemplatesAreCollected(t *testing.T) {
	t.Parallel()
	at := now
	s := &service{templates: map[string]time.Time{"karpenter.k8s.aws/old": now.Add(-time.Hour), "karpenter.k8s.aws/new": now, "mine": now.Add(-time.Hour)},
		answer: func(*ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) { return &ec2.CreateFleetOutput{}, nil }}
	f := fleet.New(s, "prod", func() time.Time { return at })
	if _, err := f.Launch(t.Context(), "t", request(t)); err != nil {
		t.Fatal(err)
	}
	at = now.Add(5 * time.Minute)
	got, err := f.CollectTemplates(t.Context(), 10*time.Minute, "")
	if diff := cmp.Diff([]string{"karpenter.k8s.aws/old"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	at = now.Add(11 * time.Minute)
	got, err = f.CollectTemplates(t.Context(), 10*time.Minute, "")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"karpenter.k8s.aws/1", "karpenter.k8s.aws/new"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, ok := s.templates["mine"]; !ok {
		t.Error("a template that is not ours is gone")
	}
}
