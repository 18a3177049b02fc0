package engine

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

const (
	maxOffers       = 60   // that one launch names
	defaultMaxRatio = 1.25 // of the effective price of the best, for alternatives
)

// menu is everything that may be bought from one pool, cheapest first, to turn a
// filling into a node with its alternatives.
type menu struct {
	pr     *problem
	pool   *pool
	rights rights
	order  []int // offerings by effective price
	ratio  float64
}

func (pr *problem) newMenu(p *pool, groups []*group) *menu {
	m := &menu{pr: pr, pool: p, rights: pr.rightsOf(p, groups), ratio: pr.w.Settings.AlternativesMaxRatio}
	if m.ratio < 1 {
		m.ratio = defaultMaxRatio
	}
	p.usable.each(func(i int) { m.order = append(m.order, i) })
	slices.SortStableFunc(m.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.effective(a), p.effective(b)), cmp.Compare(p.class.offerings[a].USDPerHour, p.class.offerings[b].USDPerHour))
	})
	return m
}

// legal says whether the pods of a column may run on an offering.
func (m *menu) legal(i int, size []int64, specs []bitset) bool {
	if !m.pool.holds(i, size) {
		return false
	}
	for _, b := range specs {
		if b == nil || !b.has(i) {
			return false
		}
	}
	return true
}

// node describes one node of a column: the cheapest offering that holds its pods,
// and the others of the same capacity type that may stand in for it.
func (m *menu) node(pk *packer, c *column) *model.NewNode {
	p := m.pool
	size, specs := m.wants(pk, c)
	// without limits a cheaper offering may do that the packing had left out
	best := c.opt.offering
	if p.limits == nil && c.opt.count < 0 && len(p.minKeys) == 0 && !p.priced() {
		for _, i := range m.order {
			if p.class.offerings[i].ReservationID == "" && m.legal(i, size, specs) {
				best = i
				break
			}
		}
	}
	n := m.as(pk, c, best, size, specs, nil)
	if len(p.prices.Steps) > 0 {
		n.Effective = c.opt.effective - p.prices.FeePerNode
	}
	return n
}

// as is a node of a column bought with an offering; keep, unless nil, says which
// alternatives it may have.
func (m *menu) as(pk *packer, c *column, best int, size []int64, specs []bitset, keep func(int) bool) *model.NewNode {
	p := m.pool
	offers := m.alternatives(best, size, specs, keep)
	n := &model.NewNode{Pool: p.Pool, Offering: p.class.offerings[best], Effective: p.effective(best), Daemons: p.overhead[best]}
	for _, i := range offers {
		n.Alternatives = append(n.Alternatives, p.class.offerings[i])
	}
	for _, it := range c.items {
		n.Requests = n.Requests.Add(m.pr.groups[it.group].req.Scale(int64(it.n)))
	}
	n.Requirements = claimRequirements(p.Pool, pk.joins.sets[c.custom], append([]*model.Offering{n.Offering}, n.Alternatives...))
	n.Labels = nodeLabels(p.Pool, n.Offering, n.Requirements)
	if len(p.minKeys) > 0 && m.pr.w.Settings.MinValuesBestEffort {
		m.relaxMinValues(n, append([]int{best}, offers...))
	}
	return n
}

// relaxMinValues asks for no more flexibility than the offers have.
func (m *menu) relaxMinValues(n *model.NewNode, offers []int) {
	d := newDistinct(m.pool.minKeys)
	for _, i := range offers {
		d.add(m.pool, i)
	}
	relaxed := !d.satisfied()
	n.MinValuesRelaxed = &relaxed
	if !relaxed {
		return
	}
	have := map[string]int{}
	for i, r := range d.reqs {
		have[r.Key] = len(d.seen[i])
	}
	reqs := slices.Clone(n.Requirements.All())
	for i := range reqs {
		if k, ok := have[reqs[i].Key]; ok {
			reqs[i].MinValues = min(reqs[i].MinValues, k)
		}
	}
	n.Requirements = require.NewSet(reqs...)
}

// wants is what the pods of a column take, and which offerings each kind may use.
func (m *menu) wants(pk *packer, c *column) (size []int64, specs []bitset) {
	seen := map[int]bool{}
	for _, it := range c.items {
		if s := m.pr.groups[it.group].spec.index; !seen[s] {
			seen[s] = true
			specs = append(specs, m.rights.bySpec[s])
		}
	}
	return pk.size(c), specs
}

