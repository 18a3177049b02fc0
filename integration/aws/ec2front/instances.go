package ec2front

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
)

// machine is what the front knows of an instance beside the EC2 behind it.
type machine struct {
	subnet, vpc, ip    string
	image, arch        string
	profile, userData  string
	token, reservation string
	request            string // of spot
	tokens             string // whether metadata takes a token
	groups             []string
	tags               map[string]string
	placement          *PlacementGroup
	partition          int
}

func (f *Front) remember(o *order, b sim.Bought, fleetID string) error {
	l := o.lines[b.Line]
	s, data := f.subnetOf(l.subnet), l.template.data
	groups, err := groupsOf(l.template)
	if err != nil {
		return err
	}
	n := len(f.machines) + 4
	m := &machine{
		subnet: s.id, vpc: s.vpc, ip: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), image: l.image, arch: arch(f.opts.Table.Get(l.instanceType)),
		profile: data.get("IamInstanceProfile").str("Name"), userData: data.str("UserData"), tokens: data.get("MetadataOptions").str("HttpTokens"),
		token: o.token, reservation: l.reservation, groups: groups, tags: map[string]string{},
	}
	if o.capacityType == model.Spot {
		m.request = f.id("sir-")
	}
	placement, partition, err := f.groupOf(l.template)
	if err != nil {
		return err
	}
	m.placement, m.partition = placement, f.partitionFor(placement, partition)
	specs, err := data.list("TagSpecification")
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if spec.str("ResourceType") == "instance" {
			own, err := spec.tags("Tag")
			if err != nil {
				return err
			}
			maps.Copy(m.tags, own)
		}
	}
	maps.Copy(m.tags, o.tags["instance"])
	maps.Copy(m.tags, map[string]string{"aws:ec2:fleet-id": fleetID, "aws:ec2launchtemplate:id": l.template.id, "aws:ec2launchtemplate:version": "1"})
	f.machines[b.ID] = m
	return nil
}

// Terminate ends an instance behind its owner's back.
func (f *Front) Terminate(id string) error { return f.ec2.End(id) }

var instanceFilters = []string{"instance-id", "instance-state-name", "instance-type", "availability-zone", "image-id", "subnet-id", "vpc-id",
	"instance-lifecycle", "client-token", "capacity-reservation-id"}

func (f *Front) field(m *sim.Machine, x *machine, name string) []string {
	switch name {
	case "instance-id":
		return []string{m.ID}
	case "instance-state-name":
		return []string{m.State}
	case "instance-type":
		return []string{m.Type}
	case "availability-zone":
		return []string{m.Zone}
	case "image-id":
		return []string{x.image}
	case "subnet-id":
		return []string{x.subnet}
	case "vpc-id":
		return []string{x.vpc}
	case "client-token":
		return []string{x.token}
	case "capacity-reservation-id":
		return []string{x.reservation}
	case "instance-lifecycle":
		if m.CapacityType == model.Spot {
			return []string{"spot"}
		}
	}
	return nil
}

func noInstance(id string) error {
	return fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

type shown struct {
	m sim.Machine
	x *machine
}

func describeInstances(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("InstanceId")
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 && p.get("MaxResults").has {
		return nil, fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	filters, err := p.filters(instanceFilters...)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var list []shown
	f.ec2.Each(func(m *sim.Machine, listed bool) bool {
		x := f.machines[m.ID]
		if x == nil || !listed || len(ids) > 0 && !slices.Contains(ids, m.ID) {
			return true
		}
		found[m.ID] = true
		if met(filters, x.tags, func(name string) []string { return f.field(m, x, name) }) {
			list = append(list, shown{*m, x})
		}
		return true
	})
	for _, id := range ids {
		if !found[id] {
			return nil, noInstance(id)
		}
	}
	list, next, err := page(p, list, 5, 1000)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "reservationSet", list, func(s shown) {
			w.el("reservationId", "r-"+s.m.ID[2:])
			w.el("ownerId", Account)
			set(w, "instancesSet", []shown{s}, func(s shown) { f.instance(w, &s.m, s.x) })
		})
		w.el("nextToken", next)
	}, p.finish()
}

