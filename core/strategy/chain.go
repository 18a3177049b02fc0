package strategy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/sdk"
)

// ChainMember is a strategy whose answers a chain takes in.
type ChainMember struct {
	Strategy string
	Weight   float64 // how much it counts; 0 = 1
	Required bool    // without it the chain does not answer
}

// LeftOut is the rung of a member of a chain that did not answer: the chain went on
// without it.
const LeftOut Rung = "left-out"

// chain is a strategy that others make up. It answers in this process and asks its
// members, wherever they run.
// Whatever is combined is combined in the order of the members' names, so that the order
// in the configuration makes no difference.
type chain struct {
	host    *Host // nil = there are no members to be asked
	name    string
	members []ChainMember // by name
	said    []string      // names and versions of who answered, of the copy that makes one call
}

func newChain(spec Spec, owner slotOwner) *chain {
	host, _ := owner.(*Host)
	c := &chain{host: host, name: spec.Name, members: slices.Clone(spec.Chain)}
	for i := range c.members {
		if c.members[i].Weight == 0 {
			c.members[i].Weight = 1
		}
	}
	slices.SortFunc(c.members, func(a, b ChainMember) int { return cmp.Compare(a.Strategy, b.Strategy) })
	return c
}

// once is the chain for one call, which it remembers who answered of.
func (c *chain) once() *chain {
	out := *c
	out.said = nil
	return &out
}

// chained is the members of all chains.
func (c Config) chained() []string {
	var names []string
	for _, s := range c.Strategies {
		for _, m := range s.Chain {
			names = append(names, m.Strategy)
		}
	}
	return names
}

// checkChains says what is wrong with chains.
func (c Config) checkChains() []error {
	chains := map[string]bool{}
	for _, s := range c.Strategies {
		chains[s.Name] = len(s.Chain) > 0
	}
	var errs []error
	for i, s := range c.Strategies {
		if err := s.checkChain(chains); err != nil && len(s.Chain) > 0 {
			errs = append(errs, fmt.Errorf("strategies[%d] (%s): chain: %w", i, s.Name, err))
		}
	}
	return errs
}

func (s Spec) checkChain(chains map[string]bool) error {
	if s.Path != "" || s.Image != "" || len(s.Config) > 0 {
		return errors.New("a chain has no path, image or config")
	}
	seen := map[string]bool{}
	for _, m := range s.Chain {
		switch {
		case chains[m.Strategy]:
			return fmt.Errorf("member %q is a chain, want a strategy that is none", m.Strategy)
		case seen[m.Strategy]:
			return fmt.Errorf("member %q is there twice", m.Strategy)
		case m.Weight != 0 && !(m.Weight > 0 && m.Weight <= 100):
			return fmt.Errorf("weight of %q is %v, want a number above 0 and up to 100", m.Strategy, m.Weight)
		}
		seen[m.Strategy] = true
	}
	return nil
}

// Describe implements sdk.Strategy. After a call its version is that of each member that
// answered.
func (c *chain) Describe() sdk.Description {
	names := make([]string, len(c.members))
	for i, m := range c.members {
		names[i] = m.Strategy
	}
	version := "chain"
	if len(c.said) > 0 {
		version = cut(strings.Join(c.said, " + "), sdk.MaxReason)
	}
	return sdk.Description{Name: c.name, Version: version, Summary: cut("what "+strings.Join(names, ", ")+" say, taken together", sdk.MaxReason), Deterministic: true}
}

// Configure implements sdk.Strategy; there is nothing to configure.
func (c *chain) Configure(json.RawMessage) error { return nil }

// Price implements sdk.Pricer.
func (c *chain) Price(ctx context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	answers, err := c.ask(ctx, problem{kind: sdk.InstanceSelection, level: LevelPrice, input: req})
	if err != nil {
		return nil, err
	}
	parts := make([]pricePart, len(answers))
	for i, a := range answers {
		parts[i] = pricePart{a.member, a.answer.(*sdk.PriceAnswer)}
	}
	return combinePrices(req, parts)
}

// Score implements sdk.Scorer.
func (c *chain) Score(ctx context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	answers, err := c.ask(ctx, problem{kind: sdk.Consolidation, level: LevelScore, input: req})
	if err != nil {
		return nil, err
	}
	parts := make([]scorePart, len(answers))
	for i, a := range answers {
		parts[i] = scorePart{a.member, a.answer.(*sdk.ScoreAnswer)}
	}
	return combineScores(req, parts), nil
}

