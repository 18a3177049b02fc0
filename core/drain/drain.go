package drain

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// The timings of a drain.
const (
	Settle       = 5 * time.Second        // between the first pass and done, so that pods bound late are seen
	Stuck        = time.Minute            // past its deletion timestamp a pod is not waited for any more
	FirstBackoff = 100 * time.Millisecond // after the first refused eviction of a pod
	MaxBackoff   = 10 * time.Second       // between evictions of one pod at most
	EndLead      = 2 * time.Second        // pods end so long before an instance is taken, so that the kubelet can still say so
	CriticalLead = 20 * time.Second       // critical pods start at the latest so long before an instance is taken
	SingleLead   = 15 * time.Second       // a lone replica goes at the latest its grace and so long before
	MinGrace     = time.Second            // 0 would remove the object while the containers run
	Poll         = time.Second            // between two looks at a drain that is under way
)

// AnnotationAtDeadline on a pod says what happens when the machine is taken before
// the pod could be evicted: AtDeadlineRespect (default) or AtDeadlineSignal.
const (
	AnnotationAtDeadline = "weir.dev/at-deadline"
	AtDeadlineRespect    = "respect"
	AtDeadlineSignal     = "signal"
)

// LBValue is the value of the label that takes a draining node out of load balancers.
const LBValue = "karpenter"

// Taint is the cordon.
var Taint = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// State is the memory of one drain. Its zero value starts a drain.
type State struct {
	Started time.Time `json:"started,omitzero"` // of the first pass
	// Deadline wins over budgets and do-not-disrupt: deletion time + termination grace period.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Interruption is when the instance is taken; budgets and do-not-disrupt hold until then.
	Interruption *time.Time            `json:"interruption,omitempty"`
	Pods         map[string]*PodMemory `json:"pods,omitempty"` // by uid
	// Hold says that a pod is the only ready replica of its workload and that the machine its
	// successor will run on is not ready. Only asked where Interruption is set; nil = nobody is held.
	Hold func(*model.Pod) bool `json:"-"`
	// Gate says whether a pod that may be evicted is let through to its budget now, and if not
	// when to ask again, zero = at the next look. Who lets one through expects an eviction. Nil =
	// all are let through.
	Gate func(*model.Pod) (bool, time.Time) `json:"-"`
}

// PodMemory is what a drain remembers of a pod.
type PodMemory struct {
	Refused int       `json:"refused,omitempty"` // evictions refused in a row
	Next    time.Time `json:"next,omitzero"`     // not before
	Outcome Outcome   `json:"outcome,omitempty"` // of the last call
	Deleted time.Time `json:"deleted,omitzero"`  // end that the last forced delete, or the last shortening, asked for
	Blocked time.Time `json:"blocked,omitzero"`  // since when it is in the way of the drain
	// Grace is what it was last seen to end with, Seen since when, Cut that it is not what it began with.
	Grace time.Duration `json:"grace,omitempty"`
	Seen  time.Time     `json:"seen,omitzero"`
	Cut   bool          `json:"cut,omitempty"`
	Began time.Time     `json:"began,omitzero"`  // when it would have ended with what it began with, where that was seen
	Asked time.Duration `json:"asked,omitempty"` // grace that the last call asked for, 0 = its own
}

// Outcome is the answer that an eviction or a delete got.
type Outcome string

// The outcomes.
const (
	Accepted     Outcome = "accepted"
	Gone         Outcome = "gone"          // not found, or another pod of that name
	Blocked      Outcome = "blocked"       // 429: a budget is in the way
	MultiplePDBs Outcome = "multiple-pdbs" // 500: more than one budget covers the pod
	Failed       Outcome = "failed"        // anything else
)

// Eviction asks the eviction API for a pod. For one that is terminating already, which that API does not hold
// against any budget, it only cuts the grace period.
type Eviction struct {
	Pod *model.Pod
	// Grace is what is left before the machine is taken, whole seconds and at least MinGrace; 0 = the pod's own
	// grace period, which ends before that. It is never longer than what the pod has.
	Grace time.Duration
}

// Deletion deletes a pod with a grace period, past budgets and do-not-disrupt.
type Deletion struct {
	Pod   *model.Pod
	Grace time.Duration // at least MinGrace
}

