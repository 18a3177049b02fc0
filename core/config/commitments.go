package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/core/model"
)

// KindCommitments is the kind of a file of commitments.
const KindCommitments = "Commitments"

// Commitments are what is paid for whether it is used or not. They stand in the
// configuration or in a file of their own, not in both.
type Commitments struct {
	File              string             `json:"file"`
	SavingsPlans      []SavingsPlan      `json:"savingsPlans"`
	ReservedInstances []ReservedInstance `json:"reservedInstances"`
}

// SavingsPlan is spend by the hour that on-demand machines draw on, at prices of its own.
type SavingsPlan struct {
	Name       string  `json:"name"`
	USDPerHour float64 `json:"usdPerHour"` // committed
	// Match picks what it covers by the labels of nodes; empty = all on-demand machines.
	Match map[string][]string `json:"match"`
	// Discount is by how much its prices are below those on demand, as a part of them;
	// Prices are those of some instance types, USD per hour.
	Discount float64            `json:"discount"`
	Prices   map[string]float64 `json:"prices"`
	// UsedElsewhere is what machines outside of the cluster draw, USD per hour.
	UsedElsewhere float64 `json:"usedElsewhereUSDPerHour"`
}

// ReservedInstance is machines of one type that are paid for.
type ReservedInstance struct {
	Name         string `json:"name"`
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"` // empty = any of the region
	Count        int    `json:"count"`
	// USDPerHour is what one costs by the hour with what was paid at once spread over its
	// term; 0 = not told.
	USDPerHour    float64 `json:"usdPerHour"`
	UsedElsewhere int     `json:"usedElsewhere"`
}

// readCommitments merges the file that the configuration names into it.
func (d *decoder) readCommitments(c *Config, read func(string) ([]byte, error)) {
	name := c.Commitments.File
	switch {
	case name == "":
		return
	case read == nil:
		d.errs.add(d.origin("commitments.file"), "commitments.file", "is %q, and this program reads no file but its configuration", name)
		return
	case len(c.Commitments.SavingsPlans)+len(c.Commitments.ReservedInstances) > 0:
		d.errs.add(d.origin("commitments.file"), "commitments.file", "is given beside savingsPlans or reservedInstances, expected one or the other")
		return
	}
	data, err := read(name)
	if err != nil {
		d.errs.add(d.origin("commitments.file"), "commitments.file", "cannot be read: %s", err)
		return
	}
	inner := &decoder{file: name, origins: map[string]string{}}
	inner.commitments(data, &c.Commitments)
	d.errs = append(d.errs, inner.errs...)
	for path, at := range inner.origins {
		d.origins[path] = at
	}
}

func (d *decoder) origin(path string) string {
	if at, ok := d.origins[path]; ok {
		return at
	}
	return d.file
}

