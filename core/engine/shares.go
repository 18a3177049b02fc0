package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/weir-project/weir/core/model"
)

// rule is a bound on what some offerings of a pool have of a measure of all of its
// nodes. A least share is the greatest share of all others.
type rule struct {
	limit   *model.StrategyLimit
	aim     bool    // of a least share: given up for pods that find no place otherwise
	most    float64 // greatest share of what is picked, 0 to 1
	picks   bitset  // offerings of the class
	amounts []int64 // of each offering in the measure; nil = 1. Money counts in 1e-9 USD
	portion portion // of the nodes that run and those bought so far
	took    bool    // something that it picks was bought
}

// portion is what is counted for a rule, in its measure.
type portion struct{ picked, total int64 }

// nanoUSD makes money countable without rounding errors that depend on the order.
const nanoUSD = 1e9

// compileRules reads the share limits that a strategy set for the pool.
func (p *pool) compileRules(w *model.World) {
	for i := range p.prices.Limits {
		l := &p.prices.Limits[i]
		switch {
		case l.Share != nil:
			picks := newBits(len(p.class.offerings))
			for k, o := range p.class.offerings {
				if l.Share.Selector.Picks(o.Label) {
					picks.set(k)
				}
			}
			if l.Share.Max < 1 {
				p.rules = append(p.rules, p.newRule(w, l, l.Share.Max, picks, false))
			}
			if l.Share.Min > 0 {
				others := p.class.all.clone()
				others.andNot(picks)
				p.rules = append(p.rules, p.newRule(w, l, 1-l.Share.Min, others, true))
			}
		case l.Variety != nil:
			p.varieties = append(p.varieties, l)
		}
	}
}

func (p *pool) newRule(w *model.World, l *model.StrategyLimit, most float64, picks bitset, aim bool) *rule {
	r := &rule{limit: l, aim: aim, most: most, picks: picks}
	if l.Share.Measure != model.MeasureNodes {
		r.amounts = make([]int64, len(p.class.offerings))
		for i, o := range p.class.offerings {
			r.amounts[i] = measured(l.Share.Measure, o.Type.Capacity.Get("cpu"), o.USDPerHour)
		}
	}
	for _, n := range staying(w, p.Name) {
		x := measured(l.Share.Measure, n.Capacity.Get("cpu"), known(n))
		r.portion.total += x
		if l.Share.Selector.Picks(func(key string) (string, bool) { v, ok := n.Labels[key]; return v, ok }) != aim {
			r.portion.picked += x
		}
	}
	return r
}

// staying is the nodes that a pool's limits of strategies count: those that stay.
func staying(w *model.World, pool string) []*model.Node {
	var out []*model.Node
	for _, n := range w.Nodes {
		if n.Managed() && n.Pool() == pool && !n.BeingRemoved() {
			out = append(out, n)
		}
	}
	return out
}

func known(n *model.Node) float64 {
	if n.PriceKnown {
		return n.USDPerHour
	}
	return 0
}

// measured is what one machine counts.
func measured(m model.Measure, milliCPU int64, usd float64) int64 {
	switch m {
	case model.MeasureCPU:
		return milliCPU
	case model.MeasureUSDPerHour:
		return int64(math.Round(usd * nanoUSD))
	}
	return 1
}

func (r *rule) amount(offering int) int64 {
	if r.amounts == nil {
		return 1
	}
	return r.amounts[offering]
}

// times is how many more nodes of an offering the rule allows.
func (r *rule) times(t portion, offering int, want int64) int64 {
	if !r.picks.has(offering) || r.most >= 1 {
		return want
	}
	x := r.amount(offering)
	if x <= 0 {
		return want
	}
	// picked + k·x <= most·(total + k·x)
	spare := r.most*float64(t.total) - float64(t.picked)
	k := int64(math.Floor(spare/(float64(x)*(1-r.most)) + 1e-9))
	return max(0, min(want, k))
}

// holds says whether the rule holds for what is counted.
func (r *rule) holds(t portion) bool { return shareHolds(float64(t.picked), float64(t.total), r.most) }

// shareHolds compares a share with its bound; binary fractions of a bound such as 0.7
// are not to decide.
func shareHolds(picked, total, most float64) bool { return picked <= most*total+1e-9*max(total, 1) }

// bounds is what the limits and price steps of strategies still allow in one packing.
// It is nil where there are none.
type bounds struct {
	portions map[*rule]portion
	steps    map[string]float64 // left of the quantities, by name
	aims     bool               // least shares are kept, too
}

func (p *packer) newBounds() *bounds {
	var b *bounds
	need := func() {
		if b == nil {
			b = &bounds{portions: map[*rule]portion{}, steps: map[string]float64{}, aims: !p.noAims}
		}
	}
	for _, o := range p.options {
		for _, r := range o.pool.rules {
			need()
			b.portions[r] = r.portion
		}
		for s := o; s != nil && s.step != nil; s = s.next {
			need()
			b.steps[s.step.name] = p.pr.stepLeft(s.step)
		}
	}
	return b
}

