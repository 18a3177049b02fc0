package execute

import (
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/model"
)

// ReasonUnhealthy is why a broken node's claim is deleted.
const ReasonUnhealthy = "unhealthy"

// Repair replaces a broken node by force, one write per call: first the claim gets a
// termination timestamp that is over, by which the drain waits for nobody, then it is
// deleted. why is "<condition>=<status> since <instant>"; it stays on the claim.
func (x *Executor) Repair(name, why string, now time.Time) {
	x.now = now
	c := x.m.Claim(name)
	if c == nil || !x.m.Seen(name) || c.Deleting != nil || !ourKind(c) {
		return
	}
	if c.Annotations[model.AnnotationRepair] == "" {
		a := map[string]string{model.AnnotationRepair: why}
		if at, ok, err := claim.Deadline(c); err != nil || !ok || at.After(now) {
			a[model.AnnotationTerminationTimestamp] = now.UTC().Format(time.RFC3339)
		}
		x.do("claim/"+name, PatchClaim{Patch: ClaimPatch{Name: name, UID: c.UID, Annotations: a}})
		return
	}
	x.claimEvent(c, true, "DisruptionTerminating", "Disrupting NodeClaim: Unhealthy: %s", c.Annotations[model.AnnotationRepair])
	for _, n := range x.m.NodeObjects(c.ProviderID) {
		x.event(Event{Object: claim.NodeRef(n), Warning: true, Reason: "DisruptionTerminating", Message: "Disrupting Node: Unhealthy: " + c.Annotations[model.AnnotationRepair]})
	}
	x.trackOf(name).reason = ReasonUnhealthy
	x.deleteClaim(name, c.UID, ReasonUnhealthy)
}

// Unrepair takes back what Repair wrote, where the node recovered before its claim was
// deleted: a deletion that comes later is not to be by force.
func (x *Executor) Unrepair(name string, now time.Time) {
	x.now = now
	c := x.m.Claim(name)
	if c == nil || !x.m.Seen(name) || c.Deleting != nil || c.Annotations[model.AnnotationRepair] == "" {
		return
	}
	x.do("claim/"+name, PatchClaim{Patch: ClaimPatch{Name: name, UID: c.UID, Annotations: map[string]string{
		model.AnnotationRepair: "", model.AnnotationTerminationTimestamp: ""}}})
}
