package catalogue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the instance facts
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-project/weir/core/model"
	res "github.com/weir-project/weir/core/model/resource"
)

//go:embed data/instance-types.us-east-1.json
var embedded []byte

// Region is the region that the embedded prices are of.
const Region = "us-east-1"

// DefaultZones are the zones that are assumed where none are named.
var DefaultZones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// ENI is what a type's network can do.
type ENI struct {
	Max         int64 `json:"maxENIs"`
	DefaultCard int64 `json:"defaultCardENIs"` // those that limit pods
	Cards       int64 `json:"networkCards"`
	IPv4PerENI  int64 `json:"ipv4PerENI"`
	Trunking    bool  `json:"trunking"`
	BranchENIs  int64 `json:"branchENIs"`
}

// Price is an entry of a type's own list of offerings; it replaces the default of
// every zone on demand and as spot.
type Price struct {
	Zone          string   `json:"zone"`
	CapacityType  string   `json:"capacityType"`
	USDPerHour    *float64 `json:"usdPerHour"`
	Available     *bool    `json:"available"`
	ReservationID string   `json:"reservationId"`
	Count         int      `json:"count"`
	Source        string   `json:"source"`        // of the price; empty = catalogue
	Shortages     int      `json:"shortages"`     // history that strategies are told
	Interruptions int      `json:"interruptions"` // the same
	// LastShortage and LastInterruption are when it last happened; left out = not known.
	LastShortage     time.Time `json:"lastShortage"`
	LastInterruption time.Time `json:"lastInterruption"`
}

// Type is the facts of one instance type.
type Type struct {
	Name        string            `json:"name"`
	VCPU        int64             `json:"vcpu"`
	MemoryMiB   int64             `json:"memoryMiB"` // as EC2 advertises it
	Arch        string            `json:"arch"`
	OS          string            `json:"os"`
	OnDemandUSD float64           `json:"onDemandUSD"`
	BareMetal   bool              `json:"bareMetal"`
	ENI         ENI               `json:"eni"`
	Labels      map[string]string `json:"labels"`      // without the prefix karpenter.k8s.aws/
	Allocatable map[string]string `json:"allocatable"` // under AL2023 with a 20 GiB root volume and no kubelet settings
	Offerings   []Price           `json:"offerings"`
	// Placement is the strategies of placement groups that the type can be started in; nil = not known, all are tried.
	Placement []string `json:"placement,omitempty"`

	alloc res.Vector // Allocatable, parsed
}

// Table is a set of instance types, sorted by name.
type Table struct {
	Types  []*Type
	Source string // "embedded" or the name that the table was loaded under
	byName map[string]*Type
}

// Get finds a type by name, nil where it is not there.
func (t *Table) Get(name string) *Type { return t.byName[name] }

// Embedded is the table that is built in. It is parsed once and shared.
var Embedded = sync.OnceValue(func() *Table {
	t, err := Load(bytes.NewReader(embedded), "embedded")
	if err != nil {
		panic(err) // the file is part of the binary and tested
	}
	return t
})

// Load reads a table: a JSON array of types.
//
// Errors name the entry and field and what was expected.
func Load(r io.Reader, source string) (*Table, error) {
	dec := json.NewDecoder(r)
	tok, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%s: expected a JSON array of instance types: %w", source, err)
	}
	if d, ok := tok.(json.Delim); !ok || d != '[' {
		return nil, fmt.Errorf("%s: expected a JSON array of instance types, got %v", source, tok)
	}
	t := &Table{Source: source, byName: map[string]*Type{}}
	for i := 0; dec.More(); i++ {
		var ty Type
		if err := dec.Decode(&ty); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", source, i, err)
		}
		if err := ty.check(); err != nil {
			return nil, fmt.Errorf("%s: entry %d (%s): %w", source, i, ty.Name, err)
		}
		if t.byName[ty.Name] != nil {
			return nil, fmt.Errorf("%s: entry %d: instance type %s appears twice", source, i, ty.Name)
		}
		t.Types = append(t.Types, &ty)
		t.byName[ty.Name] = &ty
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: the array of instance types does not end: %w", source, err)
	}
	if len(t.Types) == 0 {
		return nil, fmt.Errorf("%s: holds no instance type", source)
	}
	sort.Slice(t.Types, func(i, j int) bool { return t.Types[i].Name < t.Types[j].Name })
	return t, nil
}

