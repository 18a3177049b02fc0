package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/headroom"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/core/userfile"
)

// inputs are the flags that say what a question is about.
type inputs struct {
	*common
	files     []string
	catalogue string
	zones     []string
	config    string
	scheduler string
	prefixes  bool
	left      map[string]int // instances in capacity reservations, by id
	policy    string
	flags     map[string]string // others that the configuration has, by name
	cluster   source            // of commands with registerCluster
}

func (i *inputs) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&i.files, "filename", "f", nil, "file, folder or - (standard input) with manifests, YAML or JSON; may be repeated")
	f.StringVar(&i.policy, "preference-policy", "", "Respect or Ignore what pods prefer; what the configuration says if left out")
	i.registerMarket(cmd)
}

// registerMarket adds the flags that say what can be bought.
func (i *inputs) registerMarket(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.catalogue, "catalogue", "", "file of instance types and prices; the embedded one if left out")
	f.StringSliceVar(&i.zones, "zones", nil, "zones to buy in; if left out those of the configuration, else those of subnets in the status of EC2NodeClasses, else "+strings.Join(catalogue.DefaultZones, ","))
	f.StringVar(&i.config, "config", "", "configuration file of the controller, to answer as it would")
	f.StringVar(&i.scheduler, "scheduler-config", "", "how kube-scheduler was configured: a file with podTopologySpread.defaultConstraints, or that YAML or JSON itself")
	f.StringToIntVar(&i.left, "reservations", nil, "instances left in capacity reservations, such as cr-0abc=4; one that is not named counts as 1")
	f.BoolVar(&i.prefixes, "prefix-delegation", false, "the VPC CNI gives interfaces prefixes of addresses: more pods per node")
}

// situation is a world with where its parts came from.
type situation struct {
	world    *model.World
	config   *config.Loaded
	table    *catalogue.Table
	warnings []string
	loaded   time.Duration // reading and decoding
	began    time.Time     // when decoding had ended
	left     map[string]int
	faults   faults // of strategies that were asked

	aside      []*model.Pod                 // that neither wait nor are on a node
	conditions map[string][]model.Condition // of NodePools
}

// load reads the files and makes the world of them.
func (i *inputs) load() (*situation, error) {
	if len(i.files) == 0 {
		return nil, bad("-f: expected at least one file, folder or - (standard input)")
	}
	return i.situation(func(o load.Options) (*load.Input, error) {
		in, err := load.Files(i.files, i.in, o)
		if err != nil {
			return nil, badInput{err}
		}
		return in, nil
	})
}

