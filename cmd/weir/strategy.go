package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// openStrategies makes a host for the strategies that a question is put to, with
// nameOrPath, where given, in place of the binding of its kind and of the pools'
// annotations. Built-ins run in this process, a path as a process of its own. Calls are
// recorded where record, which may be nil, says so. It answers the name to show.
func openStrategies(ctx context.Context, s *situation, kind, nameOrPath string, record *recordFlags) (*strategy.Host, string, error) {
	s.world.Budget = within(ctx, 0)
	p := newPicks(s.config)
	bound := strategy.Config{InstanceSelection: s.config.Bindings.InstanceSelection, Consolidation: s.config.Bindings.Consolidation}
	name, annotation := &bound.InstanceSelection, model.AnnotationInstanceSelection
	if kind == config.Consolidation {
		name, annotation = &bound.Consolidation, model.AnnotationConsolidation
	}
	if nameOrPath != "" {
		var err error
		if *name, err = p.flag("--strategy", kind, nameOrPath); err != nil {
			return nil, "", err
		}
		unannotate(s.world.Pools, annotation)
	}
	needed := append(annotated(s.world.Pools, annotation), *name)
	if kind == config.Consolidation { // asks for prices, too: limits that come with them hold for moves
		needed = append(append(needed, annotated(s.world.Pools, model.AnnotationInstanceSelection)...), bound.InstanceSelection)
	}
	if err := p.addKnown(needed); err != nil {
		return nil, "", err
	}
	for _, other := range []*string{&bound.InstanceSelection, &bound.Consolidation} {
		if !p.has(*other) && !builtin.Has(*other) {
			*other = "" // the other kind is not asked; its process need not start
		}
	}
	opts, err := record.pick(p, kind, &bound)
	if err != nil {
		return nil, "", err
	}
	opts.OnCall = s.faults.hear
	host, err := p.start(ctx, bound, opts)
	if err != nil {
		return nil, "", err
	}
	return host, *name, nil
}

// within is how long planning may take: so long, 0 = as long as it does, and no longer than
// until ctx ends. Who is interrupted has no use for the plan.
func within(ctx context.Context, limit time.Duration) *model.TimeBudget {
	b := model.Within(limit, time.Now)
	if b == nil {
		b = &model.TimeBudget{}
	}
	return &model.TimeBudget{Limit: b.Limit, Improve: func() bool { return ctx.Err() == nil && b.MayImprove() }, Place: func() bool { return ctx.Err() == nil && b.MayPlace() }}
}

// annotated is the strategies that pools ask for by an annotation.
func annotated(pools []*model.Pool, annotation string) []string {
	var out []string
	for _, p := range pools {
		if name := p.Annotations[annotation]; name != "" {
			out = append(out, name)
		}
	}
	return out
}

// unannotate takes an annotation from pools, whose maps others may hold.
func unannotate(pools []*model.Pool, annotation string) {
	for _, p := range pools {
		p.Annotations = maps.Clone(p.Annotations)
		delete(p.Annotations, annotation)
	}
}

// picks are the strategies that a question needs.
type picks struct {
	cfg   *config.Loaded
	specs map[string]strategy.Spec
	flags map[string]pickedByFlag // those that a flag named by their path
}

type pickedByFlag struct{ flag, path, kind string }

func newPicks(cfg *config.Loaded) *picks {
	return &picks{cfg: cfg, specs: map[string]strategy.Spec{}, flags: map[string]pickedByFlag{}}
}

func (p *picks) has(name string) bool {
	_, ok := p.specs[name]
	return ok
}

