package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/fleet"
	"github.com/weir-project/weir/core/cloud/aws/inventory"
	"github.com/weir-project/weir/core/cloud/aws/render"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

// EC2 is the calls of EC2 that the provider makes itself.
type EC2 interface {
	fleet.EC2
	inventory.EC2
}

// Config says where and for whom the provider works.
type Config struct {
	Region       string
	Cluster      userdata.Cluster
	Catalogue    catalogue.Options // overhead, reserved interfaces, prefix delegation; Region is set here
	Reservations bool              // gate ReservedCapacity
	Now          func() time.Time
}

// Provider sells what EC2 has. It is safe for concurrent use.
type Provider struct {
	cfg   Config
	fleet *fleet.Fleet
	stock *inventory.Inventory

	reading sync.Mutex // one refresh at a time; guards stock

	mu      sync.Mutex // guards all below
	table   *catalogue.Table
	classes map[string]*awsv1.EC2NodeClass
	types   map[string]map[string]*model.InstanceType // class -> type, as it was offered last
	away    map[string]bool                           // zones, or their ids, that the cluster is shifted away from
	shut    map[string]time.Time                      // subnet -> until when it counts as full, whatever is read of it
	free    map[string]int                            // by id of subnet or reservation, as read last less what was launched since
}

var _ cloud.Provider = (*Provider)(nil)

// New makes a provider that knows nothing yet: see Refresh and SetClass.
func New(cfg Config, api EC2, prices inventory.ListPrices) *Provider {
	cfg.Catalogue.Region = cfg.Region
	p := &Provider{
		cfg: cfg, fleet: fleet.New(api, cfg.Cluster.Name, cfg.Now), stock: inventory.New(api, prices, catalogue.Embedded()),
		classes: map[string]*awsv1.EC2NodeClass{}, types: map[string]map[string]*model.InstanceType{}, free: map[string]int{},
		shut: map[string]time.Time{},
	}
	p.fleet.Full = func(subnet string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shut[subnet] = p.cfg.Now().Add(fullFor)
	}
	return p
}

// Refresh reads prices, and types too where that is asked for or nothing is known yet. Calls of others go on meanwhile with
// what was known; errors leave it in force.
func (p *Provider) Refresh(ctx context.Context, types bool) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	types = types || p.table == nil
	p.mu.Unlock()
	var errs []error
	if types {
		errs = append(errs, p.stock.ReadTypes(ctx))
	}
	errs = append(errs, p.stock.ReadPrices(ctx, p.cfg.Now()))
	table, err := p.stock.Table()
	errs = append(errs, err)
	if err == nil {
		p.mu.Lock()
		p.table = table
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Known says whether it is known what can be bought.
func (p *Provider) Known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table != nil
}

// SetClass makes known what a class resolved to, with the free addresses of its subnets and what is left in its reservations.
func (p *Provider) SetClass(c *awsv1.EC2NodeClass, free map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.classes[c.Name] = c
	maps.Copy(p.free, free)
	p.forget()
}

// forget drops what was known of subnets and reservations that no class names any more. The lock is held.
func (p *Provider) forget() {
	named := map[string]bool{}
	for _, c := range p.classes {
		for _, s := range c.Status.Subnets {
			named[s.ID] = true
		}
		for _, r := range c.Status.CapacityReservations {
			named[r.ID] = true
		}
	}
	maps.DeleteFunc(p.free, func(id string, _ int) bool { return !named[id] })
	maps.DeleteFunc(p.shut, func(id string, until time.Time) bool { return !named[id] || !p.cfg.Now().Before(until) })
}

// SetShifted says which zones, by name or id, the cluster is shifted away from: nothing is sold there.
func (p *Provider) SetShifted(zones []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = map[string]bool{}
	for _, z := range zones {
		p.away[z] = true
	}
}

// shifted says whether the cluster is shifted away from an offering's zone.
func (p *Provider) shifted(o *model.Offering) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away[o.Zone] || o.ZoneID != "" && p.away[o.ZoneID]
}

// DropClass forgets a class.
func (p *Provider) DropClass(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.classes, name)
	delete(p.types, name)
	p.forget()
}

