package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// The timers of a claim's life.
const (
	LaunchTimeout       = 5 * time.Minute  // from creation until an instance was bought
	RegistrationTimeout = 15 * time.Minute // from creation, or the last change of Registered, until the node joined
	PodEventEvery       = 10 * time.Second // between two writes of status.lastPodEventTime
	PollInstance        = 5 * time.Second  // between two looks at an instance that is being terminated
)

// Phase is where a claim stands.
type Phase string

// The phases, in order.
const (
	Planned     Phase = "planned"     // object exists, nothing bought
	Launched    Phase = "launched"    // instance bought
	Registered  Phase = "registered"  // node joined and taken over
	Initialized Phase = "initialized" // node usable
	Draining    Phase = "draining"    // being deleted, pods are leaving
	Terminating Phase = "terminating" // instance is being ended
	Gone        Phase = "gone"        // nothing is left but the finalizer
)

// Reasons of deletion; the metric nodeclaims_disrupted_total uses the same words.
const (
	ReasonLaunchTimeout       = "launch_timeout"
	ReasonRegistrationTimeout = "registration_timeout"
	ReasonExpired             = "expired"
	ReasonNodeDeleted         = "node_deleted"
)

// Observed is what is known of a claim.
type Observed struct {
	Claim    *model.Claim
	Nodes    []*model.Node    // Node objects that report its provider id, as they are
	Pool     *model.Pool      // nil: made by hand, or the pool is gone
	Class    *model.NodeClass // nil: not there
	Machine  *model.Machine   // its instance as the cloud listed it, nil = not listed yet
	PodEvent time.Time        // last pod event seen on its node, zero = none seen
	Ending   Ending           // how far the end has come; read only where the claim is being deleted
}

// Ending is what the executor knows of a claim that is being deleted.
type Ending struct {
	LaunchOpen   bool     // a launch of it may still bring an instance
	Drained      bool     // no pod is left that is waited for
	Waiting      string   // who is in the way of the drain, empty = nobody for long
	Attached     []string // names of the volumes that are waited for
	Left         []string // names of the volumes that a machine that is gone left attached and that a taint is to free
	Expired      bool     // the termination grace period is over
	Taken        bool     // AWS was to take the instance by now
	Terminating  bool     // the cloud accepted the termination
	InstanceGone bool     // the cloud does not know the instance, or says that it has ended
	NoDrain      bool     // the machine is dead or broken, whatever its node reports: nobody is waited for
}

// Result is one step.
type Result struct {
	Phase       Phase
	Claim       *model.ClaimPatch // nil = nothing
	Node        *model.NodePatch  // nil = nothing
	Delete      string            // delete the claim, for this reason; empty = keep it
	DeleteNodes []*model.Node     // ask for the deletion of these Node objects
	Drain       bool              // take drain steps on its node
	Terminate   bool              // end the instance
	Poll        bool              // look at the instance again after PollInstance
	Events      []model.Event
	Next        time.Time // look again at this instant although nothing changed; zero = no need
}

// Step looks at a claim.
func Step(o Observed, now time.Time) Result {
	s := step{o: o, now: now, patch: model.ClaimPatch{Name: o.Claim.Name, UID: o.Claim.UID}}
	if o.Claim.Deleting != nil {
		s.end()
	} else {
		s.live()
	}
	if !s.patch.Empty() {
		s.r.Claim = &s.patch
	}
	return s.r
}

type step struct {
	o     Observed
	now   time.Time
	patch model.ClaimPatch
	r     Result
}

func (s *step) live() {
	c := s.o.Claim
	if !slices.Contains(c.Finalizers, model.FinalizerTermination) {
		s.patch.AddFinalizers = []string{model.FinalizerTermination}
	}
	if c.ExpireAfter != model.Never && (s.o.Pool == nil || !s.o.Pool.BudgetedExpiry()) {
		// v1: forceful, no budget and no PodDisruptionBudget is asked.
		if at := c.Created.Add(c.ExpireAfter); !s.now.Before(at) {
			s.remove(ReasonExpired)
			return
		} else {
			s.wake(at)
		}
	}
	for _, n := range s.o.Nodes {
		if n.Deleting != nil {
			s.remove(ReasonNodeDeleted)
			return
		}
	}
	s.launched()
	s.ready()
}

