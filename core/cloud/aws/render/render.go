package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

// MaxOffers is how many lines one fleet call names at most.
const MaxOffers = 60

// Request is everything that a launch sends: templates that must exist, and the fleet call that names them.
type Request struct {
	Templates []Template            `json:"templates"`
	Fleet     *ec2.CreateFleetInput `json:"fleet"` // without client token
	Warnings  []string              `json:"warnings,omitempty"`
}

// Template is a launch template. Its name is a hash of its content: one that exists under the name is the same.
type Template struct {
	Name string                           `json:"name"`
	Data *types.RequestLaunchTemplateData `json:"data"`
	Tags map[string]string                `json:"tags"`
}

// Type is what a launch must know of an instance type under the class.
type Type struct {
	Labels  map[string]string // as the node will carry them
	MaxPods int32
}

// Input is a launch with what it depends on.
type Input struct {
	Launch  cloud.Launch
	Class   *awsv1.EC2NodeClass // with the status that it resolved to
	Cluster userdata.Cluster
	Region  string
	// Type finds an instance type; ok is false where it is not known.
	Type func(name string) (t Type, ok bool)
	// Subnet picks the subnet of a zone, of those in the class's status; empty where there is none. Nil takes the first.
	Subnet func(zone string) string
	// Reservations says whether reserved capacity is bought by name only, so that no other launch uses it up.
	Reservations bool
}

// fault is an error about the class or the request, which sending again does not mend.
func fault(code, format string, args ...any) error {
	return &cloud.Error{Op: "Render", Kind: cloud.Template, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Render writes the request of a launch.
func Render(in Input) (*Request, error) {
	if in.Class.Status.InstanceProfile == "" && in.Class.Spec.InstanceProfile == nil {
		return nil, fault("InstanceProfileNotReady", "EC2NodeClass %s has no instance profile yet", in.Class.Name)
	}
	if len(in.Class.Status.SecurityGroups) == 0 {
		return nil, fault("SecurityGroupsNotFound", "EC2NodeClass %s has no security group", in.Class.Name)
	}
	r := &renderer{Input: in, byName: map[string]int{}}
	for _, o := range in.Launch.Offers {
		if r.offers == MaxOffers {
			break
		}
		if err := r.offer(o); err != nil {
			return nil, err
		}
	}
	if r.offers == 0 {
		if r.skipped != nil {
			return nil, r.skipped
		}
		return nil, fault("NoOffers", "launch %s names nothing to buy", in.Launch.ID)
	}
	r.fleet()
	return &r.out, nil
}

// Encode writes the request as the ledger stores it. Fields that are not set are left out: the SDK's types have hundreds,
// and more with each of its releases.
func (r *Request) Encode() ([]byte, error) { return compact(r) }

func compact(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(prune(tree))
}

func prune(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if e == nil || e == "" {
				delete(x, k)
			} else {
				x[k] = prune(e)
			}
		}
	case []any:
		for i, e := range x {
			x[i] = prune(e)
		}
	}
	return v
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*Request, error) {
	r := &Request{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("stored launch request: %w", err)
	}
	if r.Fleet == nil {
		return nil, fmt.Errorf("stored launch request: no fleet in it")
	}
	return r, nil
}

type renderer struct {
	Input
	out     Request
	byName  map[string]int // template name -> index
	offers  int
	skipped error // why the first offer that was left out was
}

// offer adds one line. Offers that the class cannot launch are left out, as long as others remain.
func (r *renderer) offer(o cloud.Offer) error {
	t, ok := r.Type(o.InstanceType)
	if !ok {
		return r.skip(fault("UnknownInstanceType", "instance type %s is not known", o.InstanceType))
	}
	ami, ok := ImageFor(r.Class, t.Labels)
	if !ok {
		return r.skip(fault("AMINotFound", "EC2NodeClass %s has no image for instance type %s", r.Class.Name, o.InstanceType))
	}
	subnet := r.subnet(o.Zone)
	if subnet == "" {
		return r.skip(fault("SubnetsNotFound", "EC2NodeClass %s has no subnet in zone %s", r.Class.Name, o.Zone))
	}
	name, err := r.template(ami, t, o)
	if err != nil {
		return err
	}
	i, ok := r.byName[name]
	if !ok {
		return fault("Template", "template %s was not made", name)
	}
	if r.out.Fleet == nil {
		r.out.Fleet = &ec2.CreateFleetInput{}
	}
	for len(r.out.Fleet.LaunchTemplateConfigs) <= i {
		r.out.Fleet.LaunchTemplateConfigs = append(r.out.Fleet.LaunchTemplateConfigs, types.FleetLaunchTemplateConfigRequest{})
	}
	config := &r.out.Fleet.LaunchTemplateConfigs[i]
	config.LaunchTemplateSpecification = &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: sdk.String("$Latest")}
	priority := o.USDPerHour
	if r.Launch.Prioritized {
		priority = o.Priority
	}
	config.Overrides = append(config.Overrides, types.FleetLaunchTemplateOverridesRequest{
		InstanceType: types.InstanceType(o.InstanceType), SubnetId: sdk.String(subnet), ImageId: sdk.String(ami.ID),
		AvailabilityZone: sdk.String(o.Zone), // so that errors name the zone
		Priority:         &priority,
	})
	r.offers++
	return nil
}

