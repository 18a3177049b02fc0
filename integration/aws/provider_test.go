package aws_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud"
	aws "github.com/weir-project/weir/core/cloud/aws"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/aws/moto"
)

func (a *account) provider(t testing.TB) *aws.Provider {
	t.Helper()
	p := aws.New(aws.Config{
		Region: moto.Region, Now: time.Now,
		Cluster: userdata.Cluster{Name: a.cluster, Endpoint: "https://x", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16"},
	}, a.ec2, nil)
	if err := p.Refresh(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return p
}

// unavailable is the reasons for which offerings of a type are not to be had.
func unavailable(list []*model.Offering, name string) []string {
	var out []string
	for _, o := range list {
		if o.Type.Name == name && !o.Available {
			out = append(out, o.Zone+": "+o.Unavailable)
		}
	}
	return out
}

// The port as a whole: offerings of a class that is ready, a launch, the listing, the end.
func TestProvider(t *testing.T) {
	t.Parallel()
	for _, s := range standIns {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			provider(t, newAccount(t, s.start(t), "provider"))
		})
	}
}

func provider(t *testing.T, a *account) {
	p := a.provider(t)
	class := &model.NodeClass{Name: "default", Family: "AL2023"}
	if _, err := p.Offerings(t.Context(), class); cloud.KindOf(err) != cloud.Template {
		t.Errorf("a class that nobody looked at: %v", err)
	}
	c := a.class(t)
	p.SetClass(c, nil)
	list, err := p.Offerings(t.Context(), class)
	if err != nil || len(list) != 0 {
		t.Errorf("a class without subnets offers %d things, %v", len(list), err)
	}
	r := a.resolver().Resolve(t.Context(), c, time.Now())
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	c.Status = r.Status
	p.SetClass(c, r.Free)
	list, err = p.Offerings(t.Context(), class)
	if err != nil || len(list) < 500 {
		t.Fatalf("%d offerings, %v", len(list), err)
	}
	embedded := catalogue.Embedded().Get("m5.large")
	for _, o := range list {
		if o.Type.Name == "m5.large" && o.CapacityType == model.OnDemand && (!o.Available || o.USDPerHour != embedded.OnDemandUSD || o.PriceSource != "embedded") {
			t.Errorf("offering %+v", o)
		}
	}
	// the only image is for amd64
	if why := unavailable(list, "m6g.large"); len(why) == 0 || !strings.Contains(why[0], "no image") {
		t.Errorf("arm machines: %q", why)
	}

	launch := cloud.Launch{
		ID: "l-provider", Claims: []string{"default-1", "default-2"}, Pool: "default", NodeClass: "default", CapacityType: model.OnDemand,
		Offers: []cloud.Offer{{InstanceType: "m5.large", Zone: moto.Region + "a", USDPerHour: 0.096}, {InstanceType: "m5.large", Zone: moto.Region + "b", USDPerHour: 0.096}},
		Tags:   map[string]string{keys.ClusterTag: a.cluster, keys.NodePool: "default", keys.NodeClassLabel: "default", cloud.TagLaunch: "l-provider"},
	}
	request, err := p.Render(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Render(t.Context(), launch)
	if err != nil || string(again) != string(request) {
		t.Errorf("the same launch is written in two ways: %v", err)
	}
	got, err := p.Launch(t.Context(), "token-provider", request)
	if err != nil || len(got.Instances) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if err := p.Terminate(t.Context(), []string{got.Instances[0].ID, got.Instances[1].ID}); err != nil {
		t.Error(err)
	}

	// what EC2 says of a full subnet keeps the zone shut until the subnets are read again
	p.SetClass(c, map[string]int{a.subnets[0]: 0})
	list, err = p.Offerings(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if why := unavailable(list, "m5.large"); len(why) == 0 || !strings.Contains(why[0], "free addresses") || strings.HasPrefix(why[0], moto.Region+"b") {
		t.Errorf("with a full subnet: %q", why)
	}
	changed := c.DeepCopy()
	changed.Generation++
	p.SetClass(changed, nil)
	list, err = p.Offerings(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if why := unavailable(list, "m5.large"); len(why) != 4 || !strings.Contains(why[0], "has not been looked at since") {
		t.Errorf("a class that was changed: %q", why)
	}
	if _, err := p.Render(t.Context(), launch); cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), "NodeClassNotReady") {
		t.Errorf("a launch from it: %v", err)
	}
	unknown, ended := c.DeepCopy(), c.DeepCopy()
	for i := range unknown.Status.Conditions {
		unknown.Status.Conditions[i].Status = "Unknown"
	}
	p.SetClass(unknown, nil)
	if _, err := p.Render(t.Context(), launch); cloud.KindOf(err) != cloud.Internal || !strings.Contains(err.Error(), "NodeClassReadinessUnknown") {
		t.Errorf("a launch from a class of which it is not known whether it is ready: %v", err)
	}
	ended.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	p.SetClass(ended, nil)
	if _, err := p.Render(t.Context(), launch); cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), cloud.CodeTerminating) {
		t.Errorf("a launch from a class that is being deleted: %v", err)
	}
	p.DropClass("default")
	if _, err := p.Render(t.Context(), launch); cloud.KindOf(err) != cloud.Template {
		t.Errorf("a launch from a class that is gone: %v", err)
	}
}
