package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/cloud/aws/render"
	"github.com/weir-project/weir/core/model"
)

// EC2 is the calls that are used.
type EC2 interface {
	CreateFleet(context.Context, *ec2.CreateFleetInput, ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error)
	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	DeleteLaunchTemplate(context.Context, *ec2.DeleteLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error)
	ec2.DescribeLaunchTemplatesAPIClient
	ec2.DescribeInstancesAPIClient
	TerminateInstances(context.Context, *ec2.TerminateInstancesInput, ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
}

// Fleet is the instances of one cluster. It is safe for concurrent use.
type Fleet struct {
	ec2     EC2
	cluster string
	now     func() time.Time
	// Full is told of subnets without free addresses; may be nil.
	Full func(subnet string)

	mu        sync.Mutex
	templates map[string]time.Time // name -> when it was last used
}

// New makes the fleet of a cluster.
func New(e EC2, cluster string, now func() time.Time) *Fleet {
	return &Fleet{ec2: e, cluster: cluster, now: now, templates: map[string]time.Time{}}
}

const (
	codeNoTemplate  = "InvalidLaunchTemplateName.NotFoundException"
	codeTemplateIs  = "InvalidLaunchTemplateName.AlreadyExistsException"
	codeNoInstance  = "InvalidInstanceID.NotFound"
	codeSubnetFull  = "InsufficientFreeAddressesInSubnet"
	maxFilterValues = 200
	maxTerminate    = 500
)

// Launch sends a request that render.Render wrote, under a client token. The same request under the same token answers the
// same instances.
func (f *Fleet) Launch(ctx context.Context, token string, request []byte) (cloud.Answer, error) {
	r, err := render.Decode(request)
	if err != nil {
		return cloud.Answer{}, &cloud.Error{Op: "CreateFleet", Kind: cloud.Template, Code: "MalformedRequest", Message: err.Error()}
	}
	r.Fleet.ClientToken = &token
	for attempt := 0; ; attempt++ {
		for _, t := range r.Templates {
			if err := f.ensure(ctx, t); err != nil {
				return cloud.Answer{}, err
			}
		}
		out, err := f.ec2.CreateFleet(ctx, r.Fleet)
		if err == nil && attempt == 0 && len(out.Instances) == 0 && missingTemplate(out.Errors) {
			err = &cloud.Error{Op: "CreateFleet", Kind: cloud.NotFound, Code: codeNoTemplate, Message: "a launch template is gone"}
		}
		if awserr.Is(err, codeNoTemplate) && attempt == 0 {
			f.forget(r.Templates) // somebody deleted it: make it again
			continue
		}
		if err != nil {
			return cloud.Answer{}, awserr.Of("CreateFleet", err)
		}
		return f.answer(r, out), nil
	}
}

func missingTemplate(errs []types.CreateFleetError) bool {
	return slices.ContainsFunc(errs, func(e types.CreateFleetError) bool { return sdk.ToString(e.ErrorCode) == codeNoTemplate })
}

func (f *Fleet) forget(list []render.Template) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range list {
		delete(f.templates, t.Name)
	}
}

// ensure makes a template that is not there. Its name is its content, so that one that is there is right.
func (f *Fleet) ensure(ctx context.Context, t render.Template) error {
	f.mu.Lock()
	_, known := f.templates[t.Name]
	f.mu.Unlock()
	if !known {
		out, err := f.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{t.Name}})
		if err != nil && !awserr.Is(err, codeNoTemplate) {
			return awserr.Of("DescribeLaunchTemplates", err)
		}
		if err != nil || len(out.LaunchTemplates) == 0 {
			in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &t.Name, LaunchTemplateData: t.Data}
			var tags []types.Tag
			for _, k := range slices.Sorted(maps.Keys(t.Tags)) {
				if k != cloud.TagLaunch && k != keys.NodeClaimTag { // it serves other launches too
					tags = append(tags, types.Tag{Key: sdk.String(k), Value: sdk.String(t.Tags[k])})
				}
			}
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tags}}
			if _, err := f.ec2.CreateLaunchTemplate(ctx, in); err != nil && !awserr.Is(err, codeTemplateIs) {
				return awserr.Of("CreateLaunchTemplate", err)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.templates[t.Name] = f.now()
	return nil
}

