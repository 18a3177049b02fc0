package aws_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/fleet"
	"github.com/weir-project/weir/core/cloud/aws/render"
	"github.com/weir-project/weir/core/cloud/aws/resolve"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/aws/ec2front"
	"github.com/weir-project/weir/integration/aws/moto"
)

// account is a cluster's part of an account: subnets and groups with its tag, a role.
type account struct {
	server  standIn
	cluster string
	ec2     *ec2.Client
	iam     *iam.Client
	ssm     *ssm.Client
	subnets []string
}

// newAccount makes a VPC with a subnet in two zones, a security group and a role, all named for the cluster.
func newAccount(t testing.TB, server standIn, cluster string) *account {
	t.Helper()
	cfg := server.Config()
	a := &account{server: server, cluster: cluster, ec2: ec2.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg)}
	ctx := t.Context()
	tag := func(kind types.ResourceType) []types.TagSpecification {
		return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{{Key: sdk.String("karpenter.sh/discovery"), Value: &cluster}}}}
	}
	vpc, err := a.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	for i, zone := range []string{moto.Region + "a", moto.Region + "b"} {
		out, err := a.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, AvailabilityZone: &zone, CidrBlock: sdk.String(fmt.Sprintf("10.0.%d.0/20", i*16)), TagSpecifications: tag("subnet")})
		if err != nil {
			t.Fatal(err)
		}
		a.subnets = append(a.subnets, *out.Subnet.SubnetId)
	}
	if _, err := a.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &cluster, Description: &cluster, VpcId: vpc.Vpc.VpcId, TagSpecifications: tag("security-group")}); err != nil {
		t.Fatal(err)
	}
	if _, ok := server.(*moto.Server); !ok {
		return a
	}
	role := "node-" + cluster
	if _, err := a.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &role, AssumeRolePolicyDocument: sdk.String("{}")}); err != nil {
		t.Fatal(err)
	}
	return a
}

// standIn is an EC2 of somebody, over the wire.
type standIn interface {
	Config() sdk.Config
	URL() string
}

// standIns are the two that the suite runs on. Ours has EC2 only: classes name their instance profile there.
var standIns = []struct {
	name  string
	start func(t testing.TB) standIn
}{
	{"moto", func(t testing.TB) standIn { return moto.Start(t) }},
	{"front", func(t testing.TB) standIn { return startFront(t, ec2front.Options{}) }},
}

