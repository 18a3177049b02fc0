package strategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

// State of a strategy.
type State string

// The states. Only Ready answers by itself.
const (
	InProcess  State = "in-process" // a built-in without a process
	Starting   State = "starting"
	Ready      State = "ready"
	BackingOff State = "backing-off" // failed, waits before the next start
	Broken     State = "broken"      // failed too often in a row, waits long
	Standby    State = "standby"     // a last good version whose process is started when it is needed
	Ended      State = "ended"       // no longer configured
)

// Status is what there is to tell about a strategy.
type Status struct {
	Name, Path string
	Image      string // that the program is of, by digest; empty = none
	Version    string // of the strategy, as far as known
	SHA256     string // of what runs
	State      State
	PID        int
	Starts     int // processes started since it was configured
	Failures   int // in a row
	LastError  string
	Pending    bool   // of a configuration that is not in service yet
	WaitsFor   string // name of the strategy that this configuration waits for first; empty = none
	Fence      Fence  // what keeps the last process that was ready from the rest of the machine
	Role       Role
	Counts
	// Trial tells about the probation that the strategy is on or has passed, RolledBack
	// that another one was tried in its place; Shadow what it would do. Nil = no such thing.
	Trial      *TrialStatus
	RolledBack *RollBack
	Shadow     *ShadowStatus
}

// Role of a strategy that the host holds.
type Role string

// The roles.
const (
	Serving  Role = "serving"   // answers where it is bound
	Shadow   Role = "shadow"    // sees every problem and never acts
	LastGood Role = "last-good" // answers where the version after it does not
)

// maxLate calls in a row without an answer, and the process is taken for hung.
const maxLate = 3

// slot is a strategy of a configuration: the process that serves it, one after the
// other, and the built-in that answers in its place.
type slot struct {
	spec     Spec
	opts     *Options
	log      *zap.Logger
	images   *images
	local    sdk.Strategy              // instead of a process, where there is no path
	fallback map[sdk.Kind]sdk.Strategy // in process

	owner slotOwner

	power   sync.Mutex // guards what follows: starting and stopping for good
	running bool
	stop    context.CancelFunc
	done    chan struct{} // closed when the process is gone for good
	img     *image        // used by run as long as it runs

	mu       sync.Mutex // guards what follows
	status   Status
	why      error         // of status.LastError
	inst     *instance     // nil where no process is ready
	since    time.Time     // since when it is ready
	manifest *sdk.Manifest // of the last process, nil = there was none yet
	late     int           // calls in a row without an answer
	hung     bool          // it was ended because of them
	answered time.Time     // when the last call was that it did answer, zero = none was
	calls    int           // under way
	idle     chan struct{}
	asleep   bool // no new calls; the process is ended, or soon will be
	retired  bool
	tally    tally
}

// slotOwner is who holds a slot.
type slotOwner interface {
	stateChanged()       // the status is another
	fell(*slot)          // it has stopped serving
	rose(*slot)          // it serves, by a process that is ready
	problems() []problem // that a new process has to answer before it serves
}

// newSlot makes a slot and starts its process in the background. It is an error if a
// built-in does not take its configuration.
func newSlot(spec Spec, opts *Options, images *images, owner slotOwner) (*slot, error) {
	s := &slot{spec: spec, opts: opts, log: opts.Log.Named("strategy").With(zap.String("strategy", spec.Name)), images: images,
		owner: owner, status: Status{Name: spec.Name, Path: spec.Path, Image: spec.Image, State: Starting}}
	if err := s.makeFallback(); err != nil {
		return nil, err
	}
	if spec.Path == "" && spec.Socket == "" {
		local, err := configured(spec, owner)
		if err != nil {
			return nil, err
		}
		s.local, s.status.State, s.status.Version = local, InProcess, local.Describe().Version
		return s, nil
	}
	s.power.Lock()
	defer s.power.Unlock()
	s.start()
	return s, nil
}

// start lets the slot have a process. The caller holds power.
func (s *slot) start() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.done, s.running = make(chan struct{}), true
	go s.run(ctx, s.done)
}

// halt ends the process after the last call. The caller holds power.
func (s *slot) halt() {
	if !s.running {
		return
	}
	s.stop()
	<-s.done
	s.running = false
}

