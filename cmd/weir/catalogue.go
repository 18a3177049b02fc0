package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/launchtemplate"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/report"
)

func newCatalogue(c *common) *cobra.Command {
	return group("catalogue", "Show what can be bought",
		`catalogue shows instance types, where they can be bought and at what price. With -f it
shows what an EC2NodeClass of the manifests makes of them: its zones, and what is
left for pods under its kubelet settings.`,
		newCatalogueList(c), newCatalogueShow(c))
}

// catalogueOffer is one thing that can be bought.
type catalogueOffer struct {
	Zone         string     `json:"zone"`
	CapacityType string     `json:"capacityType"`
	USDPerHour   report.USD `json:"usdPerHour"`
	PriceSource  string     `json:"priceSource"`
	Available    bool       `json:"available"`
	Unavailable  string     `json:"unavailable"` // why not, empty where it is available
}

// catalogueType is one instance type.
type catalogueType struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Capacity    map[string]string `json:"capacity"`
	Allocatable map[string]string `json:"allocatable"`
	MemoryFrom  string            `json:"memoryFrom"` // estimated, or learned from real nodes
	Offerings   []catalogueOffer  `json:"offerings"`
}

// catalogueExcluded counts the types that the NodePool leaves nothing of, by its reason.
type catalogueExcluded struct {
	Reason string `json:"reason"`
	Types  int    `json:"types"`
}

// catalogueReport is the answer of both verbs.
type catalogueReport struct {
	Kind      string              `json:"kind"`
	Source    string              `json:"source"`
	NodeClass string              `json:"nodeClass"`
	NodePool  string              `json:"nodePool"`
	Types     []catalogueType     `json:"types"`
	Excluded  []catalogueExcluded `json:"excluded"` // by the NodePool, most types first
	Warnings  []string            `json:"warnings"`

	wide bool
}

type catalogueOptions struct {
	inputs
	output
	nodeClass string
	pool      string
	names     []string
}

func newCatalogueList(c *common) *cobra.Command {
	o := &catalogueOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instance types with their prices",
		Long: `list shows every instance type with what it offers to pods, its lowest price, where the
price is from, and why it cannot be bought where that is so. With --nodepool only those
that a NodePool of the manifests allows; how many it keeps out, and by which requirement,
stands below.`,
		Example: `  weir catalogue list
  weir catalogue list -f pools.yaml --nodepool default -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return o.run(false) },
	}
	o.register(cmd)
	return cmd
}

func newCatalogueShow(c *common) *cobra.Command {
	o := &catalogueOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "show TYPE...",
		Short: "Show instance types with all labels and offerings",
		Long: `show shows instance types in full: labels, capacity, what is left for pods, and each
offering with its price, the price's source, and why it cannot be bought where that is so:
with --nodepool, also which requirement keeps it out.`,
		Example: `  weir catalogue show m6a.4xlarge
  weir catalogue show m5.large -f nodeclass.yaml -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return bad("weir catalogue show: expected the name of an instance type, such as m5.large")
			}
			o.names = args
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return o.run(true) },
	}
	o.register(cmd)
	return cmd
}

func (o *catalogueOptions) register(cmd *cobra.Command) {
	o.inputs.register(cmd)
	o.output.register(cmd)
	cmd.Flags().StringVar(&o.nodeClass, "nodeclass", "", "EC2NodeClass of the manifests to show the types under; the only one if left out")
	cmd.Flags().StringVar(&o.pool, "nodepool", "", "NodePool of the manifests whose requirements the types must meet")
}