// startFront starts our EC2 with the image that moto has too.
func startFront(t testing.TB, o ec2front.Options) *ec2front.Server {
	f := ec2front.Start(t, o)
	f.AddImage(ec2front.Image{ID: "ami-00000000000000001", Name: "amazon-eks-node-linux", Owner: "amazon", Arch: "x86_64", Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	return f
}

// class is the usual class of the cluster. Images are found by name: the stand-in's tables have no parameters of EKS.
func (a *account) class(t testing.TB) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	text := fmt.Sprintf(`{"metadata":{"name":"default","uid":"u-%[1]s","generation":1},"spec":{"amiFamily":"AL2023","role":"node-%[1]s","tags":{"team":"a"},
		"amiSelectorTerms":[{"name":"amazon-eks-node-linux"}],"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"%[1]s"}}],
		"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"%[1]s"}}]}}`, a.cluster)
	if _, ok := a.server.(*moto.Server); !ok {
		text = strings.Replace(text, `"role":"node-`, `"instanceProfile":"node-`, 1)
	}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *account) resolver() *resolve.Resolver {
	return resolve.New(resolve.Config{Cluster: a.cluster, Region: moto.Region, Version: func() string { return "1.33" }}, a.ec2, a.ssm, a.iam)
}

// resolved is the class with its status.
func (a *account) resolved(t testing.TB) *awsv1.EC2NodeClass {
	t.Helper()
	c := a.class(t)
	r := a.resolver().Resolve(t.Context(), c, time.Now())
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, x := range r.Status.Conditions {
		if x.Status != "True" {
			t.Fatalf("condition %s is %s: %s: %s", x.Type, x.Status, x.Reason, x.Message)
		}
	}
	c.Status = r.Status
	return c
}

func (a *account) request(t testing.TB, c *awsv1.EC2NodeClass, capacity string, claims int, offers ...string) []byte {
	t.Helper()
	in := render.Input{
		Launch: cloud.Launch{ID: "l-" + a.cluster, Pool: "default", NodeClass: c.Name, CapacityType: capacity, Labels: map[string]string{"karpenter.sh/nodepool": "default"},
			Tags: map[string]string{"eks:eks-cluster-name": a.cluster, "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": c.Name, cloud.TagLaunch: "l-" + a.cluster}},
		Class:   c,
		Cluster: userdata.Cluster{Name: a.cluster, Endpoint: "https://x", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16"},
		Region:  moto.Region,
		Type: func(string) (render.Type, bool) {
			return render.Type{Labels: map[string]string{"kubernetes.io/arch": "amd64"}, MaxPods: 29}, true
		},
	}
	for i := range claims {
		in.Launch.Claims = append(in.Launch.Claims, fmt.Sprint("default-", i))
	}
	for _, o := range offers {
		ty, zone, _ := strings.Cut(o, "/")
		in.Launch.Offers = append(in.Launch.Offers, cloud.Offer{InstanceType: ty, Zone: zone, USDPerHour: 0.1})
	}
	r, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What a class stands for is found by its tags. Where there is an IAM, its instance profile is made with the role, tags and path.
func TestClassIsResolved(t *testing.T) {
	t.Parallel()
	for _, s := range standIns {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := s.start(t)
			a := newAccount(t, server, "resolved")
			c := a.resolved(t)
			a.classIsResolved(t, c)
			if _, ok := server.(*moto.Server); ok {
				a.profileIsKept(t, c)
			} else if c.Status.InstanceProfile != "node-resolved" {
				t.Errorf("instance profile %q, the class names node-resolved", c.Status.InstanceProfile)
			}
		})
	}
}

func (a *account) classIsResolved(t *testing.T, c *awsv1.EC2NodeClass) {
	t.Helper()
	zones := map[string]string{}
	for _, s := range c.Status.Subnets {
		zones[s.ID] = s.Zone
		if s.ZoneID == "" {
			t.Errorf("subnet %+v has no zone id", s)
		}
	}
	if diff := cmp.Diff(map[string]string{a.subnets[0]: moto.Region + "a", a.subnets[1]: moto.Region + "b"}, zones); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
	if len(c.Status.SecurityGroups) != 1 || c.Status.SecurityGroups[0].Name != a.cluster {
		t.Errorf("groups %v", c.Status.SecurityGroups)
	}
	if len(c.Status.AMIs) != 1 || c.Status.AMIs[0].Name != "amazon-eks-node-linux" || len(c.Status.AMIs[0].Requirements) == 0 {
		t.Errorf("images %+v", c.Status.AMIs)
	}
	// a class that matches nothing says so by its conditions, each with its reason
	none := a.class(t)
	none.Spec.SubnetSelectorTerms[0].Tags = map[string]string{"karpenter.sh/discovery": "nobody"}
	none.Spec.SecurityGroupSelectorTerms[0].Tags = map[string]string{"karpenter.sh/discovery": "nobody"}
	none.Spec.AMISelectorTerms[0].Name = "nobody"
	got := map[string]string{}
	for _, x := range a.resolver().Resolve(t.Context(), none, time.Now()).Status.Conditions {
		if x.Status == "False" {
			got[x.Type] = x.Reason
		}
	}
	want := map[string]string{"SubnetsReady": "SubnetsNotFound", "SecurityGroupsReady": "SecurityGroupsNotFound", "AMIsReady": "AMINotFound",
		"ValidationSucceeded": "DependenciesNotReady", "Ready": "UnhealthyDependents"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions of a class that matches nothing (-want +got):\n%s", diff)
	}
}

func (a *account) profileIsKept(t *testing.T, c *awsv1.EC2NodeClass) {
	t.Helper()
	out, err := a.iam.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: &c.Status.InstanceProfile})
	if err != nil {
		t.Fatal(err)
	}
	p := out.InstanceProfile
	if *p.Path != "/karpenter/"+moto.Region+"/resolved/u-resolved/" || len(p.Roles) != 1 || *p.Roles[0].RoleName != "node-resolved" {
		t.Errorf("profile %+v", p)
	}
	// nobody names it any more: it goes, with its role taken out before
	gone, err := a.resolver().CollectProfiles(t.Context(), nil, time.Now().Add(2*time.Hour))
	if err != nil || !slices.Contains(gone, c.Status.InstanceProfile) {
		t.Errorf("collected %v, %v", gone, err)
	}
	if again := a.resolver().Resolve(t.Context(), c, time.Now()); again.Err != nil || again.Status.InstanceProfile != c.Status.InstanceProfile {
		t.Errorf("a profile that was deleted is not made again: %+v, %v", again.Status.InstanceProfile, again.Err)
	}
}