// addKnown adds those that there are, and every configured built-in: with its settings it
// may have to answer for another.
func (p *picks) addKnown(names []string) error {
	for name, c := range p.cfg.Strategies {
		if builtin.Has(name) && c.Path == "" && c.Image == "" && c.Isolation != config.IsolationContainer {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, ok := p.cfg.Strategy(name); !ok {
			continue
		}
		if err := p.add(name); err != nil {
			return err
		}
	}
	return nil
}

// add adds a strategy of the configuration, or one that is built in, and the members of
// a chain. The error names file and field.
func (p *picks) add(name string) error {
	if p.has(name) {
		return nil
	}
	spec, err := strategy.Here(p.cfg.Config, name)
	if err == nil {
		err = p.there(spec)
	}
	if err != nil {
		return located(p.cfg, err)
	}
	p.specs[name] = spec
	for _, m := range spec.Chain {
		if err := p.add(m.Strategy); err != nil {
			return err
		}
	}
	return nil
}

// there looks whether what a spec names is there, and is what it is pinned to: a host
// would only say that it did not start.
func (p *picks) there(spec strategy.Spec) error {
	field := "strategies." + spec.Name
	switch {
	case spec.Socket != "":
		info, err := os.Lstat(spec.Socket)
		if err == nil && info.Mode()&os.ModeSocket == 0 {
			err = errors.New("it is none")
		}
		if err != nil {
			return &strategy.FieldError{Field: field + ".socket", Err: fmt.Errorf("%s: expected a socket at which the strategy serves: %w", spec.Socket, reason(err))}
		}
	case spec.Path != "":
		sum, err := fileSum(spec.Path)
		switch pinned := p.cfg.Strategies[spec.Name].SHA256; {
		case err != nil:
			return &strategy.FieldError{Field: field + ".path", Err: err}
		case spec.SHA256 == "" || strings.EqualFold(sum, spec.SHA256):
		case pinned != "":
			return &strategy.FieldError{Field: field + ".sha256", Err: fmt.Errorf("is %s, and %s has SHA-256 %s", pinned, spec.Path, sum)}
		default:
			return &strategy.FieldError{Field: field + ".path", Err: fmt.Errorf("%s has SHA-256 %s, %s has %s for version %s", spec.Path, sum, p.cfg.StrategyLock, spec.SHA256, spec.Version)}
		}
	}
	return nil
}

// located says of faults of the configuration where the fields were said.
func located(cfg *config.Loaded, err error) error {
	var several interface{ Unwrap() []error }
	all := []error{err}
	if errors.As(err, &several) {
		all = several.Unwrap()
	}
	var out []error
	for _, e := range all {
		var f *strategy.FieldError
		if errors.As(e, &f) {
			e = cfg.Wrong(f.Field, "%v", f.Err)
		}
		out = append(out, e)
	}
	return badInput{errors.Join(out...)}
}

// flag adds the strategy that a flag names, or the path that it names as one, and answers
// its name. An empty kind is any.
func (p *picks) flag(flag, kind, nameOrPath string) (string, error) {
	spec := strategy.Spell(nameOrPath)
	if spec.Path != "" {
		if err := executable(spec.Path); err != nil {
			return "", bad("%s: %w", flag, err)
		}
		p.specs[spec.Name], p.flags[spec.Name] = spec, pickedByFlag{flag, nameOrPath, kind}
		return spec.Name, nil
	}
	known := config.Builtins()
	for n, c := range p.cfg.Strategies {
		known[n] = c.Kind
	}
	var fitting []string
	for n, k := range known {
		if kind == "" || k == kind {
			fitting = append(fitting, n)
		}
	}
	slices.Sort(fitting)
	have, ok := known[nameOrPath]
	switch {
	case !ok:
		return "", bad("%s: there is no strategy %q, expected %s or the path of an executable%s", flag, nameOrPath, strings.Join(fitting, ", "), didYouMean(nameOrPath, fitting, ""))
	case kind != "" && have != kind:
		return "", bad("%s: %q is of kind %s, expected one of kind %s: %s", flag, nameOrPath, have, kind, strings.Join(fitting, ", "))
	}
	return nameOrPath, p.add(nameOrPath)
}

// list is the specs in the order of their names.
func (p *picks) list() []strategy.Spec {
	var out []strategy.Spec
	for _, name := range slices.Sorted(maps.Keys(p.specs)) {
		out = append(out, p.specs[name])
	}
	return out
}

// start starts the strategies, bound as given, and looks whether each decides about what
// it is asked for.
func (p *picks) start(ctx context.Context, bound strategy.Config, opts strategy.Options) (*strategy.Host, error) {
	bound.Strategies = p.list()
	host, err := strategy.New(bound, opts)
	if err != nil {
		return nil, badInput{err}
	}
	err = host.Settled(ctx)
	if err == nil {
		err = host.AwaitShadows(ctx)
	}
	if err = p.failed(host, err); err == nil {
		err = p.fit(host.Manifest)
	}
	if err != nil {
		host.Close()
		return nil, err
	}
	return host, nil
}

// settings is bad input where the settings in the configuration keep a strategy from
// starting, else nil.
func (p *picks) settings(err error) error {
	var start *strategy.StartError
	if !errors.As(err, &start) {
		return nil
	}
	if _, configured := p.cfg.Strategies[start.Strategy]; !configured {
		return nil
	}
	faults := start.Settings()
	if len(faults) == 0 {
		return nil
	}
	return located(p.cfg, errors.Join(faults...))
}

// failed says which strategy of the configuration an error is about, where there is one.
func (p *picks) failed(host *strategy.Host, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if wrong := p.settings(err); wrong != nil {
		return wrong
	}
	for _, st := range host.Status() {
		_, byFlag := p.flags[st.Name]
		if _, configured := p.cfg.Strategies[st.Name]; configured && !byFlag && st.LastError != "" {
			return p.cfg.Wrong("strategies."+st.Name, "the strategy does not start: %s", st.LastError)
		}
	}
	return err
}

// fit holds what strategies say about themselves against the kind that they are asked for.
func (p *picks) fit(manifest func(string) (*sdk.Manifest, error)) error {
	for _, spec := range p.list() {
		if spec.Path == "" && spec.Socket == "" {
			continue
		}
		m, err := manifest(spec.Name)
		if err != nil {
			return err
		}
		by, byFlag := p.flags[spec.Name]
		kind := by.kind
		if !byFlag {
			kind = p.cfg.Strategies[spec.Name].Kind
		}
		switch {
		case kind == "" || m.Serves(sdk.Kind(kind)):
		case byFlag:
			return bad("%s: %s is of kind %s, expected one of kind %s", by.flag, by.path, kindsOf(m), kind)
		default:
			return badInput{p.cfg.Wrong("strategies."+spec.Name+".kind", "is %s, and the program is of kind %s", kind, kindsOf(m))}
		}
	}
	return nil
}

// kindsOf is what a strategy decides about.
func kindsOf(m *sdk.Manifest) string {
	var kinds []string
	for _, c := range m.Contracts {
		kinds = append(kinds, string(c.Kind))
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), " and ")
}