func (o *catalogueOptions) run(wide bool) error {
	if err := o.check(); err != nil {
		return err
	}
	if _, err := o.now(); err != nil {
		return err
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	table, err := o.market(cfg)
	if err != nil {
		return err
	}
	in := &load.Input{NodeClasses: map[string]*model.NodeClass{}}
	if len(o.files) > 0 {
		if in, err = load.Files(o.files, o.in, load.Options{}); err != nil {
			return badInput{err}
		}
	}
	pool, class, err := subject(in, o.pool, o.nodeClass)
	if err != nil {
		return err
	}
	var object *awsv1.EC2NodeClass
	if class != nil {
		object = in.Classes[class.Name]
	}
	r, err := o.report(cfg, table, pool, class, object)
	if err != nil {
		return err
	}
	r.wide = wide
	r.Warnings = append(append([]string{}, cfg.Warnings...), in.Warnings...)
	if zones := zonesOf(cfg, class); table.Source == "embedded" && len(abroad(zones)) > 0 {
		r.Warnings = append(r.Warnings, embeddedPrices(zones))
	}
	return o.answer(o.format, r)
}

// subject finds the pool and the class that the question is about; both may be nil.
func subject(in *load.Input, poolName, className string) (*model.Pool, *model.NodeClass, error) {
	var pool *model.Pool
	var pools, classes []string
	for _, p := range in.Pools {
		pools = append(pools, p.Name)
		if p.Name == poolName {
			pool = p
		}
	}
	for n := range in.NodeClasses {
		classes = append(classes, n)
	}
	sort.Strings(classes)
	if poolName != "" && pool == nil {
		return nil, nil, bad("--nodepool: the input has no NodePool %q, expected one of [%s]%s", poolName, strings.Join(pools, ", "), didYouMean(poolName, pools, ""))
	}
	name := className
	switch {
	case name == "" && pool != nil:
		name = pool.NodeClass.Name
	case name == "" && len(classes) == 1:
		name = classes[0]
	case name == "" && len(classes) > 1:
		return nil, nil, bad("--nodeclass: the input has several EC2NodeClasses, name one of [%s]", strings.Join(classes, ", "))
	case name == "":
		return pool, nil, nil
	}
	class := in.NodeClasses[name]
	if class == nil {
		return nil, nil, bad("--nodeclass: the input has no EC2NodeClass %q, expected one of [%s]%s", name, strings.Join(classes, ", "), didYouMean(name, classes, ""))
	}
	return pool, class, nil
}

func (o *catalogueOptions) report(cfg *config.Loaded, table *catalogue.Table, pool *model.Pool, class *model.NodeClass, object *awsv1.EC2NodeClass) (*catalogueReport, error) {
	r := &catalogueReport{Kind: "Catalogue", Source: table.Source, Types: []catalogueType{}, Excluded: []catalogueExcluded{}}
	if pool != nil {
		r.NodePool = pool.Name
	}
	kept, why := map[string]bool{}, map[string]string{} // by type; why the first offering of it is not let in
	shown := class
	if class == nil {
		shown = &model.NodeClass{Family: "AL2023"}
	} else {
		r.NodeClass = class.Name
	}
	var names []string
	for _, t := range table.Types {
		names = append(names, t.Name)
	}
	for _, n := range o.names {
		if table.Get(n) == nil {
			return nil, bad("weir catalogue show: the catalogue has no instance type %q%s", n, didYouMean(n, names, ""))
		}
	}
	at := map[string]int{}
	options := marketOptions(cfg)
	options.ReservationCounts = o.left
	for _, x := range table.Offerings(shown, zonesOf(cfg, class), options) {
		named := slices.Contains(o.names, x.Type.Name)
		if len(o.names) > 0 && !named {
			continue
		}
		available, unavailable := x.Available, x.Unavailable
		if object != nil && len(object.Status.AMIs) > 0 {
			if _, ok := launchtemplate.ImageFor(object, x.Type.Labels); !ok {
				available, unavailable = false, "EC2NodeClass "+object.Name+" has no image for it"
			}
		}
		if pool != nil {
			if no := forbids(pool, x); no == "" {
				kept[x.Type.Name] = true
			} else {
				if why[x.Type.Name] == "" {
					why[x.Type.Name] = no
				}
				if !named {
					continue
				}
				available, unavailable = false, "NodePool "+pool.Name+": "+no
			}
		}
		i, ok := at[x.Type.Name]
		if !ok {
			i = len(r.Types)
			at[x.Type.Name] = i
			r.Types = append(r.Types, catalogueType{Name: x.Type.Name, Labels: x.Type.Labels, Capacity: x.Type.Capacity.Map(),
				Allocatable: x.Type.Allocatable.Map(), MemoryFrom: x.Type.MemoryFrom})
		}
		r.Types[i].Offerings = append(r.Types[i].Offerings, catalogueOffer{Zone: x.Zone, CapacityType: x.CapacityType, USDPerHour: report.USD(x.USDPerHour),
			PriceSource: x.PriceSource, Available: available, Unavailable: unavailable})
	}
	counts := map[string]int{}
	for name, no := range why {
		if !kept[name] && len(o.names) == 0 {
			counts[no]++
		}
	}
	for no, n := range counts {
		r.Excluded = append(r.Excluded, catalogueExcluded{no, n})
	}
	slices.SortFunc(r.Excluded, func(a, b catalogueExcluded) int {
		return cmp.Or(cmp.Compare(b.Types, a.Types), cmp.Compare(a.Reason, b.Reason))
	})
	return r, nil
}

// allows says whether a pool's requirements on what the provider knows let an offering in.
func allows(p *model.Pool, o *model.Offering) bool { return forbids(p, o) == "" }

// forbids is the first requirement of a pool that keeps an offering out, or empty.
func forbids(p *model.Pool, o *model.Offering) string {
	for _, r := range p.Requirements.All() {
		if !model.WellKnown(r.Key) || r.Key == model.LabelPool {
			continue
		}
		v, ok := o.Label(r.Key)
		if ok && !r.Has(v) || !ok && !r.AllowsAbsent() {
			return "requirement " + r.String()
		}
	}
	return ""
}

// WriteTable shows a line for each type, or everything about each.
func (r *catalogueReport) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(t, format+"\n", args...)
		}
	}
	if r.wide {
		r.full(line)
	} else {
		line("TYPE\tCPU\tMEMORY\tPODS\tON-DEMAND USD/H\tSPOT USD/H FROM\tZONES\tPRICES\tWHY NOT")
		for _, x := range r.Types {
			zones := map[string]bool{}
			for _, o := range x.Offerings {
				zones[o.Zone] = true
			}
			prices, not := sources(x.Offerings)
			line("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s", x.Name, x.Allocatable["cpu"], x.Allocatable["memory"], x.Allocatable["pods"],
				lowest(x.Offerings, model.OnDemand), lowest(x.Offerings, model.Spot), len(zones), prices, not)
		}
	}
	if err == nil {
		err = t.Flush()
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "\n%d instance types; source %s\n", len(r.Types), r.Source)
	}
	for _, x := range r.Excluded {
		if err == nil {
			_, err = fmt.Fprintf(w, "kept out by NodePool %s: %d with %s\n", r.NodePool, x.Types, x.Reason)
		}
	}
	for _, s := range r.Warnings {
		if err == nil {
			_, err = fmt.Fprintf(w, "warning: %s\n", s)
		}
	}
	return err
}