// team is the members of a chain as one call finds them.
type team struct {
	host  *Host
	seats map[string]seat
}

// seat is a member; its slot is entered, nil = there is none.
type seat struct {
	slot  *slot
	trial *trial
	prior *slot // entered: the last good version; nil = there is none, or it sleeps
}

// gather finds the members in the generation that is asked and enters them; leave ends
// that. A member that this generation has lost already is asked as it is now.
func (c *chain) gather(ctx context.Context, kind sdk.Kind) *team {
	t := &team{host: c.host, seats: map[string]seat{}}
	t.host.mu.RLock()
	defer t.host.mu.RUnlock()
	gen := t.host.generationOf(ctx)
	for _, m := range c.members {
		for _, s := range []*slot{gen.slots[m.Strategy], t.host.current.slots[m.Strategy], t.host.extra[m.Strategy]} {
			if s == nil || s.local != nil && t.host.closed || !s.enterUnretired() {
				continue
			}
			x := seat{slot: s, trial: gen.trial(kind, m.Strategy)}
			if x.trial != nil && x.trial.kind == "" && x.trial.from.enterAwake() { // of a binding it is another strategy
				x.prior = x.trial.from
			}
			t.seats[m.Strategy] = x
			break
		}
	}
	return t
}

func (t *team) leave() {
	for _, x := range t.seats {
		x.slot.leave()
		if x.prior != nil {
			x.prior.leave()
		}
	}
}

// callTimeout is how long a chain may take that has no time-out of its own: as long as the
// slowest member may, and half of that again for its last good version.
func (c *chain) callTimeout(ctx context.Context, usual time.Duration) time.Duration {
	if c.host == nil {
		return usual
	}
	c.host.mu.RLock()
	defer c.host.mu.RUnlock()
	gen, longest := c.host.generationOf(ctx), time.Duration(0)
	for _, m := range c.members {
		most := usual
		if s := gen.slots[m.Strategy]; s != nil && s.spec.CallTimeout != 0 {
			most = s.spec.CallTimeout
		}
		longest = max(longest, most)
	}
	return longest + longest/2
}

// enterUnretired is enter for a slot that may have ended, where it answers false.
func (s *slot) enterUnretired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	s.calls++
	return true
}

// memberAnswer is what a member answered, checked.
type memberAnswer struct {
	member ChainMember
	answer any
	who    string // name and version of who answered, empty = nobody did
}

// ask asks all members at once and answers what those said that did answer. It is an
// error if a required member did not, or nobody.
func (c *chain) ask(ctx context.Context, p problem) ([]memberAnswer, error) {
	if c.host == nil {
		return nil, errors.New("a chain answers only where its members can be asked")
	}
	t := c.gather(ctx, p.kind)
	defer t.leave()
	answers := make([]memberAnswer, len(c.members))
	calls := make([]Call, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { answers[i], calls[i] = t.ask(ctx, c.name, m, p) })
	}
	wg.Wait()
	var out []memberAnswer
	var failed []string
	var why error
	for i, m := range c.members {
		if answers[i].who != "" {
			out = append(out, answers[i])
			continue
		}
		err := fmt.Errorf("member %s of the chain did not answer (%s): %w", m.Strategy, calls[i].Outcome, calls[i].Err)
		if m.Required && why == nil {
			why = err
		}
		failed = append(failed, err.Error())
	}
	if why != nil {
		return nil, why
	}
	if len(out) == 0 {
		return nil, errors.New(strings.Join(failed, "; "))
	}
	for _, a := range out {
		c.said = append(c.said, a.who)
	}
	return out, nil
}