// Reasons of a Blocker.
const (
	ReasonPDB          = "PodDisruptionBudget"
	ReasonMultiplePDBs = "MultiplePodDisruptionBudgets"
	ReasonDoNotDisrupt = "DoNotDisrupt"
	ReasonTerminating  = "Terminating"
	ReasonHeld         = "AwaitingReplacement"
	ReasonFailed       = "EvictionFailed"
	ReasonTier         = "AwaitingEarlierPods"
)

// Blocker is a pod that the drain waits for.
type Blocker struct {
	Pod     *model.Pod
	Reason  string
	Message string
	Since   time.Time // zero where it only waits for its turn
	Force   time.Time // when it is deleted all the same, zero = never
}

// String says who is in the way, since when, and when that ends.
func (b Blocker) String() string {
	s := b.Message
	if !b.Since.IsZero() {
		s += ", since " + b.Since.UTC().Format(time.RFC3339)
	}
	switch {
	case b.Reason == ReasonTerminating:
	case b.Force.IsZero():
		s += ", no deadline"
	default:
		s += ", forced at " + b.Force.UTC().Format(time.RFC3339)
	}
	return s
}

// Long is for how long a pod is in the way before it is worth a word.
const Long = 10 * time.Second

// Lasting picks those of the blockers that have been in the way for long.
func Lasting(blockers []Blocker, now time.Time) []Blocker {
	var out []Blocker
	for _, b := range blockers {
		if !b.Since.IsZero() && now.Sub(b.Since) >= Long {
			out = append(out, b)
		}
	}
	return out
}

// Summary names up to five blockers; it is empty where there is none.
func Summary(blockers []Blocker) string {
	const most = 5
	var b strings.Builder
	switch n := len(blockers); n {
	case 0:
	case 1:
		b.WriteString("1 pod is in the way: ")
	default:
		fmt.Fprintf(&b, "%d pods are in the way: ", n)
	}
	for i, x := range blockers {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(blockers)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(x.String())
	}
	return b.String()
}

// Result is one step.
type Result struct {
	Node     *model.NodePatch // cordon taint and load balancer label, nil where they are there
	Evict    []Eviction
	Delete   []Deletion
	Done     bool
	Blockers []Blocker // who is waited for, in the order of the pods; empty where Done or where all is under way
	Waiting  int       // pods that are still waited for
	Next     time.Time // when to ask again although nothing changed; zero where Done
}

// Step looks at a node that is to be emptied. pods are those bound to it.
func Step(s *State, node *model.Node, pods []*model.Pod, pdbs []*model.PDB, now time.Time) Result {
	if s.Started.IsZero() {
		s.Started = now
	}
	r := Result{Node: Cordon(node)}
	var tiers [4][]*model.Pod
	seen := map[string]bool{}
	for _, p := range pods {
		seen[p.UID] = true
		if !s.waitedFor(p, now) {
			continue
		}
		tiers[tier(p)] = append(tiers[tier(p)], p)
		r.Waiting++
	}
	for uid := range s.Pods {
		if !seen[uid] {
			delete(s.Pods, uid)
		}
	}
	r.Next = now.Add(Poll)
	earlier := 0
	for i, pods := range tiers {
		open := earlier == 0 || s.opens(i, now)
		for _, p := range pods {
			s.pod(&r, p, pdbs, open, now)
		}
		earlier += len(pods)
	}
	if r.Waiting > 0 {
		return r
	}
	if settled := s.Started.Add(Settle); now.Before(settled) && !s.past(now) {
		r.Next = settled
		return r
	}
	r.Done, r.Next = true, time.Time{}
	return r
}

// Cordon is the patch that keeps new pods and load balancers off the node, nil
// where there is nothing to do.
func Cordon(node *model.Node) *model.NodePatch {
	p := model.NodePatch{Name: node.Name, UID: node.UID}
	tainted := false
	for _, t := range node.Taints {
		switch {
		case t == Taint:
			tainted = true
		case t.Key == Taint.Key:
			p.RemoveTaints = append(p.RemoveTaints, t)
		}
	}
	if !tainted {
		p.AddTaints = []model.Taint{Taint}
	}
	if node.Labels[model.LabelExcludeLB] != LBValue {
		p.Labels = map[string]string{model.LabelExcludeLB: LBValue}
	}
	if p.Empty() {
		return nil
	}
	return &p
}