func configured(spec Spec, owner slotOwner) (sdk.Strategy, error) {
	if len(spec.Chain) > 0 {
		return newChain(spec, owner), nil
	}
	local, err := builtin.New(spec.Name)
	if err != nil {
		return nil, err
	}
	if err := CheckSettings(local.Describe().ConfigSchema, spec.Config); err != nil {
		return nil, fmt.Errorf("strategy %q: %w", spec.Name, err)
	}
	if err := local.Configure(spec.Config); err != nil {
		return nil, fmt.Errorf("strategy %q: %w", spec.Name, err)
	}
	return local, nil
}

// makeFallback picks who answers when the strategy does not: the same built-in with
// the same configuration if there is one of that name, else the default of the kind.
func (s *slot) makeFallback() error {
	s.fallback = map[sdk.Kind]sdk.Strategy{}
	for kind, name := range map[sdk.Kind]string{sdk.InstanceSelection: builtin.DefaultInstanceSelection, sdk.Consolidation: builtin.DefaultConsolidation} {
		f, err := builtin.New(name)
		if err != nil {
			return err
		}
		s.fallback[kind] = f
	}
	if !builtin.Has(s.spec.Name) {
		return nil
	}
	same, err := configured(s.spec, s.owner)
	if err != nil {
		return err
	}
	if _, ok := same.(sdk.Pricer); ok {
		s.fallback[sdk.InstanceSelection] = same
	}
	if _, ok := same.(sdk.Scorer); ok {
		s.fallback[sdk.Consolidation] = same
	}
	return nil
}

// run keeps a process going until the slot is stopped.
func (s *slot) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for failures := 0; ; {
		s.set(func(st *Status) { st.State = Starting })
		began := time.Now()
		err := shown(s.serve(ctx, &began))
		if ctx.Err() != nil {
			return
		}
		if s.steady(began) {
			failures = 0
		}
		failures++
		state, wait := BackingOff, s.opts.Backoff(failures)
		if failures >= s.opts.BreakAfter {
			state, wait = Broken, s.opts.BreakFor
		}
		s.log.Warn("strategy is not serving", zap.Error(err), zap.Int("failures", failures), zap.Duration("nextTryIn", wait), zap.String("state", string(state)))
		s.mu.Lock()
		s.why = err
		s.mu.Unlock()
		s.set(func(st *Status) { st.State, st.PID, st.Failures, st.LastError = state, 0, failures, err.Error() })
		s.owner.fell(s)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// steady says whether a process that was ready at began, zero = never, lived for long enough
// that the failures before it are forgotten. One that hung lived until its last answer.
func (s *slot) steady(began time.Time) bool {
	if began.IsZero() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now()
	if s.hung {
		until = s.answered
	}
	return until.Sub(began) >= s.opts.Steady
}

// serve starts a process and returns when it has ended, with the reason. began is set
// to when it was ready, or to zero if it never was.
func (s *slot) serve(ctx context.Context, began *time.Time) error {
	*began = time.Time{}
	if s.img == nil && s.spec.Socket == "" {
		opened, err := s.open(ctx)
		if err != nil {
			return err
		}
		s.img = opened
	}
	sum := ""
	if s.img != nil {
		sum = s.img.sum
	}
	s.set(func(st *Status) { st.SHA256, st.Starts = sum, st.Starts+1 })
	timeout := s.spec.StartTimeout
	if timeout == 0 {
		timeout = s.opts.StartTimeout
	}
	startCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	inst, err := s.connect(startCtx)
	if err != nil {
		return err
	}
	if err := s.rehearse(startCtx, inst); err != nil {
		inst.end(false)
		return cmp.Or(inst.excess(), err)
	}
	*began = time.Now()
	pid := inst.pid()
	s.log.Info("strategy is ready", zap.String("name", inst.manifest.Name), zap.String("strategyVersion", inst.manifest.Version),
		zap.String("sha256", sum), zap.Int("pid", pid))
	s.install(inst)
	s.owner.rose(s)
	s.set(func(st *Status) {
		st.State, st.PID, st.Version, st.LastError, st.Fence = Ready, pid, inst.manifest.Version, "", inst.fence
	})
	select {
	case <-inst.ended():
	case <-ctx.Done():
	}
	s.install(nil)
	inst.end(!isClosed(inst.ended()))
	return inst.death()
}

// connect starts the strategy's process, or dials its container.
func (s *slot) connect(ctx context.Context) (*instance, error) {
	if s.spec.Socket != "" {
		return dialInstance(ctx, s.spec, s.log)
	}
	return startInstance(ctx, s.spec, s.img, s.log, s.opts.Kernel, s.opts.CPUWindow)
}

func (s *slot) install(inst *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inst, s.late = inst, 0; inst != nil {
		s.since, s.manifest, s.hung, s.answered = time.Now(), inst.manifest, false, time.Time{}
		s.tally.afresh(s.since)
	}
}

// set changes the status and tells everybody.
func (s *slot) set(change func(*Status)) {
	s.mu.Lock()
	change(&s.status)
	st := s.read()
	s.mu.Unlock()
	s.opts.OnState(st)
	s.owner.stateChanged()
}

func (s *slot) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

// read is the status with its counts. The caller holds mu.
func (s *slot) read() Status {
	st := s.status
	st.Counts = s.tally.read()
	return st
}

// starts is how many processes were started.
func (s *slot) starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Starts
}