// situation makes the world of what read answers.
func (i *inputs) situation(read func(load.Options) (*load.Input, error)) (*situation, error) {
	began := time.Now()
	now, err := i.now()
	if err != nil {
		return nil, err
	}
	for id, n := range i.left {
		if n < 0 {
			return nil, bad("--reservations: %s: expected a number of at least 0, got %d", id, n)
		}
	}
	cfg, err := i.configuration()
	if err != nil {
		return nil, err
	}
	table, err := i.market(cfg)
	if err != nil {
		return nil, err
	}
	spreads, err := schedulerConfig(cfg.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	in, err := read(load.Options{SpreadDefaults: spreads.PodTopologySpread.DefaultConstraints})
	if err != nil {
		return nil, err
	}
	s := &situation{config: cfg, table: table, left: i.left, warnings: append(cfg.Warnings, in.Warnings...)}
	headroom.Make()
	s.loaded, s.began = time.Since(began), time.Now()
	s.world = in.World(now)
	s.aside, s.conditions = in.Aside, in.Conditions
	s.world.Settings = cfg.PlanningSettings()
	zones := zonesOf(cfg, slices.Collect(maps.Values(s.world.NodeClasses))...)
	s.offer(zones)
	s.warnings = append(s.warnings, s.unmatched(zones)...)
	attach.World(s.world)
	return s, nil
}

// planningFields are the parts of the configuration that questions depend on; the
// environment may say something about others, which is none of this program's business.
var planningFields = []string{"cluster", "region", "account", "zones", "preferencePolicy", "minValuesPolicy", "schedulerConfig", "featureGates", "alternatives.", "nodes.", "bindings.", "interruption."}

func (i *inputs) configuration() (*config.Loaded, error) {
	in := config.Input{Role: config.CLI, Env: map[string]string{}, Flags: map[string]string{}}
	if i.scheduler != "" {
		in.Flags["scheduler-config"] = i.scheduler
	}
	if i.prefixes {
		in.Flags["prefix-delegation"] = "true"
	}
	for _, s := range config.Settings() {
		for _, prefix := range planningFields {
			if v, ok := i.environ[s.Env]; ok && s.Field != "" && strings.HasPrefix(s.Field, prefix) {
				in.Env[s.Env] = v
			}
		}
	}
	if i.policy != "" {
		in.Flags["preference-policy"] = i.policy
	}
	if i.zones != nil {
		if len(i.zones) == 0 {
			return nil, bad("--zones: expected at least one zone such as us-east-1a")
		}
		in.Flags["zones"] = strings.Join(i.zones, ",")
	}
	maps.Copy(in.Flags, i.flags)
	if i.config != "" {
		data, err := readFile(i.config)
		if err != nil {
			return nil, err
		}
		in.File, in.Data = i.config, data
	}
	in.ReadFile = readFile
	cfg, err := config.Load(in)
	if err != nil {
		return nil, badInput{err}
	}
	if err := strategy.CheckBuiltins(cfg.Config); err != nil {
		return nil, located(cfg, err)
	}
	return cfg, nil
}

// maxCatalogue is the size of the largest file of instance types that is read, in bytes.
const maxCatalogue = 64 << 20

// readFile reads a small file that a flag names.
func readFile(path string) ([]byte, error) { return readUpTo(path, config.MaxFile) }

// readUpTo reads a file of so many bytes at most.
func readUpTo(path string, most int64) ([]byte, error) {
	data, err := userfile.Read(path, most)
	if err != nil {
		return nil, bad("%s: %w", path, userfile.Reason(err))
	}
	return data, nil
}

// openFile opens a file that an argument names.
func openFile(path string) (*userfile.File, error) {
	f, err := userfile.Open(path)
	if err != nil {
		return nil, bad("%s: %w", path, userfile.Reason(err))
	}
	return f, nil
}

// schedulerConfig reads what the setting names: a file, or the text itself.
func schedulerConfig(setting string) (*convert.SchedulerConfig, error) {
	if setting == "" {
		return &convert.SchedulerConfig{}, nil
	}
	source, data := "schedulerConfig", []byte(setting)
	if !convert.IsSchedulerConfig(setting) {
		source = setting
		var err error
		if data, err = readFile(setting); err != nil {
			return nil, err
		}
	}
	c, err := convert.ReadSchedulerConfig(data)
	if err != nil {
		return nil, bad("%s: %w", source, err)
	}
	return c, nil
}

// market is the table of --catalogue, of the configuration, or the embedded one.
func (i *inputs) market(cfg *config.Loaded) (*catalogue.Table, error) {
	path := i.catalogue
	if path == "" {
		path = cfg.Cloud.Catalogue
	}
	if path == "" {
		return catalogue.Embedded(), nil
	}
	data, err := readUpTo(path, maxCatalogue)
	if err != nil {
		return nil, err
	}
	t, err := catalogue.Load(strings.NewReader(string(data)), path)
	if err != nil {
		return nil, badInput{err}
	}
	return t, nil
}

// zonesOf are the zones that nodes are bought in: those of --zones or the configuration,
// else those of the classes' subnets, else the default ones. A class may be nil.
func zonesOf(cfg *config.Loaded, classes ...*model.NodeClass) []string {
	if len(cfg.Zones) > 0 { // those of --zones, where it is given
		return cfg.Zones
	}
	var zones []string
	for _, c := range classes {
		if c != nil {
			zones = append(zones, c.Zones...)
		}
	}
	if len(zones) == 0 {
		return catalogue.DefaultZones
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// embeddedPrices is the word on prices where no catalogue was given, and on zones that they
// are not of.
func embeddedPrices(zones []string) string {
	out := "prices: embedded on-demand list prices of " + catalogue.Region + " and synthetic spot prices, which are made up; use --catalogue for real ones"
	if elsewhere := abroad(zones); len(elsewhere) > 0 {
		out += "; " + strings.Join(elsewhere, ", ") + " may sell other instance types, at other prices"
	}
	return out
}

// abroad are the zones that the embedded prices are not of.
func abroad(zones []string) []string {
	return slices.DeleteFunc(slices.Clone(zones), func(z string) bool { return catalogue.RegionOf(z) == catalogue.Region })
}

// marketOptions are the settings that change what a machine offers.
func marketOptions(cfg *config.Loaded) catalogue.Options {
	overhead := cfg.Nodes.VMMemoryOverheadPercent
	return catalogue.Options{VMMemoryOverheadPercent: &overhead, ReservedENIs: int64(cfg.Nodes.ReservedENIs), PrefixDelegation: cfg.Nodes.PrefixDelegation, Region: cfg.Region}
}

// offer fills in what can be bought, and what the nodes that run cost.
func (s *situation) offer(zones []string) {
	w := s.world
	w.Offerings = map[string][]*model.Offering{}
	options := marketOptions(s.config)
	options.ReservationCounts, options.Now = s.left, w.Now
	s.warnings = append(s.warnings, s.uncounted()...)
	for name, class := range w.NodeClasses {
		w.Offerings[name] = s.table.Offerings(class, zones, options)
		for _, o := range w.Offerings[name] {
			if o.CapacityType == model.Reserved && !w.Settings.ReservedCapacity {
				o.Available, o.Unavailable = false, "the feature gate ReservedCapacity is off"
			}
		}
	}
	if s.table.Source == "embedded" {
		s.warnings = append(s.warnings, embeddedPrices(zones))
	}
	market := newPriceList(s.table, w.Offerings)
	elsewhere := map[string]bool{}
	bought := map[string]bool{}
	for _, z := range zones {
		bought[z] = true
	}
	s.warnings = append(s.warnings, expect(w)...)
	for _, n := range w.Nodes {
		n.USDPerHour, n.PriceKnown = market.of(n.InstanceType(), n.Zone(), n.CapacityType())
		if n.Managed() && n.Zone() != "" && !bought[n.Zone()] {
			elsewhere[n.Zone()] = true
		}
	}
	if len(elsewhere) > 0 {
		var names []string
		for z := range elsewhere {
			names = append(names, z)
		}
		sort.Strings(names)
		s.warnings = append(s.warnings, fmt.Sprintf("nodes run in %s, but nodes are bought in %s only; use --zones", strings.Join(names, ", "), strings.Join(zones, ", ")))
	}
}

// uncounted warns of capacity reservations of which nobody says how many instances are
// left: the status of an EC2NodeClass does not have it.
func (s *situation) uncounted() []string {
	if !s.world.Settings.ReservedCapacity {
		return nil
	}
	var ids []string
	for _, class := range s.world.NodeClasses {
		for _, r := range class.Reservations {
			t := s.table.Get(r.InstanceType)
			listed := t != nil && slices.ContainsFunc(t.Offerings, func(p catalogue.Price) bool { return p.ReservationID == r.ID })
			if _, known := s.left[r.ID]; !known && !listed && !slices.Contains(ids, r.ID) {
				ids = append(ids, r.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	sort.Strings(ids)
	return []string{fmt.Sprintf("how many instances are left in capacity reservations %s is not in the input, each counts as 1; use --reservations %s=N", strings.Join(ids, ", "), ids[0])}
}

// unmatched warns of zones that no class of the input has, of classes that have none of
// them, and of capacity reservations that were named and that nothing in the input has.
func (s *situation) unmatched(zones []string) (out []string) {
	classes := s.world.NodeClasses
	for _, z := range zones {
		there := len(classes) == 0
		for _, c := range classes {
			there = there || c.Zones == nil || slices.Contains(c.Zones, z)
		}
		if !there {
			out = append(out, fmt.Sprintf("nothing is bought in zone %s: no EC2NodeClass of the input has a subnet there", z))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		own := classes[name].Zones
		if own != nil && !slices.ContainsFunc(own, func(z string) bool { return slices.Contains(zones, z) }) {
			out = append(out, fmt.Sprintf("EC2NodeClass %s has subnets in %s, and nodes are bought in %s only; use --zones", name, strings.Join(own, ", "), strings.Join(zones, ", ")))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.left)) {
		there := false
		for _, c := range classes {
			there = there || slices.ContainsFunc(c.Reservations, func(r model.Reservation) bool { return r.ID == id })
		}
		for _, t := range s.table.Types {
			there = there || slices.ContainsFunc(t.Offerings, func(p catalogue.Price) bool { return p.ReservationID == id })
		}
		if !there {
			out = append(out, fmt.Sprintf("--reservations: %s is not in the input and does not count", id))
		}
	}
	return out
}

// expect fills in what machines will have whose claims do not say it yet, from the
// type that was bought. A claim of no known type is warned of: neither its room nor
// its share of the limits can be counted.
func expect(w *model.World) []string {
	byType := map[[2]string]*model.InstanceType{}
	for class, list := range w.Offerings {
		for _, o := range list {
			byType[[2]string{class, o.Type.Name}] = o.Type
		}
	}
	var unknown []string
	for _, n := range w.Nodes {
		c := n.Claim
		if c == nil || n.Joined() || !n.Capacity.IsZero() {
			continue
		}
		name := n.InstanceType()
		if r, ok := c.Requirements.Get(model.LabelInstanceType); ok && name == "" {
			if v := r.Values; r.Finite() && len(v) == 1 {
				name = v[0]
			}
		}
		t := byType[[2]string{c.NodeClass.Name, name}]
		if t == nil {
			unknown = append(unknown, c.Name)
			continue
		}
		n.Capacity = t.Capacity
		if n.Allocatable.IsZero() {
			n.Allocatable = t.Allocatable
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("NodeClaims that say neither what they will offer nor their instance type, not counted: %s", strings.Join(unknown, ", "))}
}

// priceList answers what a node that runs costs.
type priceList struct {
	table  *catalogue.Table
	listed map[[3]string]float64
}

func newPriceList(t *catalogue.Table, offerings map[string][]*model.Offering) *priceList {
	p := &priceList{table: t, listed: map[[3]string]float64{}}
	for _, list := range offerings {
		for _, o := range list {
			if o.PriceSource != "unknown" {
				p.listed[[3]string{o.Type.Name, o.Zone, o.CapacityType}] = o.USDPerHour
			}
		}
	}
	return p
}

// of is the price of an offering, also in zones where nothing is bought. A price is
// never guessed: without a capacity type or an entry of the table it is not known.
func (p *priceList) of(instanceType, zone, capacityType string) (float64, bool) {
	if instanceType == "" || zone == "" || capacityType == "" {
		return 0, false
	}
	if usd, ok := p.listed[[3]string{instanceType, zone, capacityType}]; ok {
		return usd, true
	}
	t := p.table.Get(instanceType)
	if t == nil || t.Offerings != nil || t.OnDemandUSD == 0 {
		return 0, false
	}
	switch capacityType {
	case model.OnDemand:
		return t.OnDemandUSD, true
	case model.Reserved: // paid for already
		return t.OnDemandUSD / catalogue.ReservedDivisor, true
	case model.Spot:
		return catalogue.SyntheticSpot(t.OnDemandUSD, instanceType, zone), true
	}
	return 0, false
}