func (s *step) launched() {
	c := s.o.Claim
	s.r.Phase = Planned
	if c.ProviderID == "" {
		s.await(model.CondLaunched, s.keepReason(model.CondLaunched, "AwaitingReconciliation", "object is awaiting reconciliation"))
		s.await(model.CondRegistered, s.keepReason(model.CondRegistered, "AwaitingReconciliation", "object is awaiting reconciliation"))
		s.await(model.CondInitialized, s.keepReason(model.CondInitialized, "AwaitingReconciliation", "object is awaiting reconciliation"))
		s.timeout(model.CondLaunched, LaunchTimeout, ReasonLaunchTimeout)
		return
	}
	s.r.Phase = Launched
	s.set(model.Condition{Type: model.CondLaunched, Status: "True", Reason: model.CondLaunched})
	s.registered()
}

func (s *step) registered() {
	c := s.o.Claim
	if !c.Is(model.CondRegistered) {
		s.timeout(model.CondRegistered, RegistrationTimeout, ReasonRegistrationTimeout)
		if s.r.Delete != "" || c.Condition(model.CondRegistered).Status == "False" {
			return
		}
		switch len(s.o.Nodes) {
		case 0:
			s.await(model.CondRegistered, model.Condition{Reason: "NodeNotFound", Message: "Node not registered with cluster"})
			return
		case 1:
		default:
			s.set(model.Condition{Type: model.CondRegistered, Status: "False", Reason: "MultipleNodesFound",
				Message: fmt.Sprintf("Invariant violated, matched multiple nodes: %s", nodeNames(s.o.Nodes))})
			return
		}
		n := s.o.Nodes[0]
		if p := takeOver(c, n); p != nil {
			s.r.Node = p
			if n.Labels[model.LabelRegistered] != "true" && !hasTaint(n.Taints, Unregistered) {
				s.event(true, "UnregisteredTaintMissing", "Missing %s taint which prevents registration-related race conditions on Karpenter-managed nodes", model.TaintUnregistered)
			}
			return
		}
		s.patch.NodeName = n.Name
		s.set(model.Condition{Type: model.CondRegistered, Status: "True", Reason: model.CondRegistered})
	}
	s.r.Phase = Registered
	s.initialized()
}

// Unregistered is the taint that keeps pods off until the node is taken over.
var Unregistered = model.Taint{Key: model.TaintUnregistered, Effect: "NoExecute"}

// takeOver is what registration still has to write to the node, nil where nothing.
func takeOver(c *model.Claim, n *model.Node) *model.NodePatch {
	p := model.NodePatch{Name: n.Name, UID: n.UID}
	if n.Labels[model.LabelRegistered] == "true" && slices.Contains(n.Finalizers, model.FinalizerTermination) && !hasTaint(n.Taints, Unregistered) {
		return nil
	}
	p.AddFinalizers = []string{model.FinalizerTermination}
	p.OwnerClaim = c
	p.Labels = map[string]string{}
	for k, v := range c.Labels {
		p.Labels[k] = v
	}
	p.Labels[model.LabelRegistered] = "true"
	p.Labels[model.LabelInstanceID] = model.InstanceID(c.ProviderID)
	p.Annotations = map[string]string{}
	for k, v := range c.Annotations {
		if k != model.AnnotationLaunch && k != model.AnnotationInterruption && k != model.AnnotationTerminationTimestamp && v != "" {
			p.Annotations[k] = v
		}
	}
	if n.Labels[model.LabelNoSyncTaints] != "true" {
		for _, t := range slices.Concat(c.Taints, c.StartupTaints) {
			if !slices.ContainsFunc(n.Taints, t.Same) && !slices.ContainsFunc(p.AddTaints, t.Same) {
				p.AddTaints = append(p.AddTaints, t)
			}
		}
	}
	if hasTaint(n.Taints, Unregistered) {
		p.RemoveTaints = []model.Taint{Unregistered}
	}
	return &p
}