var stateCodes = map[string]int{sim.Pending: 0, sim.Running: 16, sim.ShuttingDown: 32, sim.Terminated: 48}

func state(w *writer, name, s string) {
	w.in(name, func() {
		w.num("code", stateCodes[s])
		w.el("name", s)
	})
}

func (f *Front) instance(w *writer, m *sim.Machine, x *machine) {
	w.el("instanceId", m.ID)
	w.el("imageId", x.image)
	state(w, "instanceState", m.State)
	gone := m.State == sim.Terminated
	if !gone {
		w.el("privateDnsName", fmt.Sprintf("ip-%s.ec2.internal", m.ID[2:]))
		w.el("privateIpAddress", x.ip)
		w.el("subnetId", x.subnet)
		w.el("vpcId", x.vpc)
	}
	w.el("instanceType", m.Type)
	w.time("launchTime", m.Launched)
	w.in("placement", func() {
		w.el("availabilityZone", m.Zone)
		if x.placement != nil {
			w.el("groupName", x.placement.Name)
			w.el("groupId", x.placement.ID)
			if x.partition > 0 {
				w.num("partitionNumber", x.partition)
			}
		}
		w.el("tenancy", "default")
	})
	if !gone {
		set(w, "groupSet", x.groups, func(id string) { w.el("groupId", id) })
	}
	w.el("architecture", x.arch)
	w.el("clientToken", x.token)
	w.tags(x.tags)
	if x.profile != "" && !gone {
		w.in("iamInstanceProfile", func() { w.el("arn", "arn:aws:iam::"+Account+":instance-profile/"+x.profile) })
	}
	if m.CapacityType == model.Spot {
		w.el("instanceLifecycle", "spot")
		w.el("spotInstanceRequestId", x.request)
	}
	w.el("capacityReservationId", x.reservation)
	w.in("capacityReservationSpecification", func() {
		w.el("capacityReservationPreference", map[bool]string{true: "capacity-reservations-only", false: "none"}[x.reservation != ""])
	})
	w.in("metadataOptions", func() { w.el("httpTokens", x.tokens) })
	if m.Gone() {
		w.in("stateReason", func() {
			w.el("code", map[bool]string{true: "Server.SpotInstanceTermination", false: "Client.UserInitiatedShutdown"}[m.Reason == "spot-reclaim"])
			w.el("message", m.Reason)
		})
	}
}

func describeInstanceAttribute(f *Front, p *params) (func(*writer), error) {
	id := p.str("InstanceId")
	if a := p.str("Attribute"); a != "userData" {
		return nil, fail("InvalidParameterValue", "Attribute %q: only userData is known here", a)
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	x := f.machines[id]
	if x == nil {
		return nil, noInstance(id)
	}
	return func(w *writer) {
		w.el("instanceId", id)
		w.in("userData", func() { w.el("value", x.userData) })
	}, nil
}

func terminateInstances(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("InstanceId")
	if err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fail("MissingParameter", "The request must contain the parameter InstanceId")
	}
	before := map[string]string{}
	for _, id := range ids { // one that is unknown fails them all
		m, ok := f.ec2.Machine(id)
		if !ok || f.machines[id] == nil {
			return nil, noInstance(id)
		}
		before[id] = m.State
	}
	for _, id := range ids {
		if err := f.ec2.End(id); err != nil {
			return nil, err
		}
	}
	return func(w *writer) {
		set(w, "instancesSet", ids, func(id string) {
			now := sim.ShuttingDown
			if before[id] == sim.Terminated {
				now = sim.Terminated
			}
			w.el("instanceId", id)
			state(w, "currentState", now)
			state(w, "previousState", before[id])
		})
	}, nil
}

func createTags(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("ResourceId")
	if err != nil {
		return nil, err
	}
	tags, err := p.tags("Tag")
	if err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if f.machines[id] == nil {
			return nil, noInstance(id)
		}
	}
	for _, id := range ids {
		maps.Copy(f.machines[id].tags, tags)
	}
	return func(w *writer) { w.bool("return", true) }, nil
}
