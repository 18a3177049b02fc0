package resolve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
	"github.com/weir-project/weir/core/model"
)

var now = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

// account is what an account holds; it answers the filters that the resolver uses.
type account struct {
	subnets      []ec2types.Subnet
	groups       []ec2types.SecurityGroup
	images       []ec2types.Image
	reservations []ec2types.CapacityReservation
	placement    []ec2types.PlacementGroup
	parameters   map[string]string
	profiles     map[string]*iamtypes.InstanceProfile
	roles        []string
	fail         map[string]error // by operation
	calls        map[string]int
}

func (a *account) called(op string) error {
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	a.calls[op]++
	return a.fail[op]
}

func ptr[T any](v T) *T { return &v }

func tags(pairs ...string) []ec2types.Tag {
	var out []ec2types.Tag
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, ec2types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

// match says whether fields and tags of a thing pass the filters; an unknown filter fails the test's expectation loudly.
func match(filters []ec2types.Filter, fields map[string]string, have []ec2types.Tag) bool {
	for _, f := range filters {
		ok := false
		for _, v := range f.Values {
			switch key, isTag := strings.CutPrefix(*f.Name, "tag:"); {
			case isTag:
				ok = ok || slices.ContainsFunc(have, func(t ec2types.Tag) bool { return *t.Key == key && *t.Value == v })
			case *f.Name == "tag-key":
				ok = ok || slices.ContainsFunc(have, func(t ec2types.Tag) bool { return *t.Key == v })
			default:
				field, known := fields[*f.Name]
				if !known {
					panic("filter " + *f.Name + " is not known")
				}
				ok = ok || field == v
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

func (a *account) DescribeSubnets(_ context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	if err := a.called("DescribeSubnets"); err != nil {
		return nil, err
	}
	out := &ec2.DescribeSubnetsOutput{}
	for _, s := range a.subnets {
		if match(in.Filters, map[string]string{"subnet-id": *s.SubnetId}, s.Tags) {
			out.Subnets = append(out.Subnets, s)
		}
	}
	return out, nil
}

func (a *account) DescribeSecurityGroups(_ context.Context, in *ec2.DescribeSecurityGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	if err := a.called("DescribeSecurityGroups"); err != nil {
		return nil, err
	}
	out := &ec2.DescribeSecurityGroupsOutput{}
	for _, g := range a.groups {
		if match(in.Filters, map[string]string{"group-id": *g.GroupId, "group-name": *g.GroupName}, g.Tags) {
			out.SecurityGroups = append(out.SecurityGroups, g)
		}
	}
	return out, nil
}

func (a *account) DescribeImages(_ context.Context, in *ec2.DescribeImagesInput, _ ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	if err := a.called("DescribeImages"); err != nil {
		return nil, err
	}
	out := &ec2.DescribeImagesOutput{}
	for _, x := range a.images {
		if len(in.Owners) > 0 && !slices.Contains(in.Owners, *x.OwnerId) {
			continue
		}
		if match(in.Filters, map[string]string{"image-id": *x.ImageId, "name": *x.Name, "state": string(x.State)}, x.Tags) {
			out.Images = append(out.Images, x)
		}
	}
	return out, nil
}

func (a *account) DescribeCapacityReservations(_ context.Context, in *ec2.DescribeCapacityReservationsInput, _ ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	if err := a.called("DescribeCapacityReservations"); err != nil {
		return nil, err
	}
	out := &ec2.DescribeCapacityReservationsOutput{}
	for _, x := range a.reservations {
		if len(in.CapacityReservationIds) > 0 && !slices.Contains(in.CapacityReservationIds, *x.CapacityReservationId) {
			continue
		}
		if match(in.Filters, map[string]string{"state": string(x.State), "owner-id": *x.OwnerId, "instance-match-criteria": string(x.InstanceMatchCriteria)}, x.Tags) {
			out.CapacityReservations = append(out.CapacityReservations, x)
		}
	}
	if len(out.CapacityReservations) == 0 && len(in.CapacityReservationIds) > 0 {
		return nil, refused("InvalidCapacityReservationId.NotFound", "")
	}
	return out, nil
}

func (a *account) DescribePlacementGroups(_ context.Context, in *ec2.DescribePlacementGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error) {
	if err := a.called("DescribePlacementGroups"); err != nil {
		return nil, err
	}
	out := &ec2.DescribePlacementGroupsOutput{}
	for _, g := range a.placement {
		if slices.Contains(in.GroupNames, *g.GroupName) || slices.Contains(in.GroupIds, *g.GroupId) {
			out.PlacementGroups = append(out.PlacementGroups, g)
		}
	}
	if len(out.PlacementGroups) == 0 {
		return nil, refused("InvalidPlacementGroup.Unknown", "")
	}
	return out, nil
}

func (a *account) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	if err := a.called("GetParameter"); err != nil {
		return nil, err
	}
	v, ok := a.parameters[*in.Name]
	if !ok {
		return nil, &ssmtypes.ParameterNotFound{}
	}
	return &ssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Value: &v}}, nil
}

func (a *account) GetInstanceProfile(_ context.Context, in *iam.GetInstanceProfileInput, _ ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error) {
	if err := a.called("GetInstanceProfile"); err != nil {
		return nil, err
	}
	p := a.profiles[*in.InstanceProfileName]
	if p == nil {
		return nil, &iamtypes.NoSuchEntityException{}
	}
	return &iam.GetInstanceProfileOutput{InstanceProfile: p}, nil
}

func (a *account) CreateInstanceProfile(_ context.Context, in *iam.CreateInstanceProfileInput, _ ...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error) {
	if err := a.called("CreateInstanceProfile"); err != nil {
		return nil, err
	}
	if a.profiles[*in.InstanceProfileName] != nil {
		return nil, &iamtypes.EntityAlreadyExistsException{}
	}
	if a.profiles == nil {
		a.profiles = map[string]*iamtypes.InstanceProfile{}
	}
	a.profiles[*in.InstanceProfileName] = &iamtypes.InstanceProfile{InstanceProfileName: in.InstanceProfileName, Path: in.Path, Tags: in.Tags, CreateDate: ptr(now)}
	return &iam.CreateInstanceProfileOutput{}, nil
}

func (a *account) DeleteInstanceProfile(_ context.Context, in *iam.DeleteInstanceProfileInput, _ ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error) {
	if p := a.profiles[*in.InstanceProfileName]; p != nil && len(p.Roles) > 0 {
		return nil, &iamtypes.DeleteConflictException{}
	}
	delete(a.profiles, *in.InstanceProfileName)
	return &iam.DeleteInstanceProfileOutput{}, nil
}

func (a *account) AddRoleToInstanceProfile(_ context.Context, in *iam.AddRoleToInstanceProfileInput, _ ...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error) {
	if err := a.called("AddRoleToInstanceProfile"); err != nil {
		return nil, err
	}
	if !slices.Contains(a.roles, *in.RoleName) {
		return nil, &iamtypes.NoSuchEntityException{Message: ptr("The role with name " + *in.RoleName + " cannot be found.")}
	}
	p := a.profiles[*in.InstanceProfileName]
	if len(p.Roles) > 0 {
		return nil, &iamtypes.LimitExceededException{}
	}
	p.Roles = append(p.Roles, iamtypes.Role{RoleName: in.RoleName})
	return &iam.AddRoleToInstanceProfileOutput{}, nil
}

func (a *account) RemoveRoleFromInstanceProfile(_ context.Context, in *iam.RemoveRoleFromInstanceProfileInput, _ ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error) {
	a.profiles[*in.InstanceProfileName].Roles = nil
	return &iam.RemoveRoleFromInstanceProfileOutput{}, nil
}

func (a *account) ListInstanceProfiles(_ context.Context, _ *iam.ListInstanceProfilesInput, _ ...func(*iam.Options)) (*iam.ListInstanceProfilesOutput, error) {
	out := &iam.ListInstanceProfilesOutput{} // the stand-in, like moto, answers all paths
	for _, p := range a.profiles {
		out.InstanceProfiles = append(out.InstanceProfiles, *p)
	}
	return out, nil
}

func refused(code, message string) error {
	return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code, Message: message})
}