func (s *step) initialized() {
	c := s.o.Claim
	if c.Is(model.CondInitialized) {
		s.r.Phase = Initialized
		s.consistent()
		s.consolidatable()
		s.drifted()
		return
	}
	if len(s.o.Nodes) != 1 {
		s.await(model.CondInitialized, model.Condition{Reason: "NodeNotFound", Message: "Node not registered with cluster"})
		return
	}
	n := s.o.Nodes[0]
	if reason, message := notReady(c, n); reason != "" {
		s.await(model.CondInitialized, model.Condition{Reason: reason, Message: message})
		return
	}
	if n.Labels[model.LabelInitialized] != "true" {
		s.r.Node = &model.NodePatch{Name: n.Name, UID: n.UID, Labels: map[string]string{model.LabelInitialized: "true"}}
		return
	}
	s.set(model.Condition{Type: model.CondInitialized, Status: "True", Reason: model.CondInitialized})
	s.r.Phase = Initialized
}

// notReady is the reason why a registered node is not usable yet, empty where it is.
func notReady(c *model.Claim, n *model.Node) (reason, message string) {
	if !n.Ready {
		return "NodeNotReady", "Node status is NotReady"
	}
	for _, t := range c.StartupTaints {
		if slices.ContainsFunc(n.Taints, t.Same) {
			return "StartupTaintsExist", fmt.Sprintf("StartupTaint %q still exists", t.String())
		}
	}
	for _, t := range n.Taints {
		if Ephemeral(t) {
			return "KnownEphemeralTaintsExist", fmt.Sprintf("KnownEphemeralTaint %q still exists", t.String())
		}
	}
	c.Requests.Each(func(name string, v int64) {
		if v != 0 && n.Allocatable.Get(name) == 0 && reason == "" {
			reason, message = "ResourceNotRegistered", fmt.Sprintf("Resource %q was requested but not registered", name)
		}
	})
	return reason, message
}

