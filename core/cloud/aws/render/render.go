package render

import (
	"encoding/json"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/launchtemplate"
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

// What templates are made of stands in the room of its own.
type (
	Template = launchtemplate.Template
	Type     = launchtemplate.Type
)

// TemplatePrefix begins the name of every launch template of ours.
const TemplatePrefix = launchtemplate.Prefix

// ImageFor is the image that a type of these labels is started from: the first of the class's that fits.
func ImageFor(class *awsv1.EC2NodeClass, labels map[string]string) (awsv1.AMI, bool) {
	return launchtemplate.ImageFor(class, labels)
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

// Render writes the request of a launch.
func Render(in Input) (*Request, error) {
	if err := launchtemplate.Check(in.Class); err != nil {
		return nil, err
	}
	r := &renderer{Input: in, byName: map[string]int{}}
	r.templates = launchtemplate.Input{
		Class: in.Class, Cluster: in.Cluster, Region: in.Region, Reservations: in.Reservations,
		EFA: in.Launch.EFA, CapacityType: in.Launch.CapacityType, Labels: in.Launch.Labels, Taints: in.Launch.Taints, Tags: in.Launch.Tags,
	}
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
		return nil, launchtemplate.Fault("NoOffers", "launch %s names nothing to buy", in.Launch.ID)
	}
	r.fleet()
	return &r.out, nil
}

// Encode writes the request as the ledger stores it.
func (r *Request) Encode() ([]byte, error) { return launchtemplate.Compact(r) }

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
	templates launchtemplate.Input
	out       Request
	byName    map[string]int // template name -> index
	offers    int
	skipped   error // why the first offer that was left out was
}

// offer adds one line. Offers that the class cannot launch are left out, as long as others remain.
func (r *renderer) offer(o cloud.Offer) error {
	t, ok := r.Type(o.InstanceType)
	if !ok {
		return r.skip(launchtemplate.Fault("UnknownInstanceType", "instance type %s is not known", o.InstanceType))
	}
	ami, ok := ImageFor(r.Class, t.Labels)
	if !ok {
		return r.skip(launchtemplate.Fault("AMINotFound", "EC2NodeClass %s has no image for instance type %s", r.Class.Name, o.InstanceType))
	}
	subnet := r.subnet(o.Zone)
	if subnet == "" {
		return r.skip(launchtemplate.Fault("SubnetsNotFound", "EC2NodeClass %s has no subnet in zone %s", r.Class.Name, o.Zone))
	}
	name, err := r.template(ami, t, o)
	if err != nil {
		return err
	}
	i, ok := r.byName[name]
	if !ok {
		return launchtemplate.Fault("Template", "template %s was not made", name)
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
	made, warnings, err := launchtemplate.New(&r.templates, ami, t, launchtemplate.Reservation{ID: o.ReservationID, Type: o.ReservationType, Interruptible: o.Interruptible})
	if err != nil {
		return "", err
	}
	for _, w := range warnings {
		if !slices.Contains(r.out.Warnings, w) {
			r.out.Warnings = append(r.out.Warnings, w)
		}
	}
	if _, ok := r.byName[made.Name]; !ok {
		r.byName[made.Name] = len(r.out.Templates)
		r.out.Templates = append(r.out.Templates, made)
	}
	return made.Name, nil
}

// fleet fills the call around its lines.
func (r *renderer) fleet() {
	f := r.out.Fleet
	f.Type = types.FleetTypeInstant
	f.TargetCapacitySpecification = &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(int32(len(r.Launch.Claims)))}
	switch first := r.Launch.Offers[0]; {
	case first.ReservationType == launchtemplate.ReservationBlock:
		f.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeCapacityBlock
	case first.ReservationID != "" && first.Interruptible:
		f.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeReservedCapacity
		f.ReservedCapacityOptions = &types.ReservedCapacityOptionsRequest{
			ReservationTypes: []types.FleetReservationType{types.FleetReservationTypeInterruptibleCapacityReservation},
		}
	case r.Launch.CapacityType == model.Spot:
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
		f.TagSpecifications = append(f.TagSpecifications, types.TagSpecification{ResourceType: kind, Tags: launchtemplate.List(r.templates.AllTags())})
	}
}