// faults are why strategies did not answer for themselves, as a host tells it.
type faults struct {
	mu     sync.Mutex
	pools  map[string]string           // the last call for prices, by pool
	scores map[strategy.Outcome]string // of calls about moves
}

// hear takes in a call in whose place somebody else answered. Members of chains are no
// matter: the chain answers.
func (f *faults) hear(c strategy.Call) {
	if c.Err == nil || c.Rung == strategy.ByStrategy || c.Rung == strategy.LeftOut {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	why := sdk.Printable(c.Err.Error(), strategy.MaxError)
	switch c.Level {
	case strategy.LevelPrice:
		if f.pools == nil {
			f.pools = map[string]string{}
		}
		for _, pool := range c.FellBack {
			f.pools[pool] = why
		}
	case strategy.LevelScore:
		if f.scores == nil {
			f.scores = map[strategy.Outcome]string{}
		}
		if old, ok := f.scores[c.Outcome]; !ok || why < old {
			f.scores[c.Outcome] = why
		}
	}
}

// because is an outcome with its reason, where that is known.
func because(outcome, why string) string {
	if why == "" {
		return outcome
	}
	return outcome + ": " + why
}

// unwell lists the strategies that did not answer for themselves, and why.
func (f *faults) unwell(p *model.Prices) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for pool, x := range p.ByPool {
		if x.Outcome != "" && x.Outcome != string(strategy.OK) {
			out = append(out, fmt.Sprintf("NodePool %s: its strategy did not answer (%s); %s did", pool, because(x.Outcome, f.pools[pool]), x.Strategy))
		}
	}
	slices.Sort(out)
	return out
}

// unjudged lists the strategies that did not judge moves for themselves, and why.
func (f *faults) unjudged(scores []model.MoveScore) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, x := range scores {
		if x.Outcome != "" && x.Outcome != string(strategy.OK) {
			out = append(out, fmt.Sprintf("a consolidation strategy did not answer (%s); %s did", because(x.Outcome, f.scores[strategy.Outcome(x.Outcome)]), x.Strategy))
		}
	}
	return distinct(out)
}

// answeredBy names who answered for prices; asked, if no pool has an answer.
func answeredBy(p *model.Prices, asked string) string {
	var names []string
	for _, x := range p.ByPool {
		if who := strings.Fields(x.Strategy); len(who) > 0 {
			names = append(names, who[0])
		}
	}
	return cmp.Or(strings.Join(distinct(names), ", "), asked)
}

// distinct is texts in order, each once.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