// New makes a table of types that were read elsewhere. Errors name the type and field.
func New(types []*Type, source string) (*Table, error) {
	t := &Table{Source: source, byName: make(map[string]*Type, len(types))}
	for _, ty := range types {
		if err := ty.check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", source, ty.Name, err)
		}
		if t.byName[ty.Name] != nil {
			return nil, fmt.Errorf("%s: instance type %s appears twice", source, ty.Name)
		}
		t.Types = append(t.Types, ty)
		t.byName[ty.Name] = ty
	}
	sort.Slice(t.Types, func(i, j int) bool { return t.Types[i].Name < t.Types[j].Name })
	return t, nil
}

// maxUSDPerHour is the highest price that is believed; sums of it stay exact enough.
const maxUSDPerHour = 1e6

func (t *Type) check() error {
	if t.Name == "" {
		return fmt.Errorf("name: expected an instance type, got nothing")
	}
	if t.Arch == "" {
		t.Arch = "amd64"
	}
	if t.OS == "" {
		t.OS = "linux"
	}
	badPrice := func(p float64) bool { return p < 0 || math.IsNaN(p) || p > maxUSDPerHour }
	if badPrice(t.OnDemandUSD) {
		return fmt.Errorf("onDemandUSD: expected a price of 0 to %g, got %v", float64(maxUSDPerHour), t.OnDemandUSD)
	}
	if t.OnDemandUSD == 0 && t.Offerings == nil {
		return fmt.Errorf("onDemandUSD: expected a price, or a list of offerings")
	}
	for _, name := range sortedKeys(t.Allocatable) {
		q, err := resource.ParseQuantity(t.Allocatable[name])
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("allocatable.%s: expected a quantity of at least 0, got %q", name, t.Allocatable[name])
		}
		if name == "cpu" {
			t.alloc = t.alloc.With(name, q.MilliValue())
		} else {
			t.alloc = t.alloc.With(name, q.Value())
		}
	}
	if t.VCPU <= 0 {
		t.VCPU = (t.alloc.Base[res.CPU] + 999) / 1000
	}
	if t.MemoryMiB <= 0 {
		t.MemoryMiB = t.alloc.Base[res.Memory] >> 20
	}
	if t.VCPU <= 0 || t.MemoryMiB <= 0 {
		return fmt.Errorf("vcpu, memoryMiB: expected numbers above 0, or allocatable amounts of cpu and memory")
	}
	for i, o := range t.Offerings {
		switch {
		case o.Zone == "":
			return fmt.Errorf("offerings[%d].zone: expected a zone", i)
		case !slices.Contains([]string{model.OnDemand, model.Spot, model.Reserved}, o.CapacityType):
			return fmt.Errorf("offerings[%d].capacityType: expected on-demand, spot or reserved, got %q", i, o.CapacityType)
		case o.USDPerHour != nil && badPrice(*o.USDPerHour):
			return fmt.Errorf("offerings[%d].usdPerHour: expected a price of 0 to %g, got %v", i, float64(maxUSDPerHour), *o.USDPerHour)
		case o.Count < 0 || o.Shortages < 0 || o.Interruptions < 0:
			return fmt.Errorf("offerings[%d].count, shortages, interruptions: expected numbers of at least 0", i)
		case o.CapacityType == model.Reserved && o.ReservationID == "":
			return fmt.Errorf("offerings[%d].reservationId: expected the reservation's id", i)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// SyntheticSpot is the made-up spot price of a type in a zone, USD per hour: 35 to
// 60 percent of the list price, fixed by the names.
func SyntheticSpot(onDemandUSD float64, instanceType, zone string) float64 {
	sum := sha256.Sum256([]byte(instanceType + "/" + zone))
	h := float64(binary.BigEndian.Uint32(sum[:4])) / (1 << 32)
	return math.Round(onDemandUSD*(0.35+0.25*h)*1e6) / 1e6
}

// ReservedDivisor makes the price of reserved capacity from the list price: it is paid
// for already, and only the order among machines is left.
const ReservedDivisor = 1e7

// Options change how offerings are made.
type Options struct {
	VMMemoryOverheadPercent *float64          // share of the memory that the hypervisor keeps, default 0.075
	ReservedENIs            int64             // network interfaces that are not for pods
	PrefixDelegation        bool              // the VPC CNI gives interfaces prefixes of 16 addresses
	Region                  string            // label of the nodes; default Region for the default zones
	LearnedMemory           map[string]int64  // type name -> memory capacity that a real node reported, bytes
	Closed                  map[string]string // offering key -> why it is not available now
	// ReservationCounts is how many instances are left in a capacity reservation, by id.
	// One that only a class names and that is not here counts as one.
	ReservationCounts map[string]int
	Now               time.Time // against which ends of reservations are held; zero = they do not count
	OnDemandDiscount  float64   // multiplier of list prices, 0 = 1
}

// Offerings lists what can be bought with a node class in the given zones, by type
// name, zone and capacity type. A class with zones of its own (resolved subnets)
// keeps to those.
func (t *Table) Offerings(class *model.NodeClass, zones []string, opts Options) []*model.Offering {
	if len(zones) == 0 {
		zones = DefaultZones
	}
	allowed := func(zone string) bool {
		return class == nil || class.Zones == nil || slices.Contains(class.Zones, zone)
	}
	var out []*model.Offering
	for _, ty := range t.Types {
		it, cannot := ty.instance(class, opts, zones[0])
		for _, p := range ty.prices(zones) {
			if !allowed(p.Zone) {
				continue
			}
			o := &model.Offering{Type: it, Zone: p.Zone, CapacityType: p.CapacityType, Available: true,
				ReservationID: p.ReservationID, Count: p.Count, Shortages: p.Shortages, Interruptions: p.Interruptions,
				LastShortage: p.LastShortage, LastInterruption: p.LastInterruption}
			if class != nil {
				o.ZoneID = class.ZoneIDs[p.Zone]
			}
			if n, known := opts.ReservationCounts[p.ReservationID]; known && p.ReservationID != "" {
				o.Count = n
			}
			ty.price(o, p, opts)
			if p.Available != nil && !*p.Available {
				o.Available, o.Unavailable = false, "the catalogue says it is not available"
			}
			if o.CapacityType == model.Reserved && o.Count <= 0 {
				o.Available, o.Unavailable = false, "the reservation is used up"
			}
			if cannot != "" {
				o.Available, o.Unavailable = false, cannot
			}
			if why, closed := opts.Closed[o.Key()]; closed {
				o.Available, o.Unavailable = false, why
			}
			out = append(out, o)
		}
		out = append(out, ty.reserved(it, cannot, class, allowed, opts)...)
	}
	if class != nil && class.PlacementGroup != nil && class.PlacementGroup.Partitions > 0 {
		out = partitions(out, class.PlacementGroup.Partitions)
	}
	return out
}

// partitions adds to each offering the same in every partition of a placement group, for pods that ask for one or are to be spread
// over them. Those of no partition come first: EC2 then spreads machines evenly by itself.
func partitions(list []*model.Offering, n int) []*model.Offering {
	types := map[*model.InstanceType][]*model.InstanceType{}
	out := make([]*model.Offering, 0, len(list)*(n+1))
	for _, o := range list {
		copies := types[o.Type]
		if copies == nil {
			for p := range n {
				t := *o.Type
				t.Labels = maps.Clone(t.Labels)
				t.Labels[model.LabelPlacementPartition] = strconv.Itoa(p + 1)
				copies = append(copies, &t)
			}
			types[o.Type] = copies
		}
		out = append(out, o)
		if o.ReservationID != "" {
			continue // its instances are counted: they may not be offered twice
		}
		for _, t := range copies {
			in := *o
			in.Type = t
			out = append(out, &in)
		}
	}
	return out
}

// reserved lists the capacity reservations of a class that are for the type, save for
// those that the type's own list has already.
func (t *Type) reserved(it *model.InstanceType, cannot string, class *model.NodeClass, allowed func(string) bool, opts Options) []*model.Offering {
	if class == nil {
		return nil
	}
	var out []*model.Offering
	for _, r := range class.Reservations {
		if r.InstanceType != t.Name || !allowed(r.Zone) || slices.ContainsFunc(t.Offerings, func(p Price) bool { return p.ReservationID == r.ID }) {
			continue
		}
		o := &model.Offering{Type: it, Zone: r.Zone, CapacityType: model.Reserved, Available: true, ZoneID: class.ZoneIDs[r.Zone], ReservationID: r.ID, ReservationType: r.Type, Interruptible: r.Interruptible, Count: 1}
		if n, known := opts.ReservationCounts[r.ID]; known {
			o.Count = n
		}
		t.price(o, Price{}, opts)
		closed, shut := opts.Closed[o.Key()]
		for _, why := range []struct {
			no  bool
			say string
		}{
			{o.Count <= 0, "the reservation is used up"},
			{r.Expiring, "the reservation is expiring"},
			{r.End != nil && !opts.Now.IsZero() && !opts.Now.Before(*r.End), "the reservation has ended"},
			{cannot != "", cannot},
			{shut, closed},
		} {
			if why.no {
				o.Available, o.Unavailable = false, why.say
			}
		}
		out = append(out, o)
	}
	return out
}

func (t *Type) prices(zones []string) []Price {
	if t.Offerings != nil { // an empty list says that there is nothing to be had
		return t.Offerings
	}
	out := make([]Price, 0, 2*len(zones))
	for _, z := range zones {
		out = append(out, Price{Zone: z, CapacityType: model.OnDemand}, Price{Zone: z, CapacityType: model.Spot})
	}
	return out
}

func (t *Type) price(o *model.Offering, p Price, opts Options) {
	discount := opts.OnDemandDiscount
	if discount == 0 {
		discount = 1
	}
	switch {
	case p.USDPerHour != nil:
		o.USDPerHour, o.PriceSource = *p.USDPerHour, cmp.Or(p.Source, "catalogue")
	case t.OnDemandUSD == 0:
		o.PriceSource, o.Available, o.Unavailable = "unknown", false, "its price is not known"
	case o.CapacityType == model.OnDemand:
		o.USDPerHour, o.PriceSource = t.OnDemandUSD*discount, "list"
		if discount != 1 {
			o.PriceSource = "override x" + strconv.FormatFloat(discount, 'g', -1, 64)
		}
	case o.CapacityType == model.Spot:
		o.USDPerHour, o.PriceSource = SyntheticSpot(t.OnDemandUSD, t.Name, o.Zone), "synthetic"
	default: // reserved: paid for already
		o.USDPerHour, o.PriceSource = t.OnDemandUSD/ReservedDivisor, "reserved"
	}
}

func region(opts Options, zone string) string {
	if opts.Region != "" {
		return opts.Region
	}
	return RegionOf(zone)
}

// RegionOf guesses the region from a zone name such as us-east-1a: without its letter.
// A local zone such as us-east-1-bos-1a, which has prices of its own, is none of its
// region's by that.
func RegionOf(zone string) string { return strings.TrimRight(zone, "abcdefghijklmnopqrstuvwxyz") }