// sources is where the prices of what can be bought come from, and why nothing of it can
// be, where that is so.
func sources(list []catalogueOffer) (prices, not string) {
	var from, why []string
	for _, o := range list {
		switch {
		case o.Available && !slices.Contains(from, o.PriceSource):
			from = append(from, o.PriceSource)
		case !o.Available && !slices.Contains(why, o.Unavailable):
			why = append(why, o.Unavailable)
		}
	}
	if len(from) > 0 {
		return strings.Join(from, ","), ""
	}
	return "-", strings.Join(why, "; ")
}

func lowest(list []catalogueOffer, capacityType string) string {
	best, found := report.USD(0), false
	for _, o := range list {
		if o.CapacityType == capacityType && o.Available && (!found || o.USDPerHour < best) {
			best, found = o.USDPerHour, true
		}
	}
	if !found {
		return "-"
	}
	return strconv.FormatFloat(float64(best), 'f', 4, 64)
}

func (r *catalogueReport) full(line func(string, ...any)) {
	for _, x := range r.Types {
		line("%s", x.Name)
		pairs := func(title string, m map[string]string) {
			keys := make([]string, 0, len(m))
			for k := range m {
				keys = append(keys, k)
			}
			sort.Strings(keys)
			for i, k := range keys {
				if i > 0 {
					title = ""
				}
				line("  %s\t%s\t%s", title, k, m[k])
			}
		}
		pairs("capacity", x.Capacity)
		pairs("allocatable", x.Allocatable)
		pairs("labels", x.Labels)
		for i, o := range x.Offerings {
			title := "offerings"
			if i > 0 {
				title = ""
			}
			note := o.PriceSource
			if !o.Available {
				note = "not available: " + o.Unavailable
			}
			line("  %s\t%s %s\t%.6f USD/h (%s)", title, o.Zone, o.CapacityType, float64(o.USDPerHour), note)
		}
	}
}