// state is the state alone.
func (s *slot) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.State
}

// asked says whether there was a call.
func (s *slot) asked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally.counts.Calls > 0
}

func (s *slot) count(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.add(c, time.Now())
}

// serving says whether the slot answers by itself.
func (st State) serving() bool { return st == Ready || st == InProcess }

// enter counts a call; leave ends it.
func (s *slot) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

// enterAwake is enter for a slot that may be asleep, where it answers false.
func (s *slot) enterAwake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep || !s.status.State.serving() {
		return false
	}
	s.calls++
	return true
}

func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// awaitIdle returns when no call is under way.
func (s *slot) awaitIdle() {
	s.mu.Lock()
	if s.calls == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	<-idle
}

// sleep says that the slot is to be asleep or awake, and whether that is something new:
// then settlePower has to be called to bring it about.
func (s *slot) sleep(asleep bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local != nil || s.retired || s.asleep == asleep {
		return false
	}
	s.asleep = asleep
	return true
}

// settlePower ends the process of a slot that is asleep, after its last call, and
// starts one for a slot that is awake again.
func (s *slot) settlePower() {
	s.power.Lock()
	defer s.power.Unlock()
	s.mu.Lock()
	asleep := s.asleep
	s.mu.Unlock()
	if asleep {
		s.awaitIdle()
	}
	s.mu.Lock()
	asleep, retired := s.asleep, s.retired
	s.mu.Unlock()
	switch {
	case retired:
	case asleep && s.running:
		s.halt()
		s.set(func(st *Status) { st.State, st.PID = Standby, 0 })
	case !asleep && !s.running:
		s.start()
	}
}

// retire ends the slot after its last call. Nobody may enter any more.
func (s *slot) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.awaitIdle()
	s.power.Lock()
	defer s.power.Unlock()
	s.halt()
	if s.img != nil {
		s.images.release(s.img)
		s.img = nil
	}
	if s.local == nil {
		s.set(func(st *Status) { st.State, st.PID = Ended, 0 })
	}
}

// rehearse lets a process answer the last problems that there were, before it serves for
// the first time: what cannot answer them is not taken into service.
func (s *slot) rehearse(ctx context.Context, inst *instance) error {
	s.mu.Lock()
	proven := !s.since.IsZero()
	s.mu.Unlock()
	if proven {
		return nil
	}
	for _, p := range s.owner.problems() {
		if !p.served(inst.manifest) {
			continue
		}
		p.prepare()
		_, err := inst.put(allow(ctx, s.callTimeout(ctx)), p.input)
		if err != nil {
			return fmt.Errorf("self-test on a recorded problem of %s (%s): %w", p.kind, outcome(err, isClosed(inst.ended())), err)
		}
	}
	return nil
}

