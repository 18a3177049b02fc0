package execute

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// An instance that was bought is missing in the list of instances for a while: listLag
// at most. lookEvery is the pause between two looks in that time.
const (
	listLag   = 30 * time.Second
	lookEvery = 5 * time.Second
)

// doubtful says whether a claim may have an instance of which nothing is known yet:
// whoever led before wrote that it would buy one, the ledger does not remember that
// time, and instances of then may not be listed so far. Nothing is done until they are.
func (x *Executor) doubtful(r Recovered) bool {
	since := r.Remembers
	if r.LedgerErr != nil {
		since = x.began
	}
	if since.IsZero() || !x.now.Before(since.Add(listLag)) {
		return false
	}
	return slices.ContainsFunc(r.Claims, func(c *model.Claim) bool {
		return c.ProviderID == "" && c.Deleting == nil && ourKind(c) && c.Annotations[model.AnnotationLaunch] != ""
	})
}

// recover goes on where whoever led before has stopped. Open records are resolved by
// the tag on the instances first and then by sending the stored bytes again; records
// that nobody wants any more are cancelled; claims without a record are looked at by
// the annotation that they carry.
func (x *Executor) recover(r Recovered) {
	x.launches, x.launchOf = nil, map[string]*launch{}
	x.LedgerDown = r.LedgerErr != nil
	claims := map[string]*model.Claim{}
	for _, c := range r.Claims {
		claims[c.Name] = c
	}
	x.reclaim = map[string]ledger.ClaimState{}
	for _, s := range r.States {
		if s.State != string(claim.Gone) {
			x.reclaim[s.UID] = s
		}
	}
	for key, h := range r.Health {
		x.learn(key, h)
	}
	for _, rec := range r.Launches {
		x.resume(rec, r.Versions[rec.ID], claims)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Commands)) {
		x.resumeCommand(id, r.Commands[id])
	}
	byLaunch := map[string][]cloud.Instance{}
	taken := map[string]bool{}
	for _, c := range r.Claims {
		taken[c.ProviderID] = true
	}
	for _, i := range r.Instances {
		if !i.Gone() && !taken[i.ProviderID()] {
			byLaunch[i.Tags[TagLaunch]] = append(byLaunch[i.Tags[TagLaunch]], i)
		}
	}
	for _, c := range r.Claims {
		x.trackOf(c.Name).due(x.now)
		if c.ProviderID != "" || c.Deleting != nil || x.launchOf[c.Name] != nil || !ourKind(c) {
			continue
		}
		id, _, _ := strings.Cut(c.Annotations[model.AnnotationLaunch], "/")
		if found := byLaunch[id]; id != "" && len(found) > 0 {
			// Bought while the ledger was away: the annotation was the intent.
			byLaunch[id] = found[1:]
			x.given(c, id, found[0])
			continue
		}
		x.launchSpec(c)
	}
	x.recovered, x.sweepNow = true, true
}

// resume makes the launch of an open record.
func (x *Executor) resume(rec ledger.Launch, version int64, claims map[string]*model.Claim) {
	l := &launch{
		id: rec.ID, pool: rec.Pool, capacity: rec.Capacity, attempt: rec.Attempt, state: finding,
		request: rec.Request, version: version, opened: rec.Opened, sent: true, taken: rec.Taken,
	}
	for _, lc := range rec.Claims {
		c := claims[lc.Name]
		if c == nil || c.UID != lc.UID {
			// Nobody waits for this one any more; what was bought for it is surplus.
			l.claims = append(l.claims, &coming{claim: &model.Claim{Name: lc.Name}, uid: lc.UID, dropped: "claim is gone"})
			continue
		}
		cm := &coming{claim: c, uid: c.UID, given: true, marked: true}
		if off := x.m.Offering(c.NodeClass.Name, lc.Asked); off != nil && c.ProviderID == "" {
			cm.offering = off
			x.m.Assume(c, off)
		}
		l.class, l.taints = c.NodeClass, slices.Concat(c.Taints, c.StartupTaints, []model.Taint{claim.Unregistered})
		l.claims = append(l.claims, cm)
		x.launchOf[c.Name] = l
	}
	x.launches = append(x.launches, l)
}

// given makes a launch that has its instance already.
func (x *Executor) given(c *model.Claim, id string, i cloud.Instance) {
	l := &launch{id: id, pool: c.Pool, class: c.NodeClass, capacity: i.CapacityType, attempt: 1, state: settling, opened: x.now, sent: true, degraded: true,
		claims: []*coming{{claim: c, uid: c.UID, given: true, marked: true, instance: &i}}}
	x.launches = append(x.launches, l)
	x.launchOf[c.Name] = l
}

// ourKind says whether the claim's class is of the kind that we launch; other
// providers may share the definitions.
func ourKind(c *model.Claim) bool {
	return c.NodeClass.Group == "" || c.NodeClass.Group == "karpenter.k8s.aws"
}