// WaitedFor says whether the node is not empty while the pod runs.
func WaitedFor(p *model.Pod, now time.Time) bool {
	if p.Terminal || p.Mirror || p.Tolerates(Taint) {
		return false
	}
	return p.Deleting == nil || !now.After(p.Deleting.Add(Stuck))
}

// tier is the place of a pod in the order of a drain: workloads before the daemons
// they may need, both before what is critical.
func tier(p *model.Pod) int {
	t := 0
	if p.Daemon() {
		t = 1
	}
	if p.Critical() {
		t += 2
	}
	return t
}

// opens says whether the tier starts now although earlier ones have not ended,
// because the instance is about to be taken.
func (s *State) opens(tier int, now time.Time) bool {
	if s.Interruption == nil || tier == 0 {
		return false
	}
	critical := s.Interruption.Add(-CriticalLead)
	at := critical
	switch tier {
	case 1: // daemons get the last quarter of the time before the critical pods
		at = critical.Add(-critical.Sub(s.Started) / 4)
	case 3: // and the critical daemons half of what is left after it
		at = critical.Add(CriticalLead / 2)
	}
	return !now.Before(at)
}

func (s *State) past(now time.Time) bool {
	return s.Deadline != nil && now.After(*s.Deadline) || s.Interruption != nil && now.After(*s.Interruption)
}

func (s *State) memory(p *model.Pod) *PodMemory {
	if s.Pods == nil {
		s.Pods = map[string]*PodMemory{}
	}
	m := s.Pods[p.UID]
	if m == nil {
		m = &PodMemory{}
		s.Pods[p.UID] = m
	}
	return m
}

// pod decides what happens to one pod that is waited for.
func (s *State) pod(r *Result, p *model.Pod, pdbs []*model.PDB, open bool, now time.Time) {
	var forced time.Time
	if at, ok := s.forceAt(p); ok {
		if !now.Before(at) {
			s.force(r, p, now)
			return
		}
		r.wake(at)
		forced = at
	}
	block := func(reason, format string, a ...any) {
		b := Blocker{Pod: p, Reason: reason, Message: fmt.Sprintf(format, a...), Force: forced}
		if reason != ReasonTier {
			m := s.memory(p)
			if m.Blocked.IsZero() {
				m.Blocked = now
			}
			b.Since = m.Blocked
		}
		r.Blockers = append(r.Blockers, b)
	}
	if p.Deleting != nil {
		s.shorten(r, p, now)
		block(ReasonTerminating, "pod %s is terminating until %s", p.ID(), s.ends(p).UTC().Format(time.RFC3339))
		return
	}
	protected, until := DoNotDisrupt(p, now)
	if protected {
		if !until.IsZero() {
			r.wake(until)
		}
		block(ReasonDoNotDisrupt, `pod %s has "karpenter.sh/do-not-disrupt" annotation`, p.ID())
		return
	}
	if !open {
		block(ReasonTier, "pod %s goes after the pods before it", p.ID())
		return
	}
	if s.held(p, now) {
		block(ReasonHeld, "pod %s is the only ready replica and the node of its successor is not ready", p.ID())
		return
	}
	m := s.memory(p)
	switch m.Outcome {
	case Blocked:
		block(ReasonPDB, "evicting pod %s would violate %s", p.ID(), names(p, pdbs))
	case MultiplePDBs:
		block(ReasonMultiplePDBs, "eviction does not support multiple PDBs: pod %s is covered by %s", p.ID(), names(p, pdbs))
	case Failed:
		block(ReasonFailed, "evicting pod %s fails", p.ID())
	}
	if now.Before(m.Next) {
		r.wake(m.Next)
		return
	}
	if s.Gate != nil {
		if open, again := s.Gate(p); !open {
			if m.Outcome != Blocked {
				block(ReasonPDB, "evicting pod %s would violate %s", p.ID(), names(p, pdbs))
			}
			if !again.IsZero() {
				r.wake(again)
			}
			return
		}
	}
	m.Next, m.Asked = now.Add(MaxBackoff), s.cut(p.GracePeriod, now) // until the answer comes
	r.Evict = append(r.Evict, Eviction{Pod: p, Grace: m.Asked})
}

// forceAt is when the pod is deleted past its budgets, with false where it never is.
func (s *State) forceAt(p *model.Pod) (time.Time, bool) {
	if s.signals(p) {
		return s.Interruption.Add(-p.GracePeriod), true
	}
	if s.Deadline != nil {
		if p.Deleting != nil {
			return s.Started, p.Deleting.After(*s.Deadline)
		}
		return s.Deadline.Add(-p.GracePeriod), true
	}
	return time.Time{}, false
}

