package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Deadline is when the termination grace period of a claim ends, false where it has
// none. The annotation rules once it is there: people may edit it.
func Deadline(c *model.Claim) (time.Time, bool, error) {
	if v := c.Annotations[model.AnnotationTerminationTimestamp]; v != "" {
		t, err := time.Parse(time.RFC3339, v)
		return t, err == nil, err
	}
	if c.TerminationGP != nil && c.Deleting != nil {
		return c.Deleting.Add(*c.TerminationGP), true, nil
	}
	return time.Time{}, false, nil
}

// end is the way out: drain, volumes, instance, finalizers.
func (s *step) end() {
	c, e := s.o.Claim, s.o.Ending
	s.r.Phase = Draining
	deadline, bounded, err := Deadline(c)
	if err != nil {
		// As in v1 an unreadable deadline stalls the termination; the event says what to repair.
		s.event(true, "FailedTermination", "annotation %s: %v", model.AnnotationTerminationTimestamp, err)
		return
	}
	if bounded && c.Annotations[model.AnnotationTerminationTimestamp] == "" {
		s.patch.Annotations = map[string]string{model.AnnotationTerminationTimestamp: deadline.UTC().Format(time.RFC3339)}
		s.event(true, "TerminationGracePeriodExpiring", "All pods will be deleted by %s", deadline.UTC().Format(time.RFC3339))
	}
	if bounded && !e.Drained {
		for _, n := range s.o.Nodes {
			s.r.Events = append(s.r.Events, model.Event{Object: NodeRef(n), Warning: true, Reason: "TerminationGracePeriodExpiring",
				Message: fmt.Sprintf("All pods will be deleted by %s", deadline.UTC().Format(time.RFC3339))})
		}
	}
	if !slices.Contains(c.Finalizers, model.FinalizerTermination) {
		s.r.Phase = Gone // somebody took our finalizer off: whatever is left is garbage collection's
		return
	}
	if e.LaunchOpen {
		return // what it may have bought must be known first
	}
	if !s.emptied() {
		return
	}
	if c.ProviderID != "" && !e.InstanceGone {
		s.r.Phase = Terminating
		s.r.Terminate, s.r.Poll = !e.Terminating, e.Terminating
		if e.Terminating {
			s.set(model.Condition{Type: model.CondInstanceTerminating, Status: "True", Reason: model.CondInstanceTerminating})
		}
		return
	}
	if len(e.Left) > 0 && s.free() {
		s.r.Phase = Terminating
		return
	}
	s.r.Phase = Gone
	left := false
	for _, n := range s.o.Nodes {
		left = true
		if n.Deleting == nil {
			s.r.DeleteNodes = append(s.r.DeleteNodes, n)
		} else if slices.Contains(n.Finalizers, model.FinalizerTermination) {
			s.r.Node = &model.NodePatch{Name: n.Name, UID: n.UID, RemoveFinalizers: []string{model.FinalizerTermination}}
		} else {
			left = false // others' finalizers may hold it; that is theirs to end
		}
	}
	if !left {
		s.patch.RemoveFinalizers = []string{model.FinalizerTermination}
		s.event(false, "Finalized", "Finalized %s", model.FinalizerTermination)
	}
}

// emptied says whether nothing is left on the node that the end has to wait for.
func (s *step) emptied() bool {
	c, e := s.o.Claim, s.o.Ending
	if !c.Is(model.CondRegistered) || len(s.o.Nodes) == 0 {
		return true
	}
	ready := false
	for _, n := range s.o.Nodes {
		ready = ready || n.Ready
	}
	if e.NoDrain || e.InstanceGone && !ready {
		return true // nothing runs there any more
	}
	for _, n := range s.o.Nodes {
		if n.Deleting == nil {
			s.r.DeleteNodes = append(s.r.DeleteNodes, n)
		}
	}
	if !e.Drained {
		s.r.Drain = true
		s.await(model.CondDrained, model.Condition{Reason: "Draining", Message: cmp.Or(e.Waiting, "Draining")})
		return false
	}
	s.set(model.Condition{Type: model.CondDrained, Status: "True", Reason: model.CondDrained})
	switch {
	case len(e.Attached) == 0:
		s.set(model.Condition{Type: model.CondVolumesDetached, Status: "True", Reason: model.CondVolumesDetached})
	case e.Expired:
		s.set(model.Condition{Type: model.CondVolumesDetached, Status: "False", Reason: "TerminationGracePeriodElapsed", Message: "TerminationGracePeriodElapsed"})
	case e.Taken:
		s.set(model.Condition{Type: model.CondVolumesDetached, Status: "False", Reason: "InterruptionDeadlineElapsed", Message: "AWS takes the instance now"})
	default:
		waits := "waiting for the detachment of " + few(e.Attached)
		s.await(model.CondVolumesDetached, model.Condition{Reason: "AwaitingVolumeDetachment", Message: waits})
		for _, n := range s.o.Nodes {
			s.r.Events = append(s.r.Events, model.Event{Object: NodeRef(n), Reason: "AwaitingVolumeDetachment", Message: "Awaiting volume detachment: " + few(e.Attached)})
		}
		return false
	}
	return true
}

// OutOfService tells Kubernetes that a machine is off for good: pods that tolerate it not are
// removed, and volumes detached without waiting for a kubelet.
var OutOfService = model.Taint{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: model.NoExecute}

// free taints the nodes of a machine that is gone, and says whether there is a node to
// wait with.
func (s *step) free() bool {
	for _, n := range s.o.Nodes {
		if !hasTaint(n.Taints, OutOfService) {
			s.r.Node = &model.NodePatch{Name: n.Name, UID: n.UID, AddTaints: []model.Taint{OutOfService}}
		}
	}
	return len(s.o.Nodes) > 0
}

// few names at most five.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