// class finds a class that may be launched from.
func (p *Provider) class(name string) (*awsv1.EC2NodeClass, error) {
	c := p.classes[name]
	if c == nil {
		return nil, &cloud.Error{Op: "Render", Kind: cloud.Template, Code: keys.ReasonNodeClassNotFound, Message: "EC2NodeClass " + name + " is not there"}
	}
	if kind, code, why := unready(c); why != "" {
		return nil, &cloud.Error{Op: "Render", Kind: kind, Code: code, Message: "EC2NodeClass " + name + ": " + why}
	}
	return c, nil
}

// unready says why nothing may be launched from a class now, or is empty. As in v1 a class of which that is not known makes
// launches wait, and one that is known not to be ready, or not known as it is now, has its claims given up.
func unready(c *awsv1.EC2NodeClass) (kind cloud.ErrorKind, code, why string) {
	if c.DeletionTimestamp != nil {
		return cloud.NotReady, cloud.CodeTerminating, "it is being deleted"
	}
	for _, x := range c.Status.Conditions {
		if x.Type != keys.ConditionReady {
			continue
		}
		told := strings.TrimSuffix(fmt.Sprintf("%s: %s", x.Reason, x.Message), ": ")
		switch {
		case x.ObservedGeneration != c.Generation:
			return cloud.NotReady, codeNotReady, "it was changed and has not been looked at since"
		case x.Status == "False":
			return cloud.NotReady, codeNotReady, "it is not ready: " + told
		case x.Status != "True":
			return cloud.Internal, codeReadinessUnknown, "it is not known whether it is ready: " + told
		}
		return "", "", ""
	}
	return cloud.Internal, codeReadinessUnknown, "it has not been looked at yet"
}

const (
	codeNotReady         = "NodeClassNotReady"
	codeReadinessUnknown = "NodeClassReadinessUnknown"
)

// Render implements cloud.Provider.
func (p *Provider) Render(ctx context.Context, l cloud.Launch) ([]byte, error) {
	p.mu.Lock()
	c, err := p.class(l.NodeClass)
	known := p.types[l.NodeClass]
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if known == nil {
		return nil, &cloud.Error{Op: "Render", Kind: cloud.Internal, Code: "OfferingsNotRead", Message: "what can be bought with EC2NodeClass " + c.Name + " has not been read yet"}
	}
	r, err := render.Render(render.Input{
		Launch: l, Class: c, Cluster: p.cfg.Cluster, Region: p.cfg.Region, Reservations: p.cfg.Reservations,
		Type: func(name string) (render.Type, bool) {
			t := known[name]
			if t == nil {
				return render.Type{}, false
			}
			return render.Type{Labels: t.Labels, MaxPods: int32(t.Capacity.Get("pods")), EFA: int32(t.Capacity.Get(model.ResourceEFA))}, true
		},
		Subnet: func(zone string) string { return p.subnet(c, zone) },
	})
	if err != nil {
		return nil, err
	}
	p.reserve(r, l)
	return r.Encode()
}

// subnet is the one of the zone with the most free addresses; one without any only where there is no other.
func (p *Provider) subnet(c *awsv1.EC2NodeClass, zone string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := ""
	for _, s := range c.Status.Subnets { // ordered: of equal ones the first
		if s.Zone == zone && (best == "" || p.addresses(s.ID) > p.addresses(best)) {
			best = s.ID
		}
	}
	return best
}

// addresses is how many are free in a subnet. EC2's own count lags behind its refusals.
func (p *Provider) addresses(subnet string) int {
	if until, shut := p.shut[subnet]; shut && p.cfg.Now().Before(until) {
		return 0
	}
	return p.free[subnet]
}

// reserve counts addresses and reserved instances as used until they are read again: one for each instance that a subnet
// may get, or that may come out of a capacity reservation.
func (p *Provider) reserve(r *render.Request, l cloud.Launch) {
	seen := map[string]bool{}
	for _, o := range l.Offers {
		if o.ReservationID != "" {
			seen[o.ReservationID] = true
		}
	}
	for _, c := range r.Fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			if o.SubnetId != nil {
				seen[*o.SubnetId] = true
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range seen {
		if left, known := p.free[s]; known {
			p.free[s] = max(left-len(l.Claims), 0)
		}
	}
}

// Launch implements cloud.Provider.
func (p *Provider) Launch(ctx context.Context, token string, request []byte) (cloud.Answer, error) {
	return p.fleet.Launch(ctx, token, request)
}

// Terminate implements cloud.Provider.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	return p.fleet.Terminate(ctx, ids)
}