// Ephemeral says whether the taint goes away by itself before a node is usable.
func Ephemeral(t model.Taint) bool {
	switch t.Key {
	case "node.kubernetes.io/not-ready":
		return t.Effect == model.NoSchedule || t.Effect == "NoExecute"
	case "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized":
		return t.Effect == model.NoSchedule
	case model.TaintUnregistered:
		return t.Effect == "NoExecute"
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

// consistent compares the node with what was expected of it, once.
func (s *step) consistent() {
	c := s.o.Claim
	if len(s.o.Nodes) != 1 || c.Condition("ConsistentStateFound").Status != "Unknown" {
		return
	}
	n, bad := s.o.Nodes[0], ""
	c.Requests.Each(func(name string, v int64) {
		want, have := c.Capacity.Get(name), n.Capacity.Get(name)
		if v != 0 && want > 0 && float64(have) < 0.9*float64(want) && bad == "" {
			bad = fmt.Sprintf("expected %d of resource %s, but found %d (%.1f%% of expected)", want, name, have, 100*float64(have)/float64(want))
		}
	})
	if bad != "" {
		s.event(true, "FailedConsistencyCheck", "%s", bad)
		s.set(model.Condition{Type: "ConsistentStateFound", Status: "False", Reason: "ConsistencyCheckFailed", Message: bad})
		return
	}
	s.set(model.Condition{Type: "ConsistentStateFound", Status: "True", Reason: "ConsistentStateFound"})
}

func (s *step) consolidatable() {
	c := s.o.Claim
	since := c.Condition(model.CondInitialized).Since
	if c.LastPodEvent != nil {
		since = *c.LastPodEvent
	}
	if s.o.PodEvent.After(since) {
		since = s.o.PodEvent
		write := c.LastPodEvent == nil || s.o.PodEvent.Sub(*c.LastPodEvent) >= PodEventEvery
		if write {
			at := s.o.PodEvent
			s.patch.LastPodEvent = &at
		}
	}
	p := s.o.Pool
	if p == nil || p.ConsolidateAfter == model.Never || p.Static != nil {
		s.clear(model.CondConsolidatable)
		return
	}
	if at := since.Add(p.ConsolidateAfter); s.now.Before(at) {
		s.clear(model.CondConsolidatable)
		s.wake(at)
		return
	}
	s.set(model.Condition{Type: model.CondConsolidatable, Status: "True", Reason: model.CondConsolidatable})
}

// ready is the root condition.
func (s *step) ready() {
	want := model.Condition{Type: model.CondReady, Status: "True", Reason: model.CondReady}
	var missing []string
	for _, t := range []string{model.CondLaunched, model.CondRegistered, model.CondInitialized} {
		if cond := s.condition(t); cond.Status != "True" {
			missing = append(missing, t+"="+cond.Status)
			if cond.Status == "False" {
				want.Status, want.Reason = "False", "UnhealthyDependents"
			} else if want.Status == "True" {
				want.Status, want.Reason = "Unknown", "ReconcilingDependents"
			}
		}
	}
	want.Message = strings.Join(missing, ", ")
	s.set(want)
}

// condition is the condition as it will be once the patch is written.
func (s *step) condition(t string) model.Condition {
	for _, c := range s.patch.Conditions {
		if c.Type == t {
			return c
		}
	}
	return s.o.Claim.Condition(t)
}

// keepReason is the present reason of a condition that is Unknown, so that a launch
// error written by the executor is not overwritten.
func (s *step) keepReason(t, reason, message string) model.Condition {
	if c := s.o.Claim.Condition(t); c.Status == "Unknown" && c.Reason != "" {
		return model.Condition{Reason: c.Reason, Message: c.Message}
	}
	return model.Condition{Reason: reason, Message: message}
}

func (s *step) await(t string, c model.Condition) {
	c.Type, c.Status = t, "Unknown"
	s.set(c)
}

// set writes a condition where it differs from what the object says.
func (s *step) set(c model.Condition) {
	old := s.o.Claim.Condition(c.Type)
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message && (old.Reason != "" || !old.Since.IsZero()) {
		return
	}
	c.Since = s.now
	if old.Status == c.Status && !old.Since.IsZero() {
		c.Since = old.Since
	}
	s.patch.Conditions = append(s.patch.Conditions, c)
	if old.Status != c.Status {
		message := ""
		if c.Message != "" {
			message = ", Message: " + c.Message
		}
		s.event(false, c.Type, "Status condition transitioned, Type: %s, Status: %s -> %s, Reason: %s%s", c.Type, old.Status, c.Status, c.Reason, message)
	}
}

func (s *step) clear(t string) {
	for _, c := range s.o.Claim.Conditions {
		if c.Type == t {
			s.patch.RemoveConditions = append(s.patch.RemoveConditions, t)
		}
	}
}

// timeout deletes the claim where a condition has not come true in time.
func (s *step) timeout(cond string, limit time.Duration, reason string) {
	since := s.o.Claim.Created
	if c := s.o.Claim.Condition(cond); c.Status == "False" && c.Since.After(since) {
		since = c.Since
	}
	at := since.Add(limit)
	if s.now.Before(at) {
		s.wake(at)
		return
	}
	s.remove(reason)
}

func (s *step) remove(reason string) { s.r.Delete = reason }

func (s *step) wake(at time.Time) {
	if s.r.Next.IsZero() || at.Before(s.r.Next) {
		s.r.Next = at
	}
}

func (s *step) event(warning bool, reason, format string, a ...any) {
	s.r.Events = append(s.r.Events, model.Event{Object: Ref(s.o.Claim), Warning: warning, Reason: reason, Message: fmt.Sprintf(format, a...)})
}

// Ref names a claim for an event.
func Ref(c *model.Claim) model.ObjectRef {
	return model.ObjectRef{Kind: "NodeClaim", Name: c.Name, UID: c.UID}
}

// NodeRef names a node for an event.
func NodeRef(n *model.Node) model.ObjectRef {
	return model.ObjectRef{Kind: "Node", Name: n.Name, UID: n.UID}
}

func hasTaint(taints []model.Taint, t model.Taint) bool { return slices.ContainsFunc(taints, t.Same) }

func nodeNames(nodes []*model.Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}