func (m *menu) alternatives(best int, size []int64, specs []bitset, keep func(int) bool) []int {
	p := m.pool
	chosen := p.class.offerings[best]
	flex := newDistinct(p.minKeys)
	flex.add(p, best)
	// the ratio bounds only what is not needed to keep the flexibility that was asked for
	bound := p.effective(best)*m.ratio + 1e-12
	var within, beyond []int
	for _, i := range m.order {
		o := p.class.offerings[i]
		if i == best || o.CapacityType != chosen.CapacityType || o.ReservationID != "" || !p.noLarger(i, chosen) {
			continue
		}
		if !p.sameShares(i, best) || keep != nil && !keep(i) {
			continue
		}
		over := p.effective(i) > bound
		if over && len(p.minKeys) == 0 {
			break
		}
		if !m.legal(i, size, specs) {
			continue
		}
		if over {
			beyond = append(beyond, i)
		} else {
			within = append(within, i)
		}
	}
	if len(p.minKeys) == 0 {
		return within[:min(len(within), maxOffers-1)]
	}
	var needed []int
	for _, i := range slices.Concat(within, beyond) {
		if flex.wants(p, i) {
			flex.add(p, i)
			needed = append(needed, i)
		}
	}
	out := needed
	for _, i := range within {
		if len(out) >= maxOffers-1 {
			break
		}
		if !slices.Contains(needed, i) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(p.effective(a), p.effective(b)) })
	return out
}

// noLarger says whether buying the offering instead would use no more of a limit.
func (p *pool) noLarger(i int, chosen *model.Offering) bool {
	if p.limits == nil {
		return true
	}
	c := p.class.offerings[i].Type.Capacity
	for name := range p.limits.left {
		if c.Get(name) > chosen.Type.Capacity.Get(name) {
			return false
		}
	}
	return true
}

func claimRequirements(p *model.Pool, custom require.Set, offers []*model.Offering) require.Set {
	var types, zones []string
	for _, o := range offers {
		types = append(types, o.Type.Name)
		zones = append(zones, o.Zone)
	}
	in := func(key string, values ...string) require.Requirement {
		return require.Must(key, require.In, values...)
	}
	s := p.Requirements.And(custom).With(in(model.LabelInstanceType, types...), in(model.LabelZone, zones...),
		in(model.LabelCapacityType, offers[0].CapacityType))
	if id := offers[0].ReservationID; id != "" {
		s = s.With(in(model.LabelReservationID, id))
	}
	return s
}

// nodeLabels is what the node will carry once it is bought as planned: the pool's
// labels, those of the offering, and a value for every other key that is asked for.
func nodeLabels(p *model.Pool, o *model.Offering, reqs require.Set) map[string]string {
	labels := map[string]string{}
	for _, r := range reqs.All() {
		if !ofOffering(r.Key) {
			if v, ok := pick(r); ok {
				labels[r.Key] = v
			}
		}
	}
	maps.Copy(labels, p.Labels)
	maps.Copy(labels, o.Type.Labels)
	labels[model.LabelPool] = p.Name
	labels[model.LabelZone] = o.Zone
	if o.ZoneID != "" {
		labels[model.LabelZoneID] = o.ZoneID
	}
	labels[model.LabelCapacityType] = o.CapacityType
	if o.ReservationID != "" {
		for _, key := range []string{model.LabelReservationID, model.LabelReservationType, model.LabelReservationInterruptible} {
			labels[key], _ = o.Label(key)
		}
	}
	return labels
}

// pick chooses a value that satisfies a requirement on a label of one's own: the
// first listed one, else the smallest integer that is allowed. The same requirement
// always gives the same value.
func pick(r require.Requirement) (string, bool) {
	if r.Finite() {
		if len(r.Values) == 0 {
			return "", false
		}
		return r.Values[0], true
	}
	var n int64
	if r.Min != nil {
		n = *r.Min
	}
	for ; ; n++ {
		if v := strconv.FormatInt(n, 10); r.Has(v) {
			return v, true
		}
		if r.Max != nil && n >= *r.Max {
			return "", false
		}
	}
}

// Allocatable is the room for pods on a node bought as planned, daemon pods taken off.
func Allocatable(n *model.NewNode) resource.Vector {
	return n.Offering.Type.Allocatable.Sub(n.Daemons)
}
