package ec2front

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cloud/sim"
)

type subnet struct {
	id, vpc, zone, cidr string
	size                int // addresses that instances may have
	tags                map[string]string
}

type group struct {
	id, vpc, name, about string
	tags                 map[string]string
}

// Image is an AMI.
type Image struct {
	ID, Name, Owner string // owner: self, amazon or an account
	Arch            string // x86_64 or arm64
	Created         time.Time
	Deprecated      time.Time // zero = not
	Gone            bool      // deregistered
	Tags            map[string]string
}

// Reservation is an active capacity reservation.
type Reservation struct {
	ID, InstanceType, Zone string
	Total                  int
	Targeted               bool // not open to any launch
	Type                   string
	End                    time.Time
	Tags                   map[string]string
}

// AddImage makes an image known and answers its id.
func (f *Front) AddImage(i Image) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.ID == "" {
		i.ID = f.id("ami-")
	}
	f.images = append(f.images, &i)
	return i.ID
}

// Deregister takes an image away.
func (f *Front) Deregister(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.images {
		i.Gone = i.Gone || i.ID == id
	}
}

// Reserve makes a capacity reservation and answers its id.
func (f *Front) Reserve(r Reservation) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.ID == "" {
		r.ID = f.id("cr-")
	}
	f.stock = append(f.stock, &r)
	return r.ID
}

// SetSubnetSize sets how many instances a subnet has addresses for.
func (f *Front) SetSubnetSize(id string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.subnets {
		if s.id == id {
			s.size = n
		}
	}
}

func createVpc(f *Front, p *params) (func(*writer), error) {
	cidr := p.str("CidrBlock")
	if err := p.finish(); err != nil {
		return nil, err
	}
	id := f.id("vpc-")
	f.vpcs = append(f.vpcs, id)
	return func(w *writer) {
		w.in("vpc", func() {
			w.el("vpcId", id)
			w.el("state", "available")
			w.el("cidrBlock", cidr)
		})
	}, nil
}