// commitments reads a file of commitments: one document, its header as that of the
// configuration, then the fields of Commitments without file.
func (d *decoder) commitments(data []byte, into *Commitments) {
	if len(data) > MaxFile {
		d.errs.add(d.file, "", "is %d bytes long, at most %d are read", len(data), MaxFile)
		return
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.errs.add(d.file, "", "is empty, expected apiVersion: %s, kind: %s", APIVersion, KindCommitments)
		return
	case err != nil:
		d.errs.add(d.file, "", "is not YAML or JSON: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	case !errors.Is(dec.Decode(&second), io.EOF):
		d.errs.add(d.file, "", "has more than one document, expected one %s", KindCommitments)
		return
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		d.fail(root, "", "expected fields: apiVersion, kind, savingsPlans, reservedInstances")
		return
	}
	file := struct {
		APIVersion        string             `json:"apiVersion"`
		Kind              string             `json:"kind"`
		SavingsPlans      []SavingsPlan      `json:"savingsPlans"`
		ReservedInstances []ReservedInstance `json:"reservedInstances"`
	}{}
	if !d.headerOf(root, KindCommitments) {
		return
	}
	d.value(root, reflect.ValueOf(&file).Elem(), "commitments")
	into.SavingsPlans, into.ReservedInstances = file.SavingsPlans, file.ReservedInstances
}

const (
	maxCommitments = 100 // of each kind
	maxCommitted   = 1e6 // USD per hour
)

// commitments says what is wrong with them and gives those without a name one.
func (v *validator) commitments() {
	c := &v.cfg.Commitments
	if n := max(len(c.SavingsPlans), len(c.ReservedInstances)); n > maxCommitments {
		v.fail("commitments", "has %d entries of a kind, expected at most %d", n, maxCommitments)
		return
	}
	seen := map[string]string{}
	name := func(path string, name *string, otherwise string) {
		if *name == "" {
			*name = otherwise
		}
		switch before, twice := seen[*name]; {
		case len(*name) > 40:
			v.fail(path+".name", "is %q, expected at most 40 characters", *name)
		case twice:
			v.fail(path+".name", "is %q as that of %s, expected a name of its own", *name, before)
		}
		seen[*name] = path
	}
	for i := range c.SavingsPlans {
		p, path := &c.SavingsPlans[i], fmt.Sprintf("commitments.savingsPlans[%d]", i)
		name(path, &p.Name, fmt.Sprintf("savings-plan-%d", i))
		v.savingsPlan(path, p)
	}
	for i := range c.ReservedInstances {
		r, path := &c.ReservedInstances[i], fmt.Sprintf("commitments.reservedInstances[%d]", i)
		name(path, &r.Name, strings.Trim(r.InstanceType+"-"+r.Zone, "-"))
		switch {
		case r.InstanceType == "":
			v.fail(path+".instanceType", "is missing, expected one such as m7g.large")
		case r.Zone != "" && !zoneName.MatchString(r.Zone):
			v.fail(path+".zone", "is %q, expected a zone such as us-east-1a, or nothing", r.Zone)
		case r.Count < 1 || r.Count > 1e6:
			v.fail(path+".count", "is %d, expected 1 to 1000000", r.Count)
		case r.UsedElsewhere < 0 || r.UsedElsewhere > r.Count:
			v.fail(path+".usedElsewhere", "is %d, expected 0 to count, which is %d", r.UsedElsewhere, r.Count)
		case !(r.USDPerHour >= 0 && r.USDPerHour <= maxCommitted):
			v.fail(path+".usdPerHour", "is %v, expected 0 to %g", r.USDPerHour, maxCommitted)
		}
	}
}

func (v *validator) savingsPlan(path string, p *SavingsPlan) {
	switch {
	case !(p.USDPerHour > 0 && p.USDPerHour <= maxCommitted):
		v.fail(path+".usdPerHour", "is %v, expected what is committed, above 0 and at most %g", p.USDPerHour, maxCommitted)
	case !(p.UsedElsewhere >= 0 && p.UsedElsewhere <= p.USDPerHour):
		v.fail(path+".usedElsewhereUSDPerHour", "is %v, expected 0 to usdPerHour, which is %v", p.UsedElsewhere, p.USDPerHour)
	}
	if !(p.Discount >= 0 && p.Discount < 1) {
		v.fail(path+".discount", "is %v, expected a part of at least 0 and below 1, such as 0.28", p.Discount)
	}
	if len(p.Match) > 15 {
		v.fail(path+".match", "has %d labels, expected at most 15", len(p.Match))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Match)) {
		switch n := len(p.Match[key]); {
		case n == 0 || n > 256:
			v.fail(path+".match."+key, "has %d values, expected 1 to 256", n)
		case key == model.LabelCapacityType:
			v.fail(path+".match."+key, "is not to be given: a Savings Plan covers on-demand machines alone")
		}
	}
	if len(p.Prices) > 2000 {
		v.fail(path+".prices", "has %d instance types, expected at most 2000", len(p.Prices))
	}
	for _, t := range slices.Sorted(maps.Keys(p.Prices)) {
		if usd := p.Prices[t]; !(usd > 0 && usd <= maxCommitted) {
			v.fail(path+".prices."+t, "is %v, expected USD per hour, above 0", usd)
		}
	}
}

// model is the commitments as planning reads them: reserved instances before Savings
// Plans, as AWS applies them, and each kind in the order in which it is written.
func (c *Commitments) model() []model.Commitment {
	source := "configuration"
	if c.File != "" {
		source = c.File
	}
	onDemand := model.LabelMatch{Key: model.LabelCapacityType, Values: []string{model.OnDemand}}
	var out []model.Commitment
	for _, r := range c.ReservedInstances {
		m := model.Commitment{Name: r.Name, Source: source, Nodes: int64(r.Count), UsedNodes: int64(r.UsedElsewhere),
			Covers: model.OfferingSelector{onDemand, {Key: model.LabelInstanceType, Values: []string{r.InstanceType}}}}
		if r.Zone != "" {
			m.Covers = append(m.Covers, model.LabelMatch{Key: model.LabelZone, Values: []string{r.Zone}})
		}
		if r.USDPerHour > 0 {
			m.USDPerHourByType = map[string]float64{r.InstanceType: r.USDPerHour}
		}
		out = append(out, m)
	}
	for _, p := range c.SavingsPlans {
		m := model.Commitment{Name: p.Name, Source: source, USDPerHour: p.USDPerHour, UsedUSDPerHour: p.UsedElsewhere,
			Discount: p.Discount, USDPerHourByType: p.Prices, Covers: model.OfferingSelector{onDemand}}
		for _, key := range slices.Sorted(maps.Keys(p.Match)) {
			m.Covers = append(m.Covers, model.LabelMatch{Key: key, Values: p.Match[key]})
		}
		out = append(out, m)
	}
	return out
}