func subnet(id, zone string, free int32, t ...string) ec2types.Subnet {
	return ec2types.Subnet{SubnetId: &id, AvailabilityZone: &zone, AvailabilityZoneId: ptr("id-" + zone), AvailableIpAddressCount: &free, Tags: tags(t...)}
}

func group(id, name string, t ...string) ec2types.SecurityGroup {
	return ec2types.SecurityGroup{GroupId: &id, GroupName: &name, Tags: tags(t...)}
}

func ami(id string, arch ec2types.ArchitectureValues, created string, change ...func(*ec2types.Image)) ec2types.Image {
	x := ec2types.Image{ImageId: &id, Name: ptr("name-" + id), OwnerId: ptr("amazon"), Architecture: arch, CreationDate: &created, State: ec2types.ImageStateAvailable}
	for _, c := range change {
		c(&x)
	}
	return x
}

const (
	amd = ec2types.ArchitectureValuesX8664
	arm = ec2types.ArchitectureValuesArm64
)

// usual is an account with what the usual class asks for.
func usual() *account {
	const base = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/"
	return &account{
		subnets: []ec2types.Subnet{subnet("subnet-1", "z-a", 10, "karpenter.sh/discovery", "prod"), subnet("subnet-2", "z-b", 200, "karpenter.sh/discovery", "prod"),
			subnet("subnet-3", "z-c", 500, "karpenter.sh/discovery", "other")},
		groups: []ec2types.SecurityGroup{group("sg-2", "two", "karpenter.sh/discovery", "prod"), group("sg-1", "one", "karpenter.sh/discovery", "prod"), group("sg-9", "nine")},
		images: []ec2types.Image{ami("ami-amd", amd, "2026-01-02T00:00:00.000Z"), ami("ami-arm", arm, "2026-01-03T00:00:00.000Z"), ami("ami-gpu", amd, "2026-01-01T00:00:00.000Z")},
		parameters: map[string]string{base + "x86_64/standard/recommended/image_id": "ami-amd", base + "arm64/standard/recommended/image_id": "ami-arm",
			base + "x86_64/nvidia/recommended/image_id": "ami-gpu"},
		roles: []string{"node"},
	}
}