// ask lets one member answer, or else its last good version, and tells everybody how it went.
func (t *team) ask(ctx context.Context, chain string, m ChainMember, p problem) (memberAnswer, Call) {
	began := time.Now()
	call := Call{Strategy: m.Strategy, began: began, Kind: p.kind, Level: p.level, Pools: poolsIn(p.input), Rung: ByStrategy, Outcome: Refused, Err: errors.New("it is not configured")}
	out := memberAnswer{member: m}
	x := t.seats[m.Strategy]
	if x.slot == nil {
		t.host.opts.OnCall(call)
		return out, call
	}
	q := p.about(&out.answer)
	q.answer = func() any { return out.answer }
	ctx, call.Trace = traced(ctx)
	ctx = apart(ctx)
	call.start = x.slot.starts()
	call.Version, call.Outcome, call.Err = x.slot.ask(ctx, q)
	call.Took = time.Since(began)
	if call.Outcome == OK {
		out.who = m.Strategy + " " + call.Version
	} else {
		call.Rung, call.Fallback = LeftOut, "the rest of chain "+chain
		if who, how := t.host.askPrior(ctx, x.prior, q); how == OK {
			out.who, call.Rung, call.Fallback = who, ByLastGood, who
		}
		t.host.opts.Log.Named("strategy").Warn("a member of a chain did not answer", zap.String("chain", chain), zap.String("strategy", m.Strategy), zap.String("kind", string(p.kind)),
			zap.String("outcome", string(call.Outcome)), zap.Error(call.Err), zap.String("fallback", call.Fallback), zap.String("rung", string(call.Rung)), zap.String("trace", call.Trace))
	}
	t.host.record(q, x.slot, &call, began)
	x.slot.count(call)
	t.host.opts.OnCall(call)
	if x.trial != nil && !errors.Is(ctx.Err(), context.Canceled) {
		t.host.tried(x.trial, call)
	}
	return out, call
}

// poolsIn names the pools of a request.
func poolsIn(input any) []string {
	var pools []sdk.Pool
	switch req := input.(type) {
	case *sdk.PriceRequest:
		pools = req.Pools
	case *sdk.ScoreRequest:
		pools = req.Pools
	}
	names := make([]string, len(pools))
	for i := range pools {
		names[i] = pools[i].Name
	}
	return names
}

// pricePart is what one member says about prices.
type pricePart struct {
	ChainMember
	answer *sdk.PriceAnswer
}

// combinePrices makes one answer of several, which come in the order of their names.
// What one member of weight 1 says stays as it is.
func combinePrices(req *sdk.PriceRequest, parts []pricePart) (*sdk.PriceAnswer, error) {
	if len(parts) == 1 && parts[0].Weight == 1 {
		return parts[0].answer, nil
	}
	out := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		if err := combinePool(req, i, parts, &out.Pools[i]); err != nil {
			return nil, fmt.Errorf("pool %q: %w", req.Pools[i].Name, err)
		}
	}
	return out, nil
}

func combinePool(req *sdk.PriceRequest, i int, parts []pricePart, out *sdk.PoolPrices) error {
	pool := &req.Pools[i]
	out.USDPerHour = make([]float64, len(pool.Offerings))
	said := make([]priced, len(parts))
	for k, o := range pool.Offerings {
		lead := -1
		for j := range parts {
			p := &parts[j].answer.Pools[i]
			said[j] = priced{p.USDPerHour[k], parts[j].Weight}
			if steps := p.Steps[o]; len(steps) > 0 {
				said[j].usd = steps[len(steps)-1].USDPerHour
				if lead < 0 || parts[j].Weight > parts[lead].Weight {
					lead = j
				}
			}
		}
		market := req.USDPerHour[o]
		out.USDPerHour[k] = combine(market, said)
		if lead < 0 {
			continue
		}
		if out.Steps == nil {
			out.Steps = map[int][]sdk.Step{}
		}
		steps := slices.Clone(parts[lead].answer.Pools[i].Steps[o])
		for s := range steps {
			said[lead].usd = steps[s].USDPerHour
			steps[s].USDPerHour = combine(market, said)
			if steps[s].Shared != "" {
				steps[s].Shared = parts[lead].Strategy + ": " + steps[s].Shared
			}
		}
		out.Steps[o] = steps
	}
	for j := range parts {
		p := &parts[j].answer.Pools[i]
		out.FeePerNode = math.Max(out.FeePerNode, p.FeePerNode)
		out.LargestFirst = out.LargestFirst || p.LargestFirst
		for _, v := range p.Vetoes {
			out.Vetoes = append(out.Vetoes, sdk.Veto{Reason: cut(parts[j].Strategy+": "+v.Reason, sdk.MaxReason), Offerings: v.Offerings})
		}
		for _, l := range p.Limits {
			out.Limits = unite(out.Limits, l)
		}
	}
	if n := len(out.Limits); n > sdk.MaxLimits {
		return fmt.Errorf("the members of the chain set %d limits together, at most %d can be kept", n, sdk.MaxLimits)
	}
	return nil
}

// priced is a member's price, with its weight.
type priced struct{ usd, weight float64 }