func (r *renderer) skip(err error) error {
	if r.skipped == nil {
		r.skipped = err
	}
	return nil
}

func (r *renderer) subnet(zone string) string {
	if r.Subnet != nil {
		return r.Subnet(zone)
	}
	for _, s := range r.Class.Status.Subnets {
		if s.Zone == zone {
			return s.ID
		}
	}
	return ""
}

// template makes the template of an image and an instance type, unless the same is there already.
func (r *renderer) template(ami awsv1.AMI, t Type, o cloud.Offer) (string, error) {
	text, err := r.userData(ami, t)
	if err != nil {
		return "", err
	}
	data := r.data(ami, t, o, text)
	name, err := templateName(r.Class.Name, data)
	if err != nil {
		return "", err
	}
	if _, ok := r.byName[name]; !ok {
		r.byName[name] = len(r.out.Templates)
		r.out.Templates = append(r.out.Templates, Template{Name: name, Data: data, Tags: r.tags()})
	}
	return name, nil
}

func (r *renderer) userData(ami awsv1.AMI, t Type) (string, error) {
	labels := maps.Clone(r.Launch.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[model.LabelCapacityType] = r.Launch.CapacityType
	kubelet, errs := r.Class.Spec.KubeletConfig()
	if len(errs) > 0 {
		return "", fault(keys.ReasonInvalidKubelet, "EC2NodeClass %s: %s: %s", r.Class.Name, errs[0].Path, errs[0].Message)
	}
	in := userdata.Input{
		Family: r.Class.Spec.Family(), Cluster: r.Cluster, Labels: labels, Taints: r.Launch.Taints, MaxPods: t.MaxPods, Kubelet: kubelet,
		RAID0: r.Class.Spec.InstanceStorePolicy != nil, ImageVersion: imageVersion(&r.Class.Spec, ami),
	}
	if r.Class.Spec.Kubelet != nil {
		in.KubeletRaw = r.Class.Spec.Kubelet.Raw
	}
	if r.Class.Spec.UserData != nil {
		in.User = *r.Class.Spec.UserData
	}
	out, err := userdata.Render(in)
	if err != nil {
		return "", fault("UserData", "EC2NodeClass %s: %v", r.Class.Name, err)
	}
	for _, w := range out.Warnings {
		if !slices.Contains(r.out.Warnings, w) {
			r.out.Warnings = append(r.out.Warnings, w)
		}
	}
	return base64.StdEncoding.EncodeToString(out.Text), nil
}

// imageVersion is the release of an image, where its alias or name tells.
func imageVersion(s *awsv1.EC2NodeClassSpec, ami awsv1.AMI) string {
	if alias, ok, err := s.Alias(); ok && err == nil {
		return alias.Version
	}
	for _, part := range strings.FieldsFunc(ami.Name, func(c rune) bool { return c == '-' || c == '/' }) {
		if strings.HasPrefix(part, "v") && strings.Contains(part, ".") {
			return strings.TrimPrefix(part, "v")
		}
	}
	return ""
}

// tags are the user's under those of the system.
func (r *renderer) tags() map[string]string {
	out := maps.Clone(r.Class.Spec.Tags)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, r.Launch.Tags)
	return out
}

func list(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	return out
}

// fleet fills the call around its lines.
func (r *renderer) fleet() {
	f := r.out.Fleet
	f.Type = types.FleetTypeInstant
	f.TargetCapacitySpecification = &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(int32(len(r.Launch.Claims)))}
	switch r.Launch.CapacityType {
	case model.Spot:
		f.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		f.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
		if r.Launch.Prioritized {
			f.SpotOptions.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
	default:
		f.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeOnDemand
		f.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
		if r.Launch.Prioritized {
			f.OnDemandOptions.AllocationStrategy = types.FleetOnDemandAllocationStrategyPrioritized
		}
	}
	f.Context = r.Class.Spec.Context
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeFleet} {
		f.TagSpecifications = append(f.TagSpecifications, types.TagSpecification{ResourceType: kind, Tags: list(r.tags())})
	}
}