const usualSpec = `"role":"node","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"prod"}}],
	"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"prod"}}]`

func class(t testing.TB, spec string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"default","uid":"u-1","generation":3},"spec":{`+spec+`}}`), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func solve(t testing.TB, a *account, c *awsv1.EC2NodeClass) resolve.Result {
	t.Helper()
	r := resolve.New(resolve.Config{Cluster: "prod", Region: "eu-west-1", Version: func() string { return "1.33" }, Reservations: true}, a, a, a)
	return r.Resolve(t.Context(), c, now)
}

// said is the conditions as type=status:reason.
func said(r resolve.Result) map[string]string {
	out := map[string]string{}
	for _, c := range r.Status.Conditions {
		out[c.Type] = string(c.Status)
		if c.Status != "True" {
			out[c.Type] += ":" + c.Reason
		}
	}
	return out
}

func TestAClassThatIsReady(t *testing.T) {
	t.Parallel()
	a := usual()
	r := solve(t, a, class(t, usualSpec))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	for kind, s := range said(r) {
		if s != "True" {
			t.Errorf("%s is %s", kind, s)
		}
	}
	if diff := cmp.Diff([]awsv1.Subnet{{ID: "subnet-2", Zone: "z-b", ZoneID: "id-z-b"}, {ID: "subnet-1", Zone: "z-a", ZoneID: "id-z-a"}}, r.Status.Subnets); diff != "" {
		t.Errorf("subnets, most addresses first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]awsv1.SecurityGroup{{ID: "sg-1", Name: "one"}, {ID: "sg-2", Name: "two"}}, r.Status.SecurityGroups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	var images []string
	for _, x := range r.Status.AMIs {
		text := x.ID
		for _, q := range x.Requirements {
			text += fmt.Sprintf(" %s %s %s", strings.TrimPrefix(q.Key, "karpenter.k8s.aws/"), q.Operator, strings.Join(q.Values, ","))
		}
		images = append(images, text)
	}
	want := []string{
		"ami-arm kubernetes.io/arch In arm64 instance-accelerator-count DoesNotExist  instance-gpu-count DoesNotExist ",
		"ami-amd kubernetes.io/arch In amd64 instance-accelerator-count DoesNotExist  instance-gpu-count DoesNotExist ",
		"ami-gpu kubernetes.io/arch In amd64 instance-gpu-count Exists ",
	}
	if diff := cmp.Diff(want, images); diff != "" {
		t.Errorf("images, newest first (-want +got):\n%s", diff)
	}
	p := a.profiles[r.Status.InstanceProfile]
	if p == nil || !strings.HasPrefix(r.Status.InstanceProfile, "prod_") || *p.Path != "/karpenter/eu-west-1/prod/u-1/" || len(p.Roles) != 1 || *p.Roles[0].RoleName != "node" {
		t.Errorf("profile %q is %+v", r.Status.InstanceProfile, p)
	}
	for _, c := range r.Status.Conditions {
		if c.ObservedGeneration != 3 {
			t.Errorf("%s observed generation %d", c.Type, c.ObservedGeneration)
		}
	}
}

// Each thing that is missing is named by its condition, and the others are found all the same.
func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    func(string) string
		account func(*account)
		kind    string
		want    string
		words   string
	}{
		"no subnet":        {account: func(a *account) { a.subnets = nil }, kind: keys.ConditionSubnetsReady, want: "False:SubnetsNotFound", words: "eu-west-1"},
		"no group":         {account: func(a *account) { a.groups = nil }, kind: keys.ConditionSecurityGroupsReady, want: "False:SecurityGroupsNotFound", words: "eu-west-1"},
		"no parameter":     {account: func(a *account) { a.parameters = nil }, kind: keys.ConditionAMIsReady, want: "False:AMINotFound", words: "1.33"},
		"image is gone":    {account: func(a *account) { a.images = nil }, kind: keys.ConditionAMIsReady, want: "False:AMINotFound", words: "no available image"},
		"no such role":     {account: func(a *account) { a.roles = nil }, kind: keys.ConditionInstanceProfileReady, want: "False:InstanceProfileNotFound", words: "role node"},
		"AL2 is over":      {spec: func(s string) string { return strings.Replace(s, "al2023@", "al2@", 1) }, kind: keys.ConditionAMIsReady, want: "False:UnsupportedAlias", words: "1.32"},
		"Windows too soon": {spec: func(s string) string { return strings.Replace(s, "al2023@", "windows2025@", 1) }, kind: keys.ConditionAMIsReady, want: "False:UnsupportedAlias", words: "1.35"},
		"no placement group": {spec: func(s string) string { return s + `,"placementGroupSelector":{"name":"x"}` }, kind: keys.ConditionPlacementGroupReady, want: "False:PlacementGroupNotFound",
			words: "x"},
		"a tag of ours": {spec: func(s string) string { return s + `,"tags":{"karpenter.sh/nodepool":"x"}` }, kind: keys.ConditionValidationSucceeded, want: "False:TagValidationFailed", words: "nodepool"},
		"kubelet":       {spec: func(s string) string { return s + `,"kubelet":{"x":1}` }, kind: keys.ConditionValidationSucceeded, want: "False:InvalidKubeletConfiguration", words: "x"},
		"user data of another family": {spec: func(s string) string {
			return strings.Replace(s, "al2023@", "bottlerocket@", 1) + `,"userData":"#!/bin/bash\necho x"`
		},
			account: func(a *account) {
				a.parameters = map[string]string{"/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id": "ami-amd"}
			}, kind: keys.ConditionValidationSucceeded, want: "False:InvalidUserData", words: "not TOML"},
		"user data that is another object": {spec: func(s string) string { return s + `,"userData":"apiVersion: v1\nkind: Pod\n"` },
			kind: keys.ConditionValidationSucceeded, want: "False:InvalidUserData", words: "expected a NodeConfig"},
		"user data that is a broken archive": {spec: func(s string) string {
			return s + `,"userData":"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"`
		},
			kind: keys.ConditionValidationSucceeded, want: "False:InvalidUserData", words: "boundary"},
		"user data that is too long": {spec: func(s string) string { return s + `,"userData":"#!/bin/sh\n` + strings.Repeat("x", 16384) + `"` },
			kind: keys.ConditionValidationSucceeded, want: "False:UserDataSizeLimitExceeded", words: "at most 16384"},
		"not allowed": {account: func(a *account) {
			a.fail = map[string]error{"DescribeImages": refused("UnauthorizedOperation", "You are not authorized")}
		}, kind: keys.ConditionAMIsReady, want: "Unknown:Unauthorized", words: "not authorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, spec := usual(), usualSpec
			if tc.account != nil {
				tc.account(a)
			}
			if tc.spec != nil {
				spec = tc.spec(spec)
			}
			r := solve(t, a, class(t, spec))
			got := said(r)
			if got[tc.kind] != tc.want {
				t.Errorf("%s is %s, want %s", tc.kind, got[tc.kind], tc.want)
			}
			if c := meta.FindStatusCondition(r.Status.Conditions, tc.kind); c == nil || !strings.Contains(c.Message, tc.words) {
				t.Errorf("condition %+v, want a message with %q", c, tc.words)
			}
			if got[keys.ConditionReady] == "True" {
				t.Error("the class is ready")
			}
			for kind, s := range got {
				if kind != tc.kind && kind != keys.ConditionReady && kind != keys.ConditionValidationSucceeded && s != "True" {
					t.Errorf("%s is %s though nothing is wrong with it", kind, s)
				}
			}
			if r.Again > time.Minute {
				t.Errorf("looked at again after %s", r.Again)
			}
		})
	}
}

// An outage makes no class unready that was ready, and what was known stays.
func TestAnOutageChangesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "GetParameter", "GetInstanceProfile", "DescribeCapacityReservations"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			a, c := usual(), class(t, usualSpec+`,"capacityReservationSelectorTerms":[{"tags":{"a":"b"}}]`)
			before := solve(t, a, c)
			c.Status = before.Status
			a.fail = map[string]error{op: refused("RequestLimitExceeded", "slow down")}
			after := solve(t, a, c)
			if after.Err == nil {
				t.Error("the outage is not told")
			}
			if diff := cmp.Diff(before.Status, after.Status); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
			// of a class that was changed meanwhile nothing is known
			c.Generation++
			if s := said(solve(t, a, c))[keys.ConditionReady]; s == "True" {
				t.Error("a changed class is ready though it could not be looked at")
			}
		})
	}
}

// Case B073: an image that is being copied is not taken yet. Case: of several, the newest that is not deprecated.
func TestWhichImage(t *testing.T) {
	t.Parallel()
	state := func(s ec2types.ImageState) func(*ec2types.Image) { return func(x *ec2types.Image) { x.State = s } }
	deprecated := func(at string) func(*ec2types.Image) { return func(x *ec2types.Image) { x.DeprecationTime = &at } }
	owner := func(o string) func(*ec2types.Image) { return func(x *ec2types.Image) { x.OwnerId = &o } }
	for name, tc := range map[string]struct {
		terms  string
		images []ec2types.Image
		want   []string
	}{
		"only available ones": {`[{"tags":{"*":"*"}}]`, []ec2types.Image{ami("ami-new", amd, "2026-02-02T00:00:00Z", state("pending")), ami("ami-old", amd, "2026-01-01T00:00:00Z"),
			ami("ami-x", amd, "2026-02-03T00:00:00Z", state("failed"))}, []string{"ami-old"}},
		"the newest": {`[{"id":"ami-1"},{"id":"ami-2"}]`, []ec2types.Image{ami("ami-1", amd, "2026-02-02T00:00:00Z"), ami("ami-2", amd, "2026-02-03T00:00:00Z")}, []string{"ami-2"}},
		"one that is not deprecated, though older": {`[{"id":"ami-1"},{"id":"ami-2"}]`, []ec2types.Image{ami("ami-1", amd, "2026-02-02T00:00:00Z"),
			ami("ami-2", amd, "2026-02-03T00:00:00Z", deprecated("2026-11-01T00:00:00Z"))}, []string{"ami-1"}},
		"one that will be deprecated is not yet": {`[{"id":"ami-1"},{"id":"ami-2"}]`, []ec2types.Image{ami("ami-1", amd, "2026-02-02T00:00:00Z"),
			ami("ami-2", amd, "2026-02-03T00:00:00Z", deprecated("2027-11-01T00:00:00Z"))}, []string{"ami-2"}},
		"one for each architecture": {`[{"id":"ami-1"},{"id":"ami-2"},{"id":"ami-3"}]`, []ec2types.Image{ami("ami-1", amd, "2026-02-02T00:00:00Z"), ami("ami-2", arm, "2026-02-03T00:00:00Z"),
			ami("ami-3", ec2types.ArchitectureValuesArm64Mac, "2026-02-04T00:00:00Z")}, []string{"ami-2", "ami-1"}},
		"the last by name where they are of one day": {`[{"id":"ami-1"},{"id":"ami-2"}]`, []ec2types.Image{ami("ami-2", amd, "2026-02-02T00:00:00Z"), ami("ami-1", amd, "2026-02-02T00:00:00Z")}, []string{"ami-2"}},
		"by name, of our own and amazon's": {`[{"name":"name-ami-1"}]`, []ec2types.Image{ami("ami-1", amd, "2026-02-02T00:00:00Z", owner("123")), ami("ami-1", arm, "2026-02-02T00:00:00Z", owner("self"))},
			[]string{"ami-1"}},
		"by a parameter": {`[{"ssmParameter":"/mine"}]`, []ec2types.Image{ami("ami-p", amd, "2026-02-02T00:00:00Z")}, []string{"ami-p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := usual()
			for i := range tc.images {
				tc.images[i].Tags = tags("*", "*")
			}
			a.images, a.parameters = tc.images, map[string]string{"/mine": "ami-p"}
			r := solve(t, a, class(t, `"amiFamily":"AL2023",`+strings.Replace(usualSpec, `[{"alias":"al2023@latest"}]`, tc.terms, 1)))
			var got []string
			for _, x := range r.Status.AMIs {
				got = append(got, x.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	for terms, want := range map[string][]string{
		`[{"id":"subnet-1"},{"id":"subnet-3"}]`:                          {"subnet-3", "subnet-1"},
		`[{"tags":{"karpenter.sh/discovery":"*"}}]`:                      {"subnet-3", "subnet-2", "subnet-1"},
		`[{"tags":{"karpenter.sh/discovery":"prod"}},{"id":"subnet-1"}]`: {"subnet-2", "subnet-1"},
		`[{"tags":{"karpenter.sh/discovery":"prod","x":"y"}}]`:           nil,
	} {
		r := solve(t, usual(), class(t, strings.Replace(usualSpec, `"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"prod"}}]`, `"subnetSelectorTerms":`+terms, 1)))
		var got []string
		for _, s := range r.Status.Subnets {
			got = append(got, s.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", terms, diff)
		}
	}
	r := solve(t, usual(), class(t, strings.Replace(usualSpec, `"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"prod"}}]`, `"securityGroupSelectorTerms":[{"name":"nine"},{"id":"sg-1"}]`, 1)))
	if len(r.Status.SecurityGroups) != 2 {
		t.Errorf("groups %v", r.Status.SecurityGroups)
	}
}