// force deletes the pod with the grace that is left.
func (s *State) force(r *Result, p *model.Pod, now time.Time) {
	end := s.Deadline
	if s.signals(p) {
		end = s.Interruption
	}
	m := s.memory(p)
	// One delete per deadline is enough; an end that moved, or a call that failed, asks again,
	// and so does, now and then, a deadline that is long over.
	if m.Deleted.Equal(*end) && (now.Before(m.Next) || m.Outcome == Accepted && !now.After(end.Add(Stuck))) {
		r.Blockers = append(r.Blockers, Blocker{Pod: p, Reason: ReasonTerminating, Message: fmt.Sprintf("pod %s is being deleted", p.ID())})
		return
	}
	m.Deleted, m.Next, m.Outcome, m.Asked = *end, now.Add(MaxBackoff), "", max(end.Sub(now), MinGrace)
	r.Delete = append(r.Delete, Deletion{Pod: p, Grace: m.Asked})
}

func (s *State) held(p *model.Pod, now time.Time) bool {
	if s.Interruption == nil || s.Hold == nil || !s.Hold(p) {
		return false
	}
	return now.Before(s.Interruption.Add(-p.GracePeriod - SingleLead))
}

func (r *Result) wake(at time.Time) {
	if at.Before(r.Next) {
		r.Next = at
	}
}

// Answered takes in what an eviction or deletion of a pod was answered at now.
func (s *State) Answered(p *model.Pod, o Outcome, now time.Time) {
	m := s.memory(p)
	m.Outcome = o
	switch o {
	case Accepted:
		m.Refused = 0
		m.accepted(p, now)
		m.Next = now.Add(MaxBackoff) // the watch shows the pod terminating well before
	case Gone:
		m.Refused, m.Next = 0, now.Add(MaxBackoff)
	default:
		wait := FirstBackoff << min(m.Refused, 7)
		m.Refused++
		m.Next = now.Add(min(wait, MaxBackoff))
	}
}

// DoNotDisrupt says whether the annotation protects the pod at now, and until when
// where it ends. "true" protects for ever, a duration since the start of the pod;
// anything else does not.
func DoNotDisrupt(p *model.Pod, now time.Time) (bool, time.Time) {
	if !p.Active() {
		return false, time.Time{}
	}
	return protection(p, now)
}

// protection is what the annotation says, also of a pod that is terminating.
func protection(p *model.Pod, now time.Time) (bool, time.Time) {
	v, ok := p.Annotations[model.AnnotationDoNotDisrupt]
	if !ok {
		return false, time.Time{}
	}
	if v == "true" {
		return true, time.Time{}
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return false, time.Time{}
	}
	if p.Started == nil {
		return true, time.Time{}
	}
	until := p.Started.Add(d)
	return now.Before(until), until
}

// Unevictable says why the pod cannot leave by itself for now: do-not-disrupt, a
// budget that never allows one, or more than one budget. Such pods get no new
// place before they are evicted.
func Unevictable(p *model.Pod, pdbs []*model.PDB, now time.Time) string {
	if protected, _ := DoNotDisrupt(p, now); protected {
		return ReasonDoNotDisrupt
	}
	covering := 0
	for _, b := range pdbs {
		if !b.Covers(p) {
			continue
		}
		covering++
		if b.FullyBlocking && !(b.AlwaysAllow && !p.Ready) {
			return ReasonPDB
		}
	}
	if covering > 1 {
		return ReasonMultiplePDBs
	}
	return ""
}

func names(p *model.Pod, pdbs []*model.PDB) string {
	var out []string
	for _, b := range pdbs {
		if b.Covers(p) {
			out = append(out, b.Namespace+"/"+b.Name)
		}
	}
	if len(out) == 0 {
		return "its PodDisruptionBudget"
	}
	return "PodDisruptionBudget " + strings.Join(out, ", ")
}

// signals says whether the pod is deleted with the grace that is left before its machine is
// taken, which is before the drain's own deadline.
func (s *State) signals(p *model.Pod) bool {
	return s.Interruption != nil && p.Deleting == nil && p.Annotations[AnnotationAtDeadline] == AtDeadlineSignal &&
		(s.Deadline == nil || s.Interruption.Before(*s.Deadline))
}