// Describe implements cloud.Provider.
func (p *Provider) Describe(ctx context.Context, ids []string) ([]cloud.Instance, error) {
	return p.fleet.Describe(ctx, ids)
}

// List implements cloud.Provider.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) { return p.fleet.List(ctx) }

// Offerings implements cloud.Provider. A class that is not ready has offerings that are not available, with the reason.
func (p *Provider) Offerings(ctx context.Context, class *model.NodeClass) ([]*model.Offering, error) {
	p.mu.Lock()
	table, c := p.table, p.classes[class.Name]
	p.mu.Unlock()
	if table == nil {
		return nil, &cloud.Error{Op: "Offerings", Kind: cloud.Internal, Code: "InventoryNotRead", Message: "instance types have not been read yet"}
	}
	if c == nil {
		return nil, &cloud.Error{Op: "Offerings", Kind: cloud.Template, Code: keys.ReasonNodeClassNotFound, Message: "EC2NodeClass " + class.Name + " has not been looked at yet"}
	}
	own := *class
	own.Zones = zones(c)
	out := table.Offerings(&own, own.Zones, p.left(&own))
	_, _, unready := unready(c)
	byName, seen := map[string]*model.InstanceType{}, map[*model.InstanceType]bool{}
	cannot := map[*model.InstanceType]string{}
	for _, o := range out {
		if !seen[o.Type] { // those of the partitions of a placement group have equal names
			seen[o.Type] = true
			if _, named := byName[o.Type.Name]; !named {
				byName[o.Type.Name] = o.Type
			}
			if ami, ok := render.ImageFor(c, o.Type.Labels); ok {
				o.Type.Image = ami.ID
			} else {
				cannot[o.Type] = "EC2NodeClass " + c.Name + " has no image for it"
			}
		}
		switch why := cannot[o.Type]; {
		case unready != "":
			o.Available, o.Unavailable = false, "EC2NodeClass "+c.Name+": "+unready
		case why != "":
			o.Available, o.Unavailable = false, why
		case p.shifted(o):
			o.Available, o.Unavailable = false, "zonal shift: the cluster is shifted away from zone "+o.Zone
		case o.Available && p.full(c, o.Zone):
			o.Available, o.Unavailable = false, "no subnet of EC2NodeClass "+c.Name+" in zone "+o.Zone+" has free addresses"
		}
	}
	p.mu.Lock()
	p.types[c.Name] = byName
	p.mu.Unlock()
	return out, nil
}

// left is the options of offerings with what the reservations of a class have left.
func (p *Provider) left(class *model.NodeClass) catalogue.Options {
	opts := p.cfg.Catalogue
	opts.ReservationCounts, opts.Now = map[string]int{}, p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range class.Reservations {
		opts.ReservationCounts[r.ID] = max(p.free[r.ID], 0) // of one that has not been read nothing is known to be left
	}
	return opts
}

func (p *Provider) full(c *awsv1.EC2NodeClass, zone string) bool {
	s := p.subnet(c, zone)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.free[s]
	return known && p.addresses(s) == 0
}

func zones(c *awsv1.EC2NodeClass) []string {
	out := []string{} // empty, not nil: no zone, rather than every
	for _, s := range c.Status.Subnets {
		if !slices.Contains(out, s.Zone) {
			out = append(out, s.Zone)
		}
	}
	slices.Sort(out)
	return out
}

// CollectTemplates deletes launch templates that were not used for a while.
func (p *Provider) CollectTemplates(ctx context.Context) ([]string, error) {
	return p.fleet.CollectTemplates(ctx, templateIdle, "")
}

// CollectClass deletes the launch templates of a class that ends.
func (p *Provider) CollectClass(ctx context.Context, class string) ([]string, error) {
	return p.fleet.CollectTemplates(ctx, 0, class)
}

// Tag adds tags to an instance.
func (p *Provider) Tag(ctx context.Context, id string, tags map[string]string) error {
	return p.fleet.Tag(ctx, id, tags)
}

// fullFor is how long a subnet is left alone that EC2 had no address in.
const fullFor = 3 * time.Minute

// templateIdle is longer than a launch is tried for.
const templateIdle = 15 * time.Minute