func TestReservations(t *testing.T) {
	t.Parallel()
	cr := func(id string, change ...func(*ec2types.CapacityReservation)) ec2types.CapacityReservation {
		x := ec2types.CapacityReservation{CapacityReservationId: &id, AvailabilityZone: ptr("z-a"), InstanceType: ptr("m5.large"), OwnerId: ptr("111122223333"),
			InstanceMatchCriteria: "targeted", State: "active", AvailableInstanceCount: ptr(int32(3))}
		for _, c := range change {
			c(&x)
		}
		return x
	}
	a := usual()
	a.reservations = []ec2types.CapacityReservation{
		cr("cr-2"), cr("cr-1", func(x *ec2types.CapacityReservation) { x.EndDate = ptr(now.Add(3 * time.Minute)) }),
		cr("cr-3", func(x *ec2types.CapacityReservation) {
			x.ReservationType, x.EndDate = "capacity-block", ptr(now.Add(39*time.Minute))
		}),
		cr("cr-4", func(x *ec2types.CapacityReservation) { x.State = "expired" }),
	}
	c := class(t, usualSpec+`,"capacityReservationSelectorTerms":[{"ownerID":"111122223333","instanceMatchCriteria":"targeted"},{"id":"cr-9"}]`)
	r := solve(t, a, c)
	var got []string
	for _, x := range r.Status.CapacityReservations {
		got = append(got, x.ID+" "+x.ReservationType+" "+x.State)
	}
	if diff := cmp.Diff([]string{"cr-1 default active", "cr-2 default active", "cr-3 capacity-block expiring"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Free["cr-2"] != 3 {
		t.Errorf("%d instances are left in cr-2, want 3", r.Free["cr-2"])
	}
	if r.Again > 3*time.Minute {
		t.Errorf("looked at again after %s, a reservation ends before", r.Again)
	}
	if s := said(r)[keys.ConditionReady]; s != "True" {
		t.Errorf("ready is %s", s)
	}
}

// A role that changes gets a profile of its own; the old one is collected once nobody names it, and nobody else's ever.
func TestProfiles(t *testing.T) {
	t.Parallel()
	a := usual()
	a.roles = append(a.roles, "other")
	c := class(t, usualSpec)
	first := solve(t, a, c)
	c.Status = first.Status
	if again := solve(t, a, c); again.Status.InstanceProfile != first.Status.InstanceProfile || a.calls["CreateInstanceProfile"] != 1 {
		t.Errorf("profile %s after %s, made %d times", again.Status.InstanceProfile, first.Status.InstanceProfile, a.calls["CreateInstanceProfile"])
	}
	c.Spec.Role = "path/to/other"
	second := solve(t, a, c)
	if second.Status.InstanceProfile == first.Status.InstanceProfile || *a.profiles[second.Status.InstanceProfile].Roles[0].RoleName != "other" {
		t.Errorf("profile %s is kept for another role", second.Status.InstanceProfile)
	}
	a.profiles["foreign"] = &iamtypes.InstanceProfile{InstanceProfileName: ptr("foreign"), Path: ptr("/karpenter/eu-west-1/prod2/u-1/")}
	r := resolve.New(resolve.Config{Cluster: "prod", Region: "eu-west-1", Version: func() string { return "1.33" }}, a, a, a)
	for _, tc := range []struct {
		used []string
		at   time.Time
		want []string
	}{
		{[]string{second.Status.InstanceProfile}, now.Add(59 * time.Minute), nil},
		{[]string{second.Status.InstanceProfile, first.Status.InstanceProfile}, now.Add(2 * time.Hour), nil},
		{[]string{second.Status.InstanceProfile}, now.Add(2 * time.Hour), []string{first.Status.InstanceProfile}},
	} {
		got, err := r.CollectProfiles(t.Context(), tc.used, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("used %v (-want +got):\n%s", tc.used, diff)
		}
	}
	if a.profiles["foreign"] == nil || a.profiles[second.Status.InstanceProfile] == nil {
		t.Error("a profile that is in use, or another cluster's, is gone")
	}
	// with its class the profile goes at once, and only its own
	for name, stays := range map[string]bool{second.Status.InstanceProfile: false, "foreign": true, "gone": false} {
		c.Status.InstanceProfile = name
		if err := r.DropProfile(t.Context(), c); err != nil || (a.profiles[name] != nil) != stays {
			t.Errorf("%s after the end of its class: %v, %v", name, a.profiles[name], err)
		}
	}
}

// A profile that another controller made for the class is kept.
func TestAnExistingProfileIsAdopted(t *testing.T) {
	t.Parallel()
	a := usual()
	a.profiles = map[string]*iamtypes.InstanceProfile{"prod_777": {InstanceProfileName: ptr("prod_777"), Roles: []iamtypes.Role{{RoleName: ptr("node")}}}}
	c := class(t, usualSpec)
	c.Status.InstanceProfile = "prod_777"
	if r := solve(t, a, c); r.Status.InstanceProfile != "prod_777" {
		t.Errorf("profile %s", r.Status.InstanceProfile)
	}
	given := class(t, strings.Replace(usualSpec, `"role":"node"`, `"instanceProfile":"mine"`, 1))
	if r := solve(t, a, given); r.Status.InstanceProfile != "mine" || said(r)[keys.ConditionReady] != "True" {
		t.Errorf("profile %s, %v", r.Status.InstanceProfile, said(r))
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for alias, want := range map[string]string{
		"al2023@v20240807":    "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.31-v20240807/image_id",
		"al2@latest":          "/aws/service/eks/optimized-ami/1.31/amazon-linux-2/recommended/image_id",
		"al2@v20240807":       "/aws/service/eks/optimized-ami/1.31/amazon-linux-2/amazon-eks-node-1.31-v20240807/image_id",
		"bottlerocket@v1.9.0": "/aws/service/bottlerocket/aws-k8s-1.31/x86_64/1.9.0/image_id",
		"bottlerocket@latest": "/aws/service/bottlerocket/aws-k8s-1.31/x86_64/latest/image_id",
		"windows2022@latest":  "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id",
	} {
		a, err := awsv1.ParseAlias(alias)
		if err != nil {
			t.Fatal(err)
		}
		got, err := resolve.Parameters(a, "v1.31.4-eks-abc")
		if err != nil || got[0].Parameter != want {
			t.Errorf("%s: %v, %v, want %s", alias, got, err, want)
		}
	}
	if _, err := resolve.Parameters(awsv1.Alias{Family: awsv1.FamilyAL2023, Version: "latest"}, "new"); err == nil {
		t.Error("a version that is none is taken")
	}
}

// What a selector names is known with its strategy and partitions; what could not be asked stays as it was known.
func TestPlacementGroupIsKnown(t *testing.T) {
	t.Parallel()
	group := func(id, name string, strategy ec2types.PlacementStrategy, partitions *int32) ec2types.PlacementGroup {
		return ec2types.PlacementGroup{GroupId: &id, GroupName: &name, Strategy: strategy, PartitionCount: partitions}
	}
	three, many := int32(3), int32(9)
	for name, tc := range map[string]struct {
		selector string
		groups   []ec2types.PlacementGroup
		fail     error
		before   string
		want     string
		ready    string
	}{
		"none is named": {before: "pg-1 spread", ready: "True"},
		"by name":       {selector: `{"name":"a"}`, groups: []ec2types.PlacementGroup{group("pg-1", "a", "spread", nil)}, want: "pg-1 spread", ready: "True"},
		"by id":         {selector: `{"id":"pg-1"}`, groups: []ec2types.PlacementGroup{group("pg-1", "a", "cluster", nil)}, want: "pg-1 cluster", ready: "True"},
		"partitions": {selector: `{"name":"a"}`, groups: []ec2types.PlacementGroup{group("pg-1", "a", "partition", &three)}, before: "pg-0 partition 3",
			want: "pg-1 partition 3", ready: "True"},
		"it is gone":          {selector: `{"name":"a"}`, before: "pg-1 spread", ready: "False:PlacementGroupNotFound"},
		"it cannot be asked":  {selector: `{"name":"a"}`, fail: refused("RequestLimitExceeded", ""), before: "pg-1 spread", want: "pg-1 spread", ready: "Unknown:AwaitingAnswer"},
		"two":                 {selector: `{"name":"a"}`, groups: []ec2types.PlacementGroup{group("pg-1", "a", "spread", nil), group("pg-2", "a", "spread", nil)}, ready: "False:PlacementGroupResolutionFailed"},
		"what EC2 never said": {selector: `{"name":"a"}`, groups: []ec2types.PlacementGroup{group("pg-1", "a", "partition", &many)}, ready: "False:PlacementGroupResolutionFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, spec := usual(), usualSpec
			a.placement = tc.groups
			if tc.fail != nil {
				a.fail = map[string]error{"DescribePlacementGroups": tc.fail}
			}
			if tc.selector != "" {
				spec += `,"placementGroupSelector":` + tc.selector
			}
			c := class(t, spec)
			c.Annotations = map[string]string{model.AnnotationPlacementGroup: tc.before}
			r := solve(t, a, c)
			if got := said(r)[keys.ConditionPlacementGroupReady]; r.Placement != tc.want || got != tc.ready {
				t.Errorf("group %q, condition %s; want %q, %s", r.Placement, got, tc.want, tc.ready)
			}
		})
	}
}