// stepLeft is what is left of a quantity after the tiers that have bought already.
func (pr *problem) stepLeft(s *priceStep) float64 {
	return s.quantity - pr.stepped[s.name]
}

// times is how many nodes of the option the strategies' limits and its step allow.
func (b *bounds) times(o *option, want int64) int64 {
	for _, r := range o.pool.rules {
		if !r.aim || b.aims {
			want = r.times(b.portions[r], o.offering, want)
		}
	}
	if s := o.step; s != nil {
		want = min(want, s.times(b.steps[s.name]))
	}
	return want
}

func (b *bounds) take(o *option, times int64) {
	for _, r := range o.pool.rules {
		b.portions[r] = r.with(b.portions[r], o.offering, times)
	}
	if s := o.step; s != nil {
		b.steps[s.name] -= s.each * float64(times)
	}
}

func (r *rule) with(t portion, offering int, times int64) portion {
	x := r.amount(offering) * times
	t.total += x
	if r.picks.has(offering) {
		t.picked += x
	}
	return t
}

// waits says whether only rules on shares stand in the way of an option: they may
// allow it again once other nodes are bought.
func (c *caps) waits(o *option) bool {
	if c.bounds == nil || len(o.pool.rules) == 0 {
		return false
	}
	bare := caps{limits: c.limits, counts: c.counts}
	return bare.times(o, 1) > 0 && (o.step == nil || o.step.times(c.bounds.steps[o.step.name]) > 0)
}

// pace is how many nodes of an option are bought at once while others wait for their
// share to grow: about half of the nodes that it would have in the end, so that the
// others get their part of the pods, too.
func (b *bounds) pace(parked []*option, o *option, times int64) int64 {
	for _, w := range parked {
		for _, r := range o.pool.rules {
			if w.pool == o.pool && (!r.aim || b.aims) && r.picks.has(w.offering) && !r.picks.has(o.offering) {
				times = min(times, max(1, int64(float64(times)*(1-r.most)/2)))
			}
		}
	}
	return times
}

// sharesHold says whether nodes together keep the shares that strategies ask for.
func (p *packer) sharesHold(parts ...[]column) bool {
	b := p.newBounds()
	if b == nil {
		return true
	}
	took := map[*rule]bool{}
	for _, cols := range parts {
		for i := range cols {
			o := cols[i].opt
			b.take(o, cols[i].times)
			for _, r := range o.pool.rules {
				took[r] = took[r] || r.picks.has(o.offering)
			}
		}
	}
	for r, portion := range b.portions {
		if took[r] && (!r.aim || b.aims) && !r.holds(portion) {
			return false
		}
	}
	return true
}

// unpark moves the options that may be bought again back into the queue.
func (c *caps) unpark(q *queue, parked []*option) []*option {
	return slices.DeleteFunc(parked, func(o *option) bool {
		if c.times(o, 1) == 0 {
			return false
		}
		q.add(o)
		return true
	})
}

// priceStep is a price up to a quantity.
type priceStep struct {
	name     string // of the quantity
	quantity float64
	each     float64 // that one node takes
}

func (s *priceStep) times(left float64) int64 {
	if s.each <= 0 {
		return math.MaxInt64
	}
	return max(0, int64(left/s.each+1e-9))
}

// moveSteps puts the steps in the order of the class's offerings.
func (p *pool) moveSteps() {
	if len(p.prices.Steps) == 0 {
		return
	}
	moved := make(map[int][]model.PriceStep, len(p.prices.Steps))
	for i, j := range p.class.from {
		if s := p.prices.Steps[j]; len(s) > 0 {
			moved[i] = s
		}
	}
	p.prices.Steps = moved
}

// chained makes chains of the options that have steps.
func (p *pool) chained(options []*option) []*option {
	if len(p.prices.Steps) > 0 {
		for _, o := range options {
			p.chain(o)
		}
	}
	return options
}

// chain turns an option whose price depends on the quantity into the first of its
// steps; each knows the next one. The last one has no end.
func (p *pool) chain(o *option) {
	steps := p.prices.Steps[o.offering]
	for i, s := range steps {
		o.effective = s.USDPerHour + p.prices.FeePerNode
		if i == len(steps)-1 {
			return
		}
		off := p.class.offerings[o.offering]
		o.step = &priceStep{name: s.Shared, quantity: float64(s.Nodes), each: 1}
		if s.Nodes == 0 {
			o.step.quantity, o.step.each = s.SumUSDPerHour, off.USDPerHour
		}
		if s.Shared == "" {
			o.step.name = fmt.Sprintf("%s/%s/%s/%d", p.Name, off.Key(), off.ReservationID, i)
		}
		next := *o
		next.step = nil
		o.next = &next
		o = o.next
	}
}