func (f *Front) vpc(id string) error {
	if !slices.Contains(f.vpcs, id) {
		return fail("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
	}
	return nil
}

func createSubnet(f *Front, p *params) (func(*writer), error) {
	s := &subnet{vpc: p.str("VpcId"), zone: p.str("AvailabilityZone"), cidr: p.str("CidrBlock")}
	tags, err := p.tagSpecifications("subnet")
	if err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if err := f.vpc(s.vpc); err != nil {
		return nil, err
	}
	if !slices.Contains(f.opts.Zones, s.zone) {
		return nil, fail("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid.", s.zone)
	}
	net, err := netip.ParsePrefix(s.cidr)
	if err != nil || !net.Addr().Is4() || net.Bits() < 16 || net.Bits() > 28 {
		return nil, fail("InvalidSubnet.Range", "The CIDR '%s' is invalid.", s.cidr)
	}
	s.id, s.tags, s.size = f.id("subnet-"), tags["subnet"], 1<<(32-net.Bits())-5
	f.subnets = append(f.subnets, s)
	return func(w *writer) { w.in("subnet", func() { f.subnet(w, s, s.size) }) }, nil
}

func createSecurityGroup(f *Front, p *params) (func(*writer), error) {
	g := &group{vpc: p.str("VpcId"), name: p.str("GroupName"), about: p.str("GroupDescription")}
	tags, err := p.tagSpecifications("security-group")
	if err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if err := f.vpc(g.vpc); err != nil {
		return nil, err
	}
	g.id, g.tags = f.id("sg-"), tags["security-group"]
	f.groups = append(f.groups, g)
	return func(w *writer) {
		w.el("groupId", g.id)
		w.tags(g.tags)
	}, nil
}

func (f *Front) subnet(w *writer, s *subnet, free int) {
	w.el("subnetId", s.id)
	w.el("state", "available")
	w.el("vpcId", s.vpc)
	w.el("cidrBlock", s.cidr)
	w.num("availableIpAddressCount", max(free, 0))
	w.el("availabilityZone", s.zone)
	w.el("availabilityZoneId", f.zoneID(s.zone))
	w.el("ownerId", Account)
	w.tags(s.tags)
}

func (f *Front) zoneID(zone string) string {
	return fmt.Sprintf("use1-az%d", slices.Index(f.opts.Zones, zone)+1)
}

// used counts what living instances take up, by id of subnet and of reservation, and their vCPUs by capacity type.
func (f *Front) used() map[string]int {
	out := map[string]int{}
	f.ec2.Each(func(m *sim.Machine, _ bool) bool {
		if x := f.machines[m.ID]; x != nil && m.State != sim.Terminated {
			out[x.subnet]++
			if x.placement != nil {
				out[inGroup(x.placement.ID, m.Zone)]++
			}
			if t := f.opts.Table.Get(m.Type); t != nil && m.State != sim.ShuttingDown {
				out[m.CapacityType] += int(t.VCPU)
			}
			if x.reservation != "" && m.State != sim.ShuttingDown {
				out[x.reservation]++
			}
		}
		return true
	})
	return out
}

// pick answers what has one of the ids, where there are any, and passes the filters.
func pick[T any](list []T, ids []string, id func(T) string, notFound string, keep func(T) bool) ([]T, error) {
	for _, want := range ids {
		if !slices.ContainsFunc(list, func(x T) bool { return id(x) == want }) {
			return nil, fail(notFound, "The ID '%s' does not exist", want)
		}
	}
	var out []T
	for _, x := range list {
		if (len(ids) == 0 || slices.Contains(ids, id(x))) && keep(x) {
			out = append(out, x)
		}
	}
	return out, nil
}

func describeSubnets(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("SubnetId")
	if err != nil {
		return nil, err
	}
	filters, err := p.filters("subnet-id", "vpc-id", "availability-zone", "state")
	if err != nil {
		return nil, err
	}
	list, err := pick(f.subnets, ids, func(s *subnet) string { return s.id }, "InvalidSubnetID.NotFound", func(s *subnet) bool {
		return met(filters, s.tags, func(name string) []string {
			return []string{map[string]string{"subnet-id": s.id, "vpc-id": s.vpc, "availability-zone": s.zone, "state": "available"}[name]}
		})
	})
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, list, 5, 1000)
	if err != nil {
		return nil, err
	}
	used := f.used()
	return func(w *writer) {
		set(w, "subnetSet", list, func(s *subnet) { f.subnet(w, s, s.size-used[s.id]) })
		w.el("nextToken", next)
	}, p.finish()
}

func describeSecurityGroups(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("GroupId")
	if err != nil {
		return nil, err
	}
	filters, err := p.filters("group-id", "group-name", "vpc-id")
	if err != nil {
		return nil, err
	}
	list, err := pick(f.groups, ids, func(g *group) string { return g.id }, "InvalidGroup.NotFound", func(g *group) bool {
		return met(filters, g.tags, func(name string) []string {
			return []string{map[string]string{"group-id": g.id, "group-name": g.name, "vpc-id": g.vpc}[name]}
		})
	})
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, list, 5, 1000)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "securityGroupInfo", list, func(g *group) {
			w.el("ownerId", Account)
			w.el("groupId", g.id)
			w.el("groupName", g.name)
			w.el("groupDescription", g.about)
			w.el("vpcId", g.vpc)
			w.tags(g.tags)
		})
		w.el("nextToken", next)
	}, p.finish()
}