// A launch as the real protocol has it: template, fleet, tags, description, end, collection.
func TestLaunchToEnd(t *testing.T) {
	t.Parallel()
	for _, s := range standIns {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			launchToEnd(t, newAccount(t, s.start(t), "launched"))
		})
	}
}

func launchToEnd(t *testing.T, a *account) {
	c := a.resolved(t)
	f := fleet.New(a.ec2, a.cluster, time.Now)
	got, err := f.Launch(t.Context(), "token-launched", a.request(t, c, model.OnDemand, 2, "m5.large/"+moto.Region+"a", "m5.xlarge/"+moto.Region+"b"))
	if err != nil || len(got.Instances) != 2 || len(got.Errors) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	ids := []string{got.Instances[0].ID, got.Instances[1].ID}
	listed, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != 2 {
		t.Fatalf("%d instances listed, 2 were bought", len(listed))
	}
	for _, i := range listed {
		if !slices.Contains(ids, i.ID) || i.Tags[cloud.TagLaunch] != "l-launched" || i.Tags["team"] != "a" || i.CapacityType != model.OnDemand || !strings.HasPrefix(i.Zone, moto.Region) {
			t.Errorf("instance %+v", i)
		}
	}
	a.userDataIsSent(t)
	if err := f.Terminate(t.Context(), append(slices.Clone(ids), "i-0123456789abcdef0")); err != nil {
		t.Fatal(err)
	}
	after, err := f.Describe(t.Context(), append(ids, "i-0123456789abcdef0"))
	if err != nil || len(after) != 2 || !after[0].Gone() || !after[1].Gone() {
		t.Errorf("after the end: %+v, %v", after, err)
	}
	if left, err := f.List(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	later := fleet.New(a.ec2, a.cluster, func() time.Time { return time.Now().Add(time.Hour) })
	if gone, err := later.CollectTemplates(t.Context(), 10*time.Minute, ""); err != nil || len(gone) != 1 {
		t.Errorf("templates collected: %v, %v", gone, err)
	}
}

// userDataIsSent reads the template back and the NodeConfig out of it.
func (a *account) userDataIsSent(t *testing.T) {
	t.Helper()
	list, err := a.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{{Name: sdk.String("tag:eks:eks-cluster-name"), Values: []string{a.cluster}}}})
	if err != nil || len(list.LaunchTemplates) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	out, err := a.ec2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: list.LaunchTemplates[0].LaunchTemplateName, Versions: []string{"$Latest"}})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	data := out.LaunchTemplateVersions[0].LaunchTemplateData
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(data.UserData))
	if err != nil || !strings.Contains(string(text), "kind: NodeConfig") || !strings.Contains(string(text), "name: "+a.cluster) {
		t.Errorf("%v, user data %q", err, text)
	}
	if data.MetadataOptions == nil || data.MetadataOptions.HttpTokens != types.LaunchTemplateHttpTokensStateRequired || len(data.BlockDeviceMappings) != 1 ||
		sdk.ToInt32(data.BlockDeviceMappings[0].Ebs.VolumeSize) != 20 {
		t.Errorf("template %+v", data)
	}
}