// answer reads what a fleet bought and why not more.
func (f *Fleet) answer(r *render.Request, out *ec2.CreateFleetOutput) cloud.Answer {
	capacity, reserved := capacityType(r)
	var a cloud.Answer
	tags := map[string]string{}
	for _, s := range r.Fleet.TagSpecifications {
		if s.ResourceType == types.ResourceTypeInstance {
			for _, t := range s.Tags {
				tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
			}
		}
	}
	for _, i := range out.Instances {
		zone := sdk.ToString(i.AvailabilityZone)
		image := ""
		if l := i.LaunchTemplateAndOverrides; l != nil && l.Overrides != nil {
			zone, image = cmp.Or(zone, sdk.ToString(l.Overrides.AvailabilityZone), zoneOf(r, sdk.ToString(l.Overrides.SubnetId))), sdk.ToString(l.Overrides.ImageId)
		}
		for _, id := range i.InstanceIds {
			one := cloud.Instance{ID: id, Type: string(i.InstanceType), Zone: zone, CapacityType: capacity, ImageID: image, State: "pending", Launched: f.now(), Tags: maps.Clone(tags), Partition: partition(r)}
			if !reserved {
				one.CapacityType = lifecycle(string(i.Lifecycle), capacity)
			}
			a.Instances = append(a.Instances, one)
		}
	}
	seen := map[string]bool{}
	for _, e := range out.Errors {
		code, message := sdk.ToString(e.ErrorCode), sdk.ToString(e.ErrorMessage)
		for _, o := range f.offersOf(r, e) {
			key := code + "/" + o.InstanceType + "/" + o.Zone
			if seen[key] {
				continue
			}
			seen[key] = true
			kind := awserr.Kind(code)
			if isSpreadFull(e) {
				kind = cloud.Shortage
			}
			a.Errors = append(a.Errors, cloud.OfferError{Offer: o, Kind: kind, Code: code, Message: message, Reason: awserr.Reason(code, message)})
		}
	}
	return a
}

// partition is the one that a request asks for in its placement group, 0 = none.
func partition(r *render.Request) int {
	for _, t := range r.Templates {
		if p := t.Data.Placement; p != nil && p.PartitionNumber != nil {
			return int(*p.PartitionNumber)
		}
	}
	return 0
}

func lifecycle(l, byDefault string) string {
	switch l {
	case string(types.InstanceLifecycleSpot):
		return model.Spot
	case string(types.InstanceLifecycleOnDemand):
		return model.OnDemand
	}
	return byDefault
}

// capacityType is what a request buys.
func capacityType(r *render.Request) (capacity string, reserved bool) {
	for _, t := range r.Templates {
		if s := t.Data.CapacityReservationSpecification; s != nil && s.CapacityReservationTarget != nil {
			return model.Reserved, true
		}
	}
	if c := r.Fleet.TargetCapacitySpecification; c != nil && c.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeSpot {
		return model.Spot, false
	}
	return model.OnDemand, false
}

func zoneOf(r *render.Request, subnet string) string {
	for _, c := range r.Fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			if sdk.ToString(o.SubnetId) == subnet {
				return sdk.ToString(o.AvailabilityZone)
			}
		}
	}
	return ""
}

// offersOf is the lines that an error is about: the one it names, or all of them where it names none.
func (f *Fleet) offersOf(r *render.Request, e types.CreateFleetError) []cloud.Offer {
	var named *types.FleetLaunchTemplateOverrides
	if l := e.LaunchTemplateAndOverrides; l != nil {
		named = l.Overrides
	}
	if named != nil && sdk.ToString(e.ErrorCode) == codeSubnetFull && f.Full != nil && sdk.ToString(named.SubnetId) != "" {
		f.Full(*named.SubnetId)
	}
	spreadFull := isSpreadFull(e)
	var out []cloud.Offer
	for _, c := range r.Fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			zone := sdk.ToString(o.AvailabilityZone)
			if named != nil {
				asked := cmp.Or(sdk.ToString(named.AvailabilityZone), zoneOf(r, sdk.ToString(named.SubnetId)))
				if named.InstanceType != "" && named.InstanceType != o.InstanceType && !spreadFull || asked != "" && asked != zone {
					continue
				}
			}
			out = append(out, cloud.Offer{InstanceType: string(o.InstanceType), Zone: zone, Priority: sdk.ToFloat64(o.Priority)})
		}
	}
	return out
}

// isSpreadFull says whether a spread placement group has as many instances in a zone as it may have there, of whatever type.
func isSpreadFull(e types.CreateFleetError) bool {
	return strings.Contains(sdk.ToString(e.ErrorMessage), "limit of instances in this spread placement group")
}

// Terminate ends instances; those that are gone are fine.
func (f *Fleet) Terminate(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, maxTerminate) {
		_, err := f.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: chunk})
		if !awserr.Is(err, codeNoInstance, "InvalidInstanceID") {
			if err != nil {
				return awserr.Of("TerminateInstances", err)
			}
			continue
		}
		// One that is gone keeps the others alive: end those that are there.
		there, err := f.Describe(ctx, chunk)
		if err != nil {
			return err
		}
		var left []string
		for _, i := range there {
			if !i.Gone() {
				left = append(left, i.ID)
			}
		}
		if len(left) == 0 {
			continue
		}
		if _, err := f.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: left}); err != nil && !awserr.Is(err, codeNoInstance) {
			return awserr.Of("TerminateInstances", err)
		}
	}
	return nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// Describe reads instances by id; ones that do not exist are left out.
