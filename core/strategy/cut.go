package strategy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-project/weir/plugins/sdk"
)

// What crosses the wire has bounds (sdk.MaxPools and its like), clusters have none. A
// question that is larger is put to a process in cuts, and its answers are joined: by pools,
// and where the catalogue itself is too large, by shelves of it.

// maxAsked is how many bytes pools may take in one message, their answer included: the rest
// is for prices and what is known of offerings.
const (
	maxAsked         = 12 << 20
	bytesPerOffering = 32 // of a pool: its index, and in the answer a price, a veto and a step
	bytesPerRunning  = 96
	keptShelves      = 4 // catalogues of which an instance remembers how they are cut
	keptExtra        = 8 // shelves of classes that stand on several
)

// shelf is what is sent of a catalogue at once.
type shelf struct {
	catalogue *sdk.Catalogue
	at        []int // position on the shelf by index in the catalogue, -1 = not on it; nil = all are, in order
	from      []int // and the way back
}

// wholeShelf is a shelf with all of a catalogue.
func wholeShelf(c *sdk.Catalogue) *shelf { return &shelf{catalogue: c} }

// on is where an offering of the whole catalogue is on the shelf, -1 if it is not.
func (s *shelf) on(offering int) int {
	if s.at == nil || offering < 0 {
		return offering
	}
	return s.at[offering]
}

// off is the way back.
func (s *shelf) off(offering int) int {
	if s.at == nil {
		return offering
	}
	return s.from[offering]
}

// extent is how large something is that is sent.
type extent struct{ offerings, types, texts, bytes int }

func (e *extent) add(o extent) {
	e.offerings += o.offerings
	e.types += o.types
	e.texts += o.texts
	e.bytes += o.bytes
}

func (e extent) fits() bool {
	return e.offerings <= sdk.MaxOfferings && e.types <= sdk.MaxTypes && e.texts <= sdk.MaxTexts && e.bytes <= sdk.MaxMessageBytes
}

// surveyor takes the extent of offerings; what is equal counts once.
type surveyor struct {
	extent
	types map[*sdk.InstanceType]bool
	texts map[string]bool
}

func newSurveyor() *surveyor {
	return &surveyor{types: map[*sdk.InstanceType]bool{}, texts: map[string]bool{}}
}

func (v *surveyor) text(s string) {
	if !v.texts[s] {
		v.texts[s] = true
		v.extent.texts++
		v.bytes += len(s) + 4
	}
}

func (v *surveyor) add(o *sdk.Offering) {
	v.offerings++
	v.bytes += 20
	v.text(o.Zone)
	v.text(o.CapacityType)
	v.text(o.ReservationID)
	t := o.Type
	if v.types[t] {
		return
	}
	v.types[t] = true
	v.extent.types++
	v.bytes += 64 + 8*len(t.Labels) + 20*len(t.Extended)
	v.text(t.Name)
	v.text(t.NodeClass)
	for key, value := range t.Labels {
		v.text(key)
		v.text(value)
	}
	for name := range t.Extended {
		v.text(name)
	}
}

// shelves is a catalogue laid out in as few parts as can be sent, by node class.
type shelves struct {
	whole   *sdk.Catalogue
	all     *shelf // nil = it is too large
	extents map[string]extent
	set     map[string][]string // the classes that stand beside a class, it included
	err     error               // why it cannot be sent in parts either

	mu    sync.Mutex // guards what follows
	built map[string]*shelf
}

func newShelves(c *sdk.Catalogue) *shelves {
	s := &shelves{whole: c, extents: map[string]extent{}, set: map[string][]string{}, built: map[string]*shelf{}}
	total, byClass := newSurveyor(), map[string]*surveyor{}
	for i := range c.Offerings {
		o := &c.Offerings[i]
		total.add(o)
		v := byClass[o.Type.NodeClass]
		if v == nil {
			v = newSurveyor()
			byClass[o.Type.NodeClass] = v
		}
		v.add(o)
	}
	if total.fits() {
		s.all = wholeShelf(c)
		return s
	}
	var set []string
	var sum extent
	lay := func() {
		for _, name := range set {
			s.set[name] = set
		}
		set, sum = nil, extent{}
	}
	for _, name := range sortedNames(byClass) {
		e := byClass[name].extent
		s.extents[name] = e
		if !e.fits() {
			s.err = &refusal{fmt.Sprintf("node class %q has %d offerings of %d types, more than a strategy is sent (%d of %d)",
				name, e.offerings, e.types, sdk.MaxOfferings, sdk.MaxTypes)}
			return s
		}
		next := sum
		if next.add(e); !next.fits() {
			lay()
		}
		sum.add(e)
		set = append(set, name)
	}
	lay()
	return s
}