func describeImages(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("ImageId")
	if err != nil {
		return nil, err
	}
	owners, err := p.strings("Owner")
	if err != nil {
		return nil, err
	}
	filters, err := p.filters("image-id", "name", "state", "architecture", "owner-id")
	if err != nil {
		return nil, err
	}
	deprecated, err := p.boolean("IncludeDeprecated")
	if err != nil {
		return nil, err
	}
	list, err := pick(f.images, ids, func(i *Image) string { return i.ID }, "InvalidAMIID.NotFound", func(i *Image) bool {
		old := !i.Deprecated.IsZero() && !i.Deprecated.After(f.opts.Now())
		return !i.Gone && (deprecated || !old) && (len(owners) == 0 || slices.Contains(owners, i.Owner)) && met(filters, i.Tags, func(name string) []string {
			return []string{map[string]string{"image-id": i.ID, "name": i.Name, "state": "available", "architecture": i.Arch, "owner-id": i.Owner}[name]}
		})
	})
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, list, 1, 1000)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "imagesSet", list, func(i *Image) {
			w.el("imageId", i.ID)
			w.el("imageState", "available")
			w.el("imageOwnerId", strings.NewReplacer("self", Account, "amazon", "602401143452").Replace(i.Owner))
			w.bool("isPublic", i.Owner != "self")
			w.el("architecture", i.Arch)
			w.el("imageType", "machine")
			w.el("name", i.Name)
			w.el("rootDeviceType", "ebs")
			w.el("rootDeviceName", "/dev/xvda")
			w.el("virtualizationType", "hvm")
			w.el("hypervisor", "xen")
			w.el("creationDate", stamp(i.Created))
			if !i.Deprecated.IsZero() {
				w.el("deprecationTime", stamp(i.Deprecated))
			}
			w.tags(i.Tags)
		})
		w.el("nextToken", next)
	}, p.finish()
}

func describeCapacityReservations(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("CapacityReservationId")
	if err != nil {
		return nil, err
	}
	filters, err := p.filters("state", "owner-id", "instance-match-criteria", "instance-type")
	if err != nil {
		return nil, err
	}
	criteria := func(r *Reservation) string {
		if r.Targeted {
			return "targeted"
		}
		return "open"
	}
	list, err := pick(f.stock, ids, func(r *Reservation) string { return r.ID }, "InvalidCapacityReservationId.NotFound", func(r *Reservation) bool {
		return met(filters, r.Tags, func(name string) []string {
			return []string{map[string]string{"state": "active", "owner-id": Account, "instance-match-criteria": criteria(r), "instance-type": r.InstanceType}[name]}
		})
	})
	if err != nil {
		return nil, err
	}
	list, next, err := page(p, list, 1, 1000)
	if err != nil {
		return nil, err
	}
	used := f.used()
	return func(w *writer) {
		set(w, "capacityReservationSet", list, func(r *Reservation) {
			w.el("capacityReservationId", r.ID)
			w.el("ownerId", Account)
			w.el("instanceType", r.InstanceType)
			w.el("availabilityZone", r.Zone)
			w.num("totalInstanceCount", r.Total)
			w.num("availableInstanceCount", max(r.Total-used[r.ID], 0))
			w.el("state", "active")
			w.time("endDate", r.End)
			w.el("instanceMatchCriteria", criteria(r))
			w.el("reservationType", r.Type)
			w.tags(r.Tags)
		})
		w.el("nextToken", next)
	}, p.finish()
}

func describeAvailabilityZones(f *Front, p *params) (func(*writer), error) {
	filters, err := p.filters("zone-type", "state", "zone-name")
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		w.in("availabilityZoneInfo", func() {
			for _, z := range f.opts.Zones {
				if met(filters, nil, func(name string) []string {
					return []string{map[string]string{"zone-type": "availability-zone", "state": "available", "zone-name": z}[name]}
				}) {
					w.in("item", func() {
						w.el("zoneName", z)
						w.el("zoneId", f.zoneID(z))
						w.el("zoneState", "available")
						w.el("regionName", Region)
						w.el("optInStatus", "opt-in-not-required")
						w.el("zoneType", "availability-zone")
					})
				}
			}
		})
	}, p.finish()
}