// combine multiplies the market's price by how far each member departs from it, to the
// power of its weight. What says the market's price changes nothing, and the word of the
// only one that does not stands as it is. Where the market has no price the greatest
// counts.
func combine(market float64, said []priced) float64 {
	alone, departing, sum, most := 0.0, 0, 0.0, 0.0
	for _, p := range said {
		most = math.Max(most, p.usd)
		switch {
		case market <= 0 || p.usd == market:
		case p.usd == 0:
			return 0
		default:
			departing++
			sum += p.weight * math.Log(p.usd/market)
			if alone = math.NaN(); p.weight == 1 {
				alone = p.usd
			}
		}
	}
	switch {
	case market <= 0:
		return most
	case departing == 0:
		return market
	case departing == 1 && !math.IsNaN(alone):
		return alone
	}
	return math.Min(market*math.Exp(sum), sdk.MaxUSDPerHour)
}

// unite adds a limit. Of two about the same thing the tighter one stays, each bound by
// itself, under the name of the one that is tighter; of two as tight, the first.
func unite(limits []sdk.Limit, l sdk.Limit) []sdk.Limit {
	for i := range limits {
		if have := &limits[i]; sameRule(*have, l) {
			*have = tighter(*have, l)
			return limits
		}
	}
	return append(limits, l)
}

func sameRule(a, b sdk.Limit) bool {
	switch {
	case a.PodsPerNode != nil:
		return b.PodsPerNode != nil
	case a.Variety != nil:
		return b.Variety != nil && a.Variety.Over == b.Variety.Over
	}
	return a.Share != nil && b.Share != nil && a.Share.Measure == b.Share.Measure && selectorKey(a.Share.Selector) == selectorKey(b.Share.Selector)
}

// selectorKey is equal for selectors that pick the same, however they are written.
func selectorKey(s sdk.Selector) string {
	keys := make([]string, len(s))
	for i, m := range s {
		values := slices.Clone(m.Values)
		slices.Sort(values)
		keys[i] = fmt.Sprintf("%q %t %q", m.Key, m.Negate, slices.Compact(values))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "; ")
}

// tighter makes one of two limits about the same thing. What is shared is not changed.
func tighter(a, b sdk.Limit) sdk.Limit {
	out := a
	set := func(changed bool) {
		if changed {
			out.Name = b.Name
		}
	}
	switch {
	case a.PodsPerNode != nil:
		p := *a.PodsPerNode
		if x := b.PodsPerNode.Max; x > 0 && (p.Max == 0 || x < p.Max) {
			p.Max = x
			set(true)
		}
		if x := b.PodsPerNode.Share; x > 0 && (p.Share == 0 || x < p.Share) {
			p.Share = x
			set(true)
		}
		out.PodsPerNode = &p
	case a.Variety != nil:
		v := *a.Variety
		set(b.Variety.Min > v.Min)
		v.Min = max(v.Min, b.Variety.Min)
		out.Variety = &v
	default:
		s := *a.Share
		set(b.Share.Min > s.Min || b.Share.Max < s.Max)
		s.Max = math.Min(s.Max, b.Share.Max)
		s.Min = math.Min(math.Max(s.Min, b.Share.Min), s.Max) // the wall stands, the aim gives way
		out.Share = &s
	}
	return out
}

// scorePart is what one member says about moves.
type scorePart struct {
	ChainMember
	answer *sdk.ScoreAnswer
}

// combineScores lets a move be made that all members accept, at the mean of their scores
// by weight.
func combineScores(req *sdk.ScoreRequest, parts []scorePart) *sdk.ScoreAnswer {
	if len(parts) == 1 {
		return parts[0].answer
	}
	weights := 0.0
	for _, p := range parts {
		weights += p.Weight
	}
	out := &sdk.ScoreAnswer{Verdicts: make([]sdk.Verdict, len(req.Moves))}
	for i := range req.Moves {
		v := sdk.Verdict{Accept: true}
		var accepted, refused []string
		for _, p := range parts {
			x := p.answer.Verdicts[i]
			v.Score += x.Score * (p.Weight / weights)
			v.Accept = v.Accept && x.Accept
			switch said := p.Strategy + ": " + x.Reason; {
			case !x.Accept:
				refused = append(refused, said)
			case x.Reason != "":
				accepted = append(accepted, said)
			}
		}
		if v.Reason = strings.Join(accepted, "; "); !v.Accept {
			v.Reason = strings.Join(refused, "; ")
		}
		v.Reason = cut(v.Reason, sdk.MaxReason)
		out.Verdicts[i] = v
	}
	return out
}

// cut keeps a text within so many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