// beside is the shelf that a class stands on. Of a class that has no offerings it is the first.
func (s *shelves) beside(class string) *shelf {
	if s.all != nil {
		return s.all
	}
	set, ok := s.set[class]
	if !ok {
		set = s.set[sortedNames(s.set)[0]]
	}
	return s.build(set)
}

// of is a shelf with some classes at least.
func (s *shelves) of(classes map[string]bool) (*shelf, error) {
	if s.all != nil {
		return s.all, nil
	}
	var names []string
	var sum extent
	together := true
	for _, name := range sortedNames(classes) {
		if _, ok := s.set[name]; !ok {
			continue // it has no offerings
		}
		names = append(names, name)
		sum.add(s.extents[name])
		together = together && slices.Contains(s.set[names[0]], name)
	}
	switch {
	case len(names) == 0:
		return s.beside(""), nil
	case together:
		return s.beside(names[0]), nil
	case !sum.fits():
		return nil, &refusal{fmt.Sprintf("%d offerings of %d types in %d node classes are more than a strategy is sent at once (%d of %d)",
			sum.offerings, sum.types, len(names), sdk.MaxOfferings, sdk.MaxTypes)}
	}
	return s.build(names), nil
}

// build makes the shelf of some classes, in the order of their names.
func (s *shelves) build(classes []string) *shelf {
	key := strings.Join(classes, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.built[key]; b != nil {
		return b
	}
	if len(s.built) >= len(s.set)+keptExtra {
		clear(s.built)
	}
	out := &shelf{catalogue: &sdk.Catalogue{}, at: make([]int, len(s.whole.Offerings))}
	for i := range s.whole.Offerings {
		o := &s.whole.Offerings[i]
		if _, ok := slices.BinarySearch(classes, o.Type.NodeClass); !ok {
			out.at[i] = -1
			continue
		}
		out.at[i] = len(out.from)
		out.from = append(out.from, i)
		out.catalogue.Offerings = append(out.catalogue.Offerings, *o)
	}
	sdk.HashCatalogue(out.catalogue)
	s.built[key] = out
	return out
}

// pool is a pool on the shelf.
func (s *shelf) pool(p sdk.Pool) sdk.Pool {
	if s.at == nil {
		return p
	}
	offerings := make([]int, 0, len(p.Offerings))
	for _, o := range p.Offerings {
		if k := s.at[o]; k >= 0 {
			offerings = append(offerings, k)
		}
	}
	p.Offerings = offerings
	p.Running = slices.Clone(p.Running)
	for i := range p.Running {
		p.Running[i].Offering = s.on(p.Running[i].Offering)
	}
	return p
}

// pools is some of the pools on the shelf.
func (s *shelf) pools(list []sdk.Pool, which []int) []sdk.Pool {
	out := make([]sdk.Pool, len(which))
	for i, k := range which {
		out[i] = s.pool(list[k])
	}
	return out
}

// usdPerHour is the prices of what is on the shelf.
func (s *shelf) usdPerHour(whole []float64) []float64 {
	if s.at == nil {
		return whole
	}
	out := make([]float64, len(s.from))
	for k, o := range s.from {
		out[k] = whole[o]
	}
	return out
}

// market is the request with what is on the shelf, and no pools.
func (s *shelf) market(req *sdk.PriceRequest) sdk.PriceRequest {
	out := *req
	out.Pools = nil
	if s.at == nil {
		return out
	}
	out.Catalogue, out.USDPerHour, out.Health = s.catalogue, s.usdPerHour(req.USDPerHour), map[int]sdk.Health{}
	for o, h := range req.Health {
		if k := s.on(o); k >= 0 {
			out.Health[k] = h
		}
	}
	return out
}

// prices takes a checked answer off the shelf.
func (s *shelf) prices(p sdk.PoolPrices) sdk.PoolPrices {
	if s.at == nil {
		return p
	}
	steps := p.Steps
	p.Steps = nil
	for o, list := range steps {
		if p.Steps == nil {
			p.Steps = make(map[int][]sdk.Step, len(steps))
		}
		p.Steps[s.off(o)] = list
	}
	p.Vetoes = slices.Clone(p.Vetoes)
	for i := range p.Vetoes {
		p.Vetoes[i].Offerings = slices.Clone(p.Vetoes[i].Offerings)
		for k, o := range p.Vetoes[i].Offerings {
			p.Vetoes[i].Offerings[k] = s.off(o)
		}
	}
	return p
}

// load counts what goes into one message.
type load struct{ pools, bytes int }

// take adds a pool, or says that there is no room for it. The first always has some.
func (l *load) take(p *sdk.Pool) bool {
	bytes := 256 + bytesPerOffering*len(p.Offerings) + bytesPerRunning*len(p.Running)
	for k, v := range p.Annotations {
		bytes += len(k) + len(v)
	}
	if l.pools > 0 && (l.pools == sdk.MaxPools || l.bytes+bytes > maxAsked) {
		return false
	}
	l.pools++
	l.bytes += bytes
	return true
}

// priceCut is a part of a question for prices: pools of one shelf.
type priceCut struct {
	shelf *shelf
	req   *sdk.PriceRequest
	pools []int // in the whole request
}

// cutPrices cuts a question into those that can be sent.
func (s *shelves) cutPrices(req *sdk.PriceRequest) ([]priceCut, error) {
	if s.err != nil {
		return nil, s.err
	}
	byShelf := map[*shelf][]int{}
	var order []*shelf
	for i := range req.Pools {
		on := s.beside(req.Pools[i].NodeClass)
		if byShelf[on] == nil {
			order = append(order, on)
		}
		byShelf[on] = append(byShelf[on], i)
	}
	if len(order) == 0 {
		order = append(order, s.beside(""))
	}
	var out []priceCut
	for _, on := range order {
		market := on.market(req)
		for _, pools := range loads(req.Pools, byShelf[on]) {
			one := market
			one.Pools = on.pools(req.Pools, pools)
			out = append(out, priceCut{shelf: on, req: &one, pools: pools})
		}
	}
	return out, nil
}

// loads splits pools into those that go into one message each, in order.
func loads(list []sdk.Pool, which []int) [][]int {
	out := [][]int{nil}
	var l load
	for _, k := range which {
		if !l.take(&list[k]) {
			out, l = append(out, nil), load{}
			l.take(&list[k])
		}
		out[len(out)-1] = append(out[len(out)-1], k)
	}
	return out
}

// scoreCut is a part of a question for verdicts.
type scoreCut struct {
	req   *sdk.ScoreRequest
	moves []int // in the whole request
}

// scoreCutter fills cuts of one shelf.
type scoreCutter struct {
	shelf *shelf
	load  load
	pools map[int]bool // of the last cut
	cuts  [][]int
}

func (c *scoreCutter) add(req *sdk.ScoreRequest, i int) {
	pool := req.Moves[i].Pool
	last := len(c.cuts) - 1
	if last < 0 || len(c.cuts[last]) == sdk.MaxMoves || !c.pools[pool] && !c.load.take(&req.Pools[pool]) {
		c.cuts, c.pools, c.load = append(c.cuts, nil), map[int]bool{}, load{}
		c.load.take(&req.Pools[pool])
		last++
	}
	c.pools[pool] = true
	c.cuts[last] = append(c.cuts[last], i)
}

// cutScores cuts a question into those that can be sent. A move is asked about with all
// classes of what it buys on the shelf; of what it takes away some may be missing.
func (s *shelves) cutScores(req *sdk.ScoreRequest) ([]scoreCut, error) {
	if s.err != nil {
		return nil, s.err
	}
	if len(req.Moves) == 0 {
		on := s.beside("")
		bare := *req
		bare.Catalogue, bare.Pools = on.catalogue, nil
		return []scoreCut{{req: &bare}}, nil
	}
	if s.all != nil && len(req.Moves) <= sdk.MaxMoves && len(loads(req.Pools, all(len(req.Pools)))) == 1 {
		return []scoreCut{{req: req, moves: all(len(req.Moves))}}, nil
	}
	byShelf := map[*shelf]*scoreCutter{}
	var order []*scoreCutter
	for i := range req.Moves {
		m := &req.Moves[i]
		classes := map[string]bool{req.Pools[m.Pool].NodeClass: true}
		for _, n := range m.Launch {
			classes[s.whole.Offerings[n.Offering].Type.NodeClass] = true
		}
		on, err := s.of(classes)
		if err != nil {
			return nil, fmt.Errorf("move %d: %w", i, err)
		}
		c := byShelf[on]
		if c == nil {
			c = &scoreCutter{shelf: on}
			byShelf[on], order = c, append(order, c)
		}
		c.add(req, i)
	}
	var out []scoreCut
	for _, c := range order {
		for _, moves := range c.cuts {
			out = append(out, scoreCut{req: c.shelf.scores(req, moves), moves: moves})
		}
	}
	return out, nil
}

// scores is the question about some moves, with their pools alone.
func (s *shelf) scores(req *sdk.ScoreRequest, moves []int) *sdk.ScoreRequest {
	out := &sdk.ScoreRequest{Catalogue: s.catalogue, Now: req.Now, Moves: make([]sdk.Move, len(moves))}
	position := map[int]int{}
	for _, i := range moves {
		position[req.Moves[i].Pool] = 0
	}
	pools := slices.Sorted(maps.Keys(position))
	for k, pool := range pools {
		position[pool] = k
	}
	out.Pools = s.pools(req.Pools, pools)
	for k, i := range moves {
		m := req.Moves[i]
		m.Pool = position[m.Pool]
		if s.at != nil {
			m.Remove, m.Launch = slices.Clone(m.Remove), slices.Clone(m.Launch)
			for j := range m.Remove {
				m.Remove[j].Offering = s.on(m.Remove[j].Offering)
			}
			for j := range m.Launch {
				m.Launch[j].Offering = s.on(m.Launch[j].Offering)
			}
		}
		out.Moves[k] = m
	}
	return out
}

// together is the shelf with the classes of all of some pools, which go into one message.
func (s *shelves) together(pools []sdk.Pool) (*shelf, error) {
	if s.err != nil {
		return nil, s.err
	}
	var l load
	classes := map[string]bool{}
	for i := range pools {
		if !l.take(&pools[i]) {
			return nil, &refusal{fmt.Sprintf("%d pools are more than are asked about at this level (%d, fewer where they may buy much)", len(pools), sdk.MaxPools)}
		}
		classes[pools[i].NodeClass] = true
	}
	return s.of(classes)
}

// all numbers n things.
func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// cutPlan is a question for nodes with the classes of its pools alone.
func (s *shelves) cutPlan(req *sdk.PlanRequest) (*shelf, *sdk.PlanRequest, error) {
	on, err := s.together(req.Pools)
	if err != nil || on.at == nil {
		return on, req, err
	}
	out := *req
	out.PriceRequest = on.market(&req.PriceRequest)
	out.Pools = on.pools(req.Pools, all(len(req.Pools)))
	out.Sets = make([][]int, len(req.Sets))
	for i, set := range req.Sets {
		out.Sets[i] = make([]int, len(set))
		for k, o := range set {
			out.Sets[i][k] = on.on(o)
		}
	}
	return on, &out, nil
}

// cutWorld is a world with the classes of its pools alone; nodes of others stay, with no offering.
func (s *shelves) cutWorld(w *sdk.ProposeWorld) (*shelf, *sdk.ProposeWorld, error) {
	on, err := s.together(w.Pools)
	if err != nil || on.at == nil {
		return on, w, err
	}
	out := *w
	out.Catalogue, out.USDPerHour = on.catalogue, on.usdPerHour(w.USDPerHour)
	out.Pools = on.pools(w.Pools, all(len(w.Pools)))
	out.Nodes = slices.Clone(w.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].Offering = on.on(out.Nodes[i].Offering)
	}
	return on, &out, nil
}

// trials puts trials on the shelf; of what is bought, what is not on it is left out.
func (s *shelf) trials(simulate sdk.Simulate) sdk.Simulate {
	if s.at == nil {
		return simulate
	}
	return func(moves []sdk.ProposedMove) ([]sdk.Trial, error) {
		trials, err := simulate(moves)
		out := slices.Clone(trials)
		for i := range out {
			out[i].Launch = nil
			for _, n := range trials[i].Launch {
				if k := s.on(n.Offering); k >= 0 {
					out[i].Launch = append(out[i].Launch, sdk.LaunchedNode{Offering: k, USDPerHour: n.USDPerHour})
				}
			}
		}
		return out, err
	}
}