// lasting is the price of an option without end: that of its last step.
func (o *option) lasting() float64 {
	for o.next != nil {
		o = o.next
	}
	return o.effective
}

// least is the lowest price that an option comes to have.
func (o *option) least() float64 {
	usd := o.effective
	for ; o != nil; o = o.next {
		usd = min(usd, o.effective)
	}
	return usd
}

// bought counts the nodes of a tier for the tiers after it.
func (pr *problem) bought(cols []column) {
	for i := range cols {
		o, times := cols[i].opt, cols[i].times
		for _, r := range o.pool.rules {
			r.portion = r.with(r.portion, o.offering, times)
			r.took = r.took || r.picks.has(o.offering)
		}
		if o.step != nil {
			pr.stepped[o.step.name] += o.step.each * float64(times)
		}
		if o.count >= 0 {
			pr.stock[o.reservationOf()] -= times
		}
	}
}

// appendShares makes options differ that count differently for the pool's rules.
func (p *pool) appendShares(key []byte, i int) []byte {
	for _, r := range p.rules {
		in := int64(0)
		if r.picks.has(i) {
			in = 1
		}
		key = appendInt(key, in)
		if r.limit.Share.Measure == model.MeasureCPU {
			key = appendInt(key, r.amount(i))
		}
	}
	return key
}

// sameShares says whether two offerings count alike for the pool's rules: shares in
// money allow for the difference in price that alternatives have anyhow.
func (p *pool) sameShares(a, b int) bool {
	for _, r := range p.rules {
		if r.picks.has(a) != r.picks.has(b) || r.limit.Share.Measure == model.MeasureCPU && r.amount(a) != r.amount(b) {
			return false
		}
	}
	return true
}

// keepsShares says whether the rules that hold with one offering hold with another in
// its stead: it counts alike, and in money no more among the picked and no less beside.
func (p *pool) keepsShares(instead, own int) bool {
	if !p.sameShares(instead, own) {
		return false
	}
	for _, r := range p.rules {
		if r.limit.Share.Measure != model.MeasureUSDPerHour {
			continue
		}
		a, b := r.amount(instead), r.amount(own)
		if r.picks.has(own) && a > b || !r.picks.has(own) && a < b {
			return false
		}
	}
	return true
}

// priced says whether the strategy's price or limits depend on what else is bought.
func (p *pool) priced() bool {
	return len(p.rules) > 0 || len(p.varieties) > 0 || len(p.prices.Steps) > 0
}

// shareReason says which limit of the strategy keeps every offering of a set from
// being bought, or nothing.
func (p *pool) shareReason(b bitset) string {
	if len(p.rules) == 0 {
		return ""
	}
	msg := ""
	some := false
	b.each(func(i int) {
		for _, r := range p.rules {
			if r.aim || r.times(r.portion, i, 1) > 0 {
				continue
			}
			if msg == "" {
				msg = fmt.Sprintf("limit %q of strategy %s: at most %s of the pool's %s may be %s; it is %s of %s now",
					r.limit.Name, p.prices.Strategy, percent(r.most), measureName(r.limit.Share.Measure), p.class.offerings[i].CapacityType+" "+p.class.offerings[i].Type.Name+" or the like",
					amountText(r.limit.Share.Measure, r.portion.picked), amountText(r.limit.Share.Measure, r.portion.total))
			}
			return
		}
		some = true
	})
	if some {
		return ""
	}
	return msg
}

// shareShortfalls lists the least shares that the pool's nodes do not have in the
// end, where anything was bought against them.
func (p *pool) shareShortfalls() []model.Shortfall {
	var out []model.Shortfall
	for _, r := range p.rules {
		if r.aim && r.took && !r.holds(r.portion) {
			m := r.limit.Share.Measure
			out = append(out, model.Shortfall{Pool: p.Name, Limit: r.limit.Name, Message: fmt.Sprintf("at least %s of the %s was asked for, it is %s of %s: the pods could not all be placed otherwise",
				percent(1-r.most), measureName(m), amountText(m, r.portion.total-r.portion.picked), amountText(m, r.portion.total))})
		}
	}
	return out
}

func percent(x float64) string { return fmt.Sprintf("%.4g%%", 100*x) }

func measureName(m model.Measure) string {
	switch m {
	case model.MeasureCPU:
		return "vCPUs"
	case model.MeasureUSDPerHour:
		return "price"
	}
	return "nodes"
}

func amountText(m model.Measure, x int64) string {
	switch m {
	case model.MeasureCPU:
		return fmt.Sprintf("%.4g", float64(x)/1000)
	case model.MeasureUSDPerHour:
		return fmt.Sprintf("%.4f USD/h", float64(x)/nanoUSD)
	}
	return fmt.Sprint(x)
}
