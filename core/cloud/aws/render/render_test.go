package render_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/render"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

const images = `"amis":[
	{"id":"ami-gpu","name":"gpu","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"Exists"}]},
	{"id":"ami-amd","name":"amd","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"DoesNotExist"}]},
	{"id":"ami-arm","name":"arm","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["arm64"]},{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"DoesNotExist"}]}]`

const network = `"subnets":[{"id":"subnet-a","zone":"eu-west-1a"},{"id":"subnet-a2","zone":"eu-west-1a"},{"id":"subnet-b","zone":"eu-west-1b"}],
	"securityGroups":[{"id":"sg-1"},{"id":"sg-2"}],"instanceProfile":"prod_123"`

func class(t testing.TB, spec string) *awsv1.EC2NodeClass {
	t.Helper()
	if spec == "" {
		spec = `"amiSelectorTerms":[{"alias":"al2023@latest"}],"role":"node"`
	}
	c := &awsv1.EC2NodeClass{}
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"default"},"spec":{`+spec+`},"status":{`+images+`,`+network+`}}`), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// input is a launch of two claims on what the offers name: type/zone.
func input(c *awsv1.EC2NodeClass, capacity string, offers ...string) render.Input {
	in := render.Input{
		Launch: cloud.Launch{
			ID: "l-1", Claims: []string{"default-1", "default-2"}, Pool: "default", NodeClass: "default", CapacityType: capacity,
			Labels: map[string]string{"karpenter.sh/nodepool": "default", "team": "a"},
			Taints: []model.Taint{{Key: "karpenter.sh/unregistered", Effect: model.NoExecute}},
			Tags: map[string]string{"eks:eks-cluster-name": "prod", "kubernetes.io/cluster/prod": "owned", "karpenter.sh/nodepool": "default",
				"karpenter.k8s.aws/ec2nodeclass": "default", cloud.TagLaunch: "l-1"},
		},
		Class:   c,
		Cluster: userdata.Cluster{Name: "prod", Endpoint: "https://x.eks.amazonaws.com", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: "10.100.0.10"},
		Region:  "eu-west-1",
		Type: func(name string) (render.Type, bool) {
			t := render.Type{Labels: map[string]string{"kubernetes.io/arch": "amd64"}, MaxPods: 58}
			switch {
			case strings.HasPrefix(name, "m7g"):
				t.Labels["kubernetes.io/arch"] = "arm64"
			case strings.HasPrefix(name, "g5"):
				t.Labels["karpenter.k8s.aws/instance-gpu-count"] = "1"
			case name == "m7i.large":
				t.MaxPods = 29
			case strings.HasPrefix(name, "p4d"):
				t.EFA = 4
			case name == "none.large":
				return render.Type{}, false
			case name == "mac.large":
				t.Labels["kubernetes.io/arch"] = "arm64_mac"
			}
			return t, true
		},
	}
	for i, o := range offers {
		ty, zone, _ := strings.Cut(o, "/")
		in.Launch.Offers = append(in.Launch.Offers, cloud.Offer{InstanceType: ty, Zone: zone, USDPerHour: 0.1 + float64(i)/100, Priority: float64(i)})
	}
	return in
}

func request(t testing.TB, in render.Input) *render.Request {
	t.Helper()
	r, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const everyField = `"amiFamily":"AL2023","amiSelectorTerms":[{"id":"ami-amd"}],"role":"node","tags":{"team":"a","karpenter.sh/nodepool":"mine"},"kubelet":{"maxPods":58},
	"blockDeviceMappings":[{"deviceName":"/dev/xvda","rootVolume":true,"ebs":{"volumeSize":"100G","volumeType":"io2","iops":5000,"throughput":200,"encrypted":true,"deleteOnTermination":false,
		"kmsKeyID":"key","snapshotID":"snap","volumeInitializationRate":150}}],
	"networkInterfaces":[{"networkCardIndex":0,"deviceIndex":0,"interfaceType":"interface"},{"networkCardIndex":1,"deviceIndex":1,"interfaceType":"efa-only"}],
	"detailedMonitoring":true,"associatePublicIPAddress":false,"ipPrefixCount":2,"context":"ctx","instanceStorePolicy":"RAID0",
	"metadataOptions":{"httpEndpoint":"enabled","httpTokens":"optional","httpPutResponseHopLimit":3,"httpProtocolIPv6":"enabled"},
	"connectionTracking":{"tcpEstablishedTimeout":100,"udpTimeout":40},"cpuOptions":{"nestedVirtualization":"enabled"},"placementGroupSelector":{"id":"pg-1"}`

func TestGolden(t *testing.T) {
	t.Parallel()
	ordered := input(class(t, ""), "spot", "m7i.xlarge/eu-west-1b", "m7g.xlarge/eu-west-1a")
	ordered.Launch.Prioritized = true
	v6 := input(class(t, ""), "on-demand", "m7i.xlarge/eu-west-1a")
	v6.Cluster.DNS = "fd00::a"
	reserved := input(class(t, ""), "reserved", "m7i.xlarge/eu-west-1a")
	reserved.Reservations, reserved.Launch.Offers[0].ReservationID = true, "cr-1"
	block := input(class(t, ""), "reserved", "m7i.xlarge/eu-west-1a")
	block.Reservations, block.Launch.Offers[0].ReservationID, block.Launch.Offers[0].ReservationType = true, "cr-2", "capacity-block"
	lent := input(class(t, ""), "reserved", "m7i.xlarge/eu-west-1a")
	lent.Reservations, lent.Launch.Offers[0].ReservationID, lent.Launch.Offers[0].Interruptible = true, "cr-3", true
	efa := input(class(t, ""), "on-demand", "p4d.24xlarge/eu-west-1a", "m7i.xlarge/eu-west-1a")
	efa.Launch.EFA = true
	part := input(class(t, `"amiFamily":"AL2023","amiSelectorTerms":[{"id":"ami-amd"}],"role":"node","placementGroupSelector":{"name":"kafka"}`), "on-demand", "m7i.xlarge/eu-west-1a")
	part.Launch.Labels = map[string]string{"karpenter.k8s.aws/placement-group-partition": "3"}
	for name, in := range map[string]render.Input{
		"partition": part,
		"block":     block, "interruptible": lent, "efa": efa,
		"spot":      input(class(t, ""), "spot", "m7i.xlarge/eu-west-1a", "m7g.xlarge/eu-west-1b", "m7i.2xlarge/eu-west-1b", "m7i.large/eu-west-1a"),
		"on-demand": input(class(t, ""), "on-demand", "g5.xlarge/eu-west-1a"),
		"ordered":   ordered,
		"ipv6":      v6,
		"reserved":  reserved,
		"fields":    input(class(t, everyField), "on-demand", "m7i.xlarge/eu-west-1a"),
		"custom":    input(class(t, `"amiFamily":"Custom","amiSelectorTerms":[{"id":"ami-amd"}],"instanceProfile":"mine","userData":"hello"`), "on-demand", "m7i.xlarge/eu-west-1a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := request(t, in).Encode()
			if err != nil {
				t.Fatal(err)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, b, "", " "); err != nil {
				t.Fatal(err)
			}
			text := indented.Bytes()
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A stored request is sent again byte for byte, also by the next release.
func TestEncodeDecode(t *testing.T) {
	t.Parallel()
	r := request(t, input(class(t, everyField), "spot", "m7i.xlarge/eu-west-1a"))
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := render.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Encode()
	if err != nil || string(again) != string(b) {
		t.Errorf("%v\n%s\n%s", err, b, again)
	}
	for _, text := range []string{"", "{}", "[]", `{"fleet":3}`} {
		if _, err := render.Decode([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Types with one image and the same limit of pods share a template; others do not.
func TestTemplatesAreSharedByWhatTheyHold(t *testing.T) {
	t.Parallel()
	r := request(t, input(class(t, ""), "spot", "m7i.xlarge/eu-west-1a", "m7g.xlarge/eu-west-1b", "m7i.2xlarge/eu-west-1b", "m7i.large/eu-west-1a"))
	var got [][]string
	for i, c := range r.Fleet.LaunchTemplateConfigs {
		if *c.LaunchTemplateSpecification.LaunchTemplateName != r.Templates[i].Name {
			t.Errorf("line %d uses %s, the template is %s", i, *c.LaunchTemplateSpecification.LaunchTemplateName, r.Templates[i].Name)
		}
		var line []string
		for _, o := range c.Overrides {
			line = append(line, string(o.InstanceType)+" "+*o.SubnetId+" "+*o.ImageId)
		}
		got = append(got, line)
	}
	want := [][]string{{"m7i.xlarge subnet-a ami-amd", "m7i.2xlarge subnet-b ami-amd"}, {"m7g.xlarge subnet-b ami-arm"}, {"m7i.large subnet-a ami-amd"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Another launch with the same content uses the same template, whatever its id.
func TestTheNameIsTheContent(t *testing.T) {
	t.Parallel()
	name := func(change func(*render.Input)) string {
		in := input(class(t, ""), "spot", "m7i.xlarge/eu-west-1a")
		change(&in)
		return request(t, in).Templates[0].Name
	}
	base := name(func(*render.Input) {})
	for what, tc := range map[string]struct {
		change func(*render.Input)
		same   bool
	}{
		"another launch id": {func(in *render.Input) { in.Launch.ID = "l-2"; in.Launch.Tags[cloud.TagLaunch] = "l-2" }, true},
		"another zone":      {func(in *render.Input) { in.Launch.Offers[0].Zone = "eu-west-1b" }, true},
		"more claims":       {func(in *render.Input) { in.Launch.Claims = append(in.Launch.Claims, "x") }, true},
		"another label":     {func(in *render.Input) { in.Launch.Labels["team"] = "b" }, false},
		"another taint":     {func(in *render.Input) { in.Launch.Taints = append(in.Launch.Taints, model.Taint{Key: "x"}) }, false},
		"another class":     {func(in *render.Input) { in.Class.Name = "other" }, false},
		"another group":     {func(in *render.Input) { in.Class.Status.SecurityGroups[0].ID = "sg-9" }, false},
		"another capacity":  {func(in *render.Input) { in.Launch.CapacityType = "on-demand" }, false},
		"another tag": {func(in *render.Input) {
			in.Class.Spec.Tags = map[string]string{"x": "y"}
		}, false},
	} {
		if got := name(tc.change); (got == base) != tc.same {
			t.Errorf("%s: name %s beside %s, want the same: %v", what, got, base, tc.same)
		}
	}
}

func TestTheSystemsTagsWin(t *testing.T) {
	t.Parallel()
	c := class(t, "")
	c.Spec.Tags = map[string]string{"karpenter.sh/nodepool": "mine", "team": "a"}
	r := request(t, input(c, "spot", "m7i.xlarge/eu-west-1a"))
	for _, s := range r.Fleet.TagSpecifications {
		tags := map[string]string{}
		for _, x := range s.Tags {
			tags[*x.Key] = *x.Value
		}
		if tags["karpenter.sh/nodepool"] != "default" || tags["team"] != "a" || tags[cloud.TagLaunch] != "l-1" {
			t.Errorf("%s: %v", s.ResourceType, tags)
		}
	}
}

func TestAtMostSixtyLines(t *testing.T) {
	t.Parallel()
	n := 0
	for _, c := range request(t, input(class(t, ""), "spot", slices.Repeat([]string{"m7i.xlarge/eu-west-1a"}, 100)...)).Fleet.LaunchTemplateConfigs {
		n += len(c.Overrides)
	}
	if n != render.MaxOffers {
		t.Errorf("%d lines, want %d", n, render.MaxOffers)
	}
}

func TestUserDataKnowsItsCluster(t *testing.T) {
	t.Parallel()
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(request(t, input(class(t, ""), "spot", "m7i.large/eu-west-1a")).Templates[0].Data.UserData))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: prod", "maxPods: 29", "karpenter.sh/capacity-type=spot", "key: karpenter.sh/unregistered"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("user data lacks %q:\n%s", want, text)
		}
	}
}

func TestWhatCannotBeLaunchedIsNamed(t *testing.T) {
	t.Parallel()
	without := func(f func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
		c := class(t, "")
		f(c)
		return c
	}
	for name, tc := range map[string]struct {
		in   render.Input
		want string
	}{
		"no profile":     {input(without(func(c *awsv1.EC2NodeClass) { c.Status.InstanceProfile = "" }), "spot", "m7i.large/eu-west-1a"), "no instance profile"},
		"no group":       {input(without(func(c *awsv1.EC2NodeClass) { c.Status.SecurityGroups = nil }), "spot", "m7i.large/eu-west-1a"), "no security group"},
		"no subnet":      {input(class(t, ""), "spot", "m7i.large/eu-west-1c"), "no subnet in zone eu-west-1c"},
		"no image":       {input(class(t, ""), "spot", "mac.large/eu-west-1a"), "no image for instance type mac.large"},
		"unknown type":   {input(class(t, ""), "spot", "none.large/eu-west-1a"), "none.large is not known"},
		"nothing at all": {input(class(t, ""), "spot"), "names nothing to buy"},
		"user data":      {input(class(t, `"amiFamily":"Bottlerocket","amiSelectorTerms":[{"id":"ami-amd"}],"role":"r","userData":"echo hello"`), "spot", "m7i.large/eu-west-1a"), "not TOML"},
		"kubelet":        {input(class(t, `"amiFamily":"AL2023","amiSelectorTerms":[{"id":"ami-amd"}],"role":"r","kubelet":{"x":1}`), "spot", "m7i.large/eu-west-1a"), "spec.kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render.Render(tc.in)
			var e *cloud.Error
			if !errors.As(err, &e) || e.Kind != cloud.Template || !strings.Contains(e.Message, tc.want) {
				t.Errorf("error %v, want one of kind %s with %q", err, cloud.Template, tc.want)
			}
		})
	}
	// what can be launched is, beside what cannot
	r := request(t, input(class(t, ""), "spot", "mac.large/eu-west-1a", "m7i.large/eu-west-1c", "m7i.large/eu-west-1a"))
	if len(r.Fleet.LaunchTemplateConfigs) != 1 || len(r.Fleet.LaunchTemplateConfigs[0].Overrides) != 1 {
		t.Errorf("lines %v", r.Fleet.LaunchTemplateConfigs)
	}
}