// callTimeout bounds a call that is made with ctx.
func (s *slot) callTimeout(ctx context.Context) time.Duration {
	if s.spec.CallTimeout != 0 {
		return s.spec.CallTimeout
	}
	if c, ok := s.local.(*chain); ok {
		return c.callTimeout(ctx, s.opts.CallTimeout)
	}
	return s.opts.CallTimeout
}

// ask lets the strategy answer: its process, or itself where it is in process. It
// answers the version that was asked and how it went.
func (s *slot) ask(ctx context.Context, q *question) (string, Outcome, error) {
	limit := q.within(s.callTimeout(ctx))
	curtailed := lessThan(ctx, limit)
	if s.local != nil {
		local := s.local
		if c, ok := local.(*chain); ok {
			local = c.once()
		}
		err := askLocal(ctx, q, local, limit)
		return local.Describe().Version, outcome(err, false), err
	}
	s.mu.Lock()
	inst, st := s.inst, s.status
	s.mu.Unlock()
	if inst == nil {
		err := fmt.Errorf("%w (%s)", errDead, st.State)
		if st.LastError != "" {
			err = fmt.Errorf("%w: %s", err, st.LastError)
		}
		return st.Version, Dead, err
	}
	version := inst.manifest.Version
	if !q.served(inst.manifest) {
		err := &refusal{fmt.Sprintf("%s does not serve %s at level %s", inst.manifest.Name, q.kind, q.level)}
		return version, Refused, err
	}
	q.prepare()
	err := shown(q.remote(allow(ctx, limit), inst))
	out := outcome(err, isClosed(inst.ended()))
	gaveUp := errors.Is(ctx.Err(), context.Canceled) || curtailed && out == Late
	if !gaveUp { // who gives up says nothing about the strategy
		s.countLate(inst, out, err)
	}
	return version, out, err
}

// askLocal lets a strategy in this process answer. The members of a chain have the time
// for it, each in its own process.
func askLocal(ctx context.Context, q *question, local sdk.Strategy, limit time.Duration) error {
	if _, ok := local.(*chain); ok {
		q.prepare()
		ctx = allow(ctx, limit)
	} else {
		a, began := allowanceOf(ctx), time.Now()
		if a != nil {
			limit = min(limit, a.left)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		defer func() { a.use(time.Since(began)) }()
	}
	return guarded(func() error { return q.local(ctx, local) })
}

// lessThan says whether the caller leaves clearly less time than a strategy may take, as a
// chain with a time-out of its own does.
func lessThan(ctx context.Context, limit time.Duration) bool {
	if a := allowanceOf(ctx); a != nil && a.left < limit-limit/10 {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < limit-limit/10
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// countLate ends a process that does not answer any more, so that it is started again.
func (s *slot) countLate(inst *instance, out Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inst != inst {
		return
	}
	if out != Late {
		s.late, s.answered = 0, time.Now()
		return
	}
	if s.late++; s.late == maxLate || errors.Is(err, errSlow) {
		s.log.Warn("strategy does not answer, ending its process", zap.Int("lateCalls", s.late))
		s.hung = true
		inst.kill()
	}
}

// guarded turns a panic of code in our own process into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = invalid("panic: %v", p)
		}
	}()
	return f()
}

// localPrice lets a strategy answer in process, under the same checks.
func localPrice(ctx context.Context, strategy sdk.Strategy, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	pricer, ok := strategy.(sdk.Pricer)
	if !ok {
		return nil, &refusal{fmt.Sprintf("%s does not serve %s", strategy.Describe().Name, sdk.InstanceSelection)}
	}
	ans, err := pricer.Price(ctx, req)
	if err != nil {
		return nil, &refusal{err.Error()}
	}
	return ans, checkPrices(req, ans, nil)
}

// localScore is localPrice for moves.
func localScore(ctx context.Context, strategy sdk.Strategy, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	scorer, ok := strategy.(sdk.Scorer)
	if !ok {
		return nil, &refusal{fmt.Sprintf("%s does not serve %s", strategy.Describe().Name, sdk.Consolidation)}
	}
	ans, err := scorer.Score(ctx, req)
	if err != nil {
		return nil, &refusal{err.Error()}
	}
	return ans, checkScores(req, ans)
}

// sortedNames lists names in alphabetical order.
func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
