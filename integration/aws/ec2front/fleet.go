package ec2front

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
)

type refusal struct{ offering, code, message string }

// Refuse has fleets refuse an offering (type/zone/capacity type, each may be *) with a code; an empty code ends it.
func (f *Front) Refuse(offering, code, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = slices.DeleteFunc(f.refusals, func(r refusal) bool { return r.offering == offering })
	if code != "" {
		f.refusals = append(f.refusals, refusal{offering, code, message})
	}
}

// SetQuota limits the vCPUs of living instances of a capacity type; below 0: no limit.
func (f *Front) SetQuota(capacityType string, vcpus int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.quotas, capacityType)
	if vcpus >= 0 {
		f.quotas[capacityType] = vcpus
	}
}

// override is a line of a CreateFleet request, with the template that it is launched from.
type override struct {
	template     *template
	version      string
	instanceType string
	subnet       string
	zone         string
	image        string
	priority     string
	rank         float64
	reservation  string
	private      bool // EC2 may not take an open reservation for it
}

type order struct {
	capacityType string
	strategy     string
	total, min   int
	lines        []override
	tags         map[string]map[string]string
	token        string
}

// strategies by capacity type; the first is the default.
var strategies = map[string][]string{
	model.OnDemand: {sim.LowestPrice, sim.Prioritized},
	model.Spot:     {sim.LowestPrice, sim.Diversified, sim.CapacityOptimized, sim.CapacityOptimizedPrioritized, sim.PriceCapacityOptimized},
}