func (f *Fleet) Describe(ctx context.Context, ids []string) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for chunk := range slices.Chunk(ids, maxFilterValues) { // a filter does not fail where an id is gone
		got, err := f.describe(ctx, filter("instance-id", chunk...))
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// List reads all instances with the tags of the cluster, terminated ones left out.
func (f *Fleet) List(ctx context.Context) ([]cloud.Instance, error) {
	return f.describe(ctx, filter("tag:"+keys.ClusterTag, f.cluster), filter("tag-key", keys.NodeClassLabel),
		filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down"))
}

func (f *Fleet) describe(ctx context.Context, filters ...types.Filter) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for p := ec2.NewDescribeInstancesPaginator(f.ec2, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: sdk.Int32(1000)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, awserr.Of("DescribeInstances", err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out = append(out, instance(i))
			}
		}
	}
	slices.SortFunc(out, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func instance(i types.Instance) cloud.Instance {
	out := cloud.Instance{ID: sdk.ToString(i.InstanceId), Type: string(i.InstanceType), ImageID: sdk.ToString(i.ImageId), CapacityType: model.OnDemand,
		Launched: sdk.ToTime(i.LaunchTime), Tags: make(map[string]string, len(i.Tags))}
	if i.Placement != nil {
		out.Zone = sdk.ToString(i.Placement.AvailabilityZone)
		out.PlacementGroup, out.Partition = sdk.ToString(i.Placement.GroupId), int(sdk.ToInt32(i.Placement.PartitionNumber))
	}
	if i.State != nil {
		out.State = string(i.State.Name)
	}
	switch s := i.CapacityReservationSpecification; {
	case i.InstanceLifecycle == types.InstanceLifecycleTypeSpot || sdk.ToString(i.SpotInstanceRequestId) != "":
		out.CapacityType = model.Spot
	case sdk.ToString(i.CapacityReservationId) != "" && s != nil && s.CapacityReservationPreference == types.CapacityReservationPreferenceCapacityReservationsOnly:
		out.CapacityType = model.Reserved
	}
	out.Subnet, out.Reservation = sdk.ToString(i.SubnetId), sdk.ToString(i.CapacityReservationId)
	for _, g := range i.SecurityGroups {
		out.SecurityGroups = append(out.SecurityGroups, sdk.ToString(g.GroupId))
	}
	if i.IamInstanceProfile != nil {
		out.Profile = model.InstanceID(sdk.ToString(i.IamInstanceProfile.Arn)) // what follows the last slash
	}
	for _, t := range i.Tags {
		out.Tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return out
}

// Tag adds tags to an instance once its node is known.
func (f *Fleet) Tag(ctx context.Context, id string, tags map[string]string) error {
	in := &ec2.CreateTagsInput{Resources: []string{id}}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	_, err := f.ec2.CreateTags(ctx, in)
	return awserr.Of("CreateTags", err)
}

// CollectTemplates deletes the cluster's templates that were not used for a while, and answers their names. The class, where
// it is named, has ended: all of its templates go.
func (f *Fleet) CollectTemplates(ctx context.Context, unused time.Duration, class string) ([]string, error) {
	filters := []types.Filter{filter("tag:"+keys.ClusterTag, f.cluster)}
	if class != "" {
		filters = append(filters, filter("tag:"+keys.NodeClassLabel, class))
	}
	var gone []string
	for p := ec2.NewDescribeLaunchTemplatesPaginator(f.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: filters}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return gone, awserr.Of("DescribeLaunchTemplates", err)
		}
		for _, t := range page.LaunchTemplates {
			name := sdk.ToString(t.LaunchTemplateName)
			if !strings.HasPrefix(name, render.TemplatePrefix) || class == "" && f.inUse(name, sdk.ToTime(t.CreateTime), unused) {
				continue
			}
			_, err := f.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
			if err != nil && !awserr.Is(err, codeNoTemplate, "InvalidLaunchTemplateId.NotFound") {
				return gone, fmt.Errorf("launch template %s: %w", name, awserr.Of("DeleteLaunchTemplate", err))
			}
			f.forget([]render.Template{{Name: name}})
			gone = append(gone, name)
		}
	}
	if class != "" {
		return gone, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.templates, func(_ string, last time.Time) bool { return f.now().Sub(last) >= unused }) // those that others deleted
	return gone, nil
}

func (f *Fleet) inUse(name string, made time.Time, unused time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.templates[name]
	if made.After(last) {
		last = made
	}
	return f.now().Sub(last) < unused
}