func (f *Front) readFleet(p *params) (*order, error) {
	o := &order{token: p.str("ClientToken")}
	p.str("Context")
	if kind := p.str("Type"); kind != "instant" {
		return nil, fail("InvalidParameterValue", "Type %q: only instant fleets are known here", kind)
	}
	target := p.get("TargetCapacitySpecification")
	var err error
	if o.total, err = target.integer("TotalTargetCapacity", 1, 10000, 0); err != nil || o.total == 0 {
		return nil, cmpErr(err, fail("InvalidFleetConfiguration", "TotalTargetCapacity must be at least 1"))
	}
	o.capacityType = target.str("DefaultTargetCapacityType")
	allowed := strategies[o.capacityType]
	if allowed == nil {
		return nil, fail("InvalidFleetConfiguration", "DefaultTargetCapacityType %q: expecting spot or on-demand", o.capacityType)
	}
	options := p.get(map[string]string{model.Spot: "SpotOptions", model.OnDemand: "OnDemandOptions"}[o.capacityType])
	if o.strategy = options.str("AllocationStrategy"); o.strategy == "" {
		o.strategy = allowed[0]
	}
	if !slices.Contains(allowed, o.strategy) {
		return nil, fail("InvalidParameterValue", "AllocationStrategy %q: expecting one of %s", o.strategy, strings.Join(allowed, ", "))
	}
	if o.min, err = options.integer("MinTargetCapacity", 0, o.total, 0); err != nil {
		return nil, err
	}
	if o.tags, err = p.tagSpecifications("instance", "volume", "fleet"); err != nil {
		return nil, err
	}
	configs, err := p.list("LaunchTemplateConfigs")
	if err != nil || len(configs) == 0 {
		return nil, cmpErr(err, fail("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs"))
	}
	for _, c := range configs {
		if err := f.readConfig(c, o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (f *Front) readConfig(c *params, o *order) error {
	spec := c.get("LaunchTemplateSpecification")
	name := spec.str("LaunchTemplateName") + spec.str("LaunchTemplateId")
	version := spec.str("Version")
	t := f.template(name)
	if t == nil {
		return noTemplate(name)
	}
	if !slices.Contains([]string{"$Latest", "$Default", "1"}, version) {
		return fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find the version %s of launch template %s", version, name)
	}
	items, err := c.list("Overrides")
	if err != nil {
		return err
	}
	for _, i := range items {
		l := override{template: t, version: version, instanceType: i.str("InstanceType"), subnet: i.str("SubnetId"), zone: i.str("AvailabilityZone"),
			image: i.str("ImageId"), priority: i.str("Priority")}
		if l.rank, err = i.number("Priority"); err != nil {
			return err
		}
		if l.image == "" {
			l.image = t.data.str("ImageId")
		}
		reserve := t.data.get("CapacityReservationSpecification")
		l.reservation = reserve.get("CapacityReservationTarget").str("CapacityReservationId")
		l.private = reserve.str("CapacityReservationPreference") == "none"
		o.lines = append(o.lines, l)
	}
	return nil
}

func (f *Front) subnetOf(id string) *subnet {
	for _, s := range f.subnets {
		if s.id == id {
			return s
		}
	}
	return nil
}

// wrong says what of a line can never be launched.
func (f *Front) wrong(l *override) error {
	s, t := f.subnetOf(l.subnet), f.opts.Table.Get(l.instanceType)
	image := slices.IndexFunc(f.images, func(i *Image) bool { return i.ID == l.image && !i.Gone })
	user, err := base64.StdEncoding.DecodeString(l.template.data.str("UserData"))
	switch {
	case t == nil:
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", l.instanceType)
	case s == nil:
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", l.subnet)
	case l.zone != "" && l.zone != s.zone:
		return fail("InvalidParameterValue", "The subnet %s is not in the availability zone %s", l.subnet, l.zone)
	case image < 0:
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", l.image)
	case f.images[image].Arch != arch(t):
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.", arch(t), f.images[image].Arch)
	case err != nil || len(user) > 16384:
		return fail("InvalidParameterValue", "User data is limited to 16384 bytes")
	}
	l.zone = s.zone
	if err := f.wrongPlacement(l, t); err != nil {
		return err
	}
	return f.wrongGroups(l, s)
}

func (f *Front) wrongGroups(l *override, s *subnet) error {
	ids, err := groupsOf(l.template)
	if err != nil {
		return err
	}
	for _, id := range ids {
		i := slices.IndexFunc(f.groups, func(g *group) bool { return g.id == id })
		switch {
		case i < 0:
			return fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		case f.groups[i].vpc != s.vpc:
			return fail("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, s.id)
		}
	}
	return nil
}

func groupsOf(t *template) ([]string, error) {
	cards, err := t.data.list("NetworkInterface")
	if err != nil || len(cards) == 0 {
		return nil, err
	}
	return cards[0].strings("SecurityGroupId")
}

func createFleet(f *Front, p *params) (func(*writer), error) {
	o, err := f.readFleet(p)
	if err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	fleetID := f.id("fleet-")
	bought, refused := f.buy(o)
	for _, b := range bought {
		if err := f.remember(o, b, fleetID); err != nil {
			return nil, err
		}
	}
	lifecycle := o.capacityType
	return func(w *writer) {
		w.el("fleetId", fleetID)
		set(w, "errorSet", refused, func(r sim.Refusal) {
			o.lines[r.Line].write(w)
			w.el("lifecycle", lifecycle)
			w.el("errorCode", r.Code)
			w.el("errorMessage", r.Message)
		})
		set(w, "fleetInstanceSet", slices.Sorted(maps.Keys(byLine(bought))), func(line int) {
			o.lines[line].write(w)
			w.el("lifecycle", lifecycle)
			w.texts("instanceIds", byLine(bought)[line]...)
			w.el("instanceType", o.lines[line].instanceType)
		})
	}, nil
}

func byLine(bought []sim.Bought) map[int][]string {
	out := map[int][]string{}
	for _, b := range bought {
		out[b.Line] = append(out[b.Line], b.ID)
	}
	return out
}

func (l *override) write(w *writer) {
	w.in("launchTemplateAndOverrides", func() {
		w.in("launchTemplateSpecification", func() {
			w.el("launchTemplateId", l.template.id)
			w.el("version", "1")
		})
		w.in("overrides", func() {
			w.el("instanceType", l.instanceType)
			w.el("subnetId", l.subnet)
			w.el("availabilityZone", l.zone)
			w.el("priority", l.priority)
			w.el("imageId", l.image)
		})
	})
}

// buy orders the fleet behind the front; what the front knows of networks, quotas and reservations refuses lines.
func (f *Front) buy(o *order) ([]sim.Bought, []sim.Refusal) {
	var refused []sim.Refusal
	var lines []int // of the request, by line of the order
	order := sim.Fleet{CapacityType: o.capacityType, Strategy: o.strategy, Count: o.total, Min: o.min, Launch: cloud.Launch{Tags: o.tags["instance"], ID: o.tags["instance"][cloud.TagLaunch]}}
	for i := range o.lines {
		l := &o.lines[i]
		if err := f.wrong(l); err != nil {
			var e *apiError
			if !errors.As(err, &e) {
				e = &apiError{Code: "InternalError", Message: err.Error()}
			}
			refused = append(refused, sim.Refusal{Line: i, Code: e.Code, Message: e.Message})
			continue
		}
		if l.reservation == "" && !l.private && o.capacityType == model.OnDemand {
			l.reservation = f.open(l)
		}
		t := f.opts.Table.Get(l.instanceType)
		usd := t.OnDemandUSD
		if o.capacityType == model.Spot {
			usd = f.spotPrice(t, l.zone)
		}
		lines = append(lines, i)
		order.Lines = append(order.Lines, sim.Line{InstanceType: l.instanceType, Zone: l.zone, Priority: l.rank, USDPerHour: usd, Reserved: l.reservation != ""})
	}
	used := f.used()
	order.Refuse = func(line int) (string, string) { return f.refuse(o, &o.lines[lines[line]], used) }
	order.Took = func(line int) {
		l := &o.lines[lines[line]]
		used[l.subnet]++
		if g, _, err := f.groupOf(l.template); err == nil && g != nil {
			used[inGroup(g.ID, l.zone)]++
		}
		used[o.capacityType] += int(f.opts.Table.Get(l.instanceType).VCPU)
		if l.reservation != "" {
			used[l.reservation]++
		}
	}
	bought, no := f.ec2.Order(order)
	for i := range bought {
		bought[i].Line = lines[bought[i].Line]
	}
	for _, r := range no {
		r.Line = lines[r.Line]
		refused = append(refused, r)
	}
	return bought, refused
}

// open is the open reservation that EC2 takes a launch from, as it does unless it is told not to.
func (f *Front) open(l *override) string {
	for _, r := range f.stock {
		if !r.Targeted && r.InstanceType == l.instanceType && r.Zone == l.zone && f.used()[r.ID] < r.Total {
			return r.ID
		}
	}
	return ""
}

func (f *Front) refuse(o *order, l *override, used map[string]int) (code, message string) {
	for _, r := range f.refusals {
		part := strings.Split(r.offering, "/")
		if len(part) == 3 && wild(part[0], l.instanceType) && wild(part[1], l.zone) && wild(part[2], o.capacityType) {
			return r.code, r.message
		}
	}
	if l.reservation != "" {
		i := slices.IndexFunc(f.stock, func(r *Reservation) bool { return r.ID == l.reservation })
		if i < 0 {
			return "InvalidCapacityReservationId.NotFound", fmt.Sprintf("The capacity reservation '%s' does not exist", l.reservation)
		}
		if used[l.reservation] >= f.stock[i].Total {
			return "ReservationCapacityExceeded", fmt.Sprintf("The capacity of reservation %s is used up", l.reservation)
		}
	}
	if code, message := f.crowded(l, used); code != "" {
		return code, message
	}
	vcpus := int(f.opts.Table.Get(l.instanceType).VCPU)
	if limit, ok := f.quotas[o.capacityType]; ok && used[o.capacityType]+vcpus > limit {
		if o.capacityType == model.Spot {
			return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
		}
		return "VcpuLimitExceeded", fmt.Sprintf("You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", limit)
	}
	if s := f.subnetOf(l.subnet); used[l.subnet] >= s.size {
		return "InsufficientFreeAddressesInSubnet", fmt.Sprintf("There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", l.subnet)
	}
	return "", ""
}

// runInstances can be tried only: instances are bought by fleets here.
func runInstances(f *Front, p *params) (func(*writer), error) {
	for _, name := range []string{"MinCount", "MaxCount"} {
		if _, err := p.integer(name, 1, 1000, 1); err != nil {
			return nil, err
		}
	}
	p.str("InstanceType")
	p.str("ClientToken") // the SDK sends one with every call
	if profile := p.get("IamInstanceProfile").str("Name"); strings.ContainsAny(profile, " /") {
		return nil, fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", profile)
	}
	if id := p.str("ImageId"); !slices.ContainsFunc(f.images, func(i *Image) bool { return i.ID == id }) {
		return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	if id := p.str("SubnetId"); f.subnetOf(id) == nil {
		return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
	}
	groups, err := p.strings("SecurityGroupId")
	if err != nil {
		return nil, err
	}
	for _, id := range groups {
		if !slices.ContainsFunc(f.groups, func(g *group) bool { return g.id == id }) {
			return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	if _, err := p.tagSpecifications("instance", "volume", "network-interface", "spot-instances-request"); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return nil, fail("UnsupportedOperation", "instances are bought by fleets here; RunInstances can be tried with DryRun only")
}
