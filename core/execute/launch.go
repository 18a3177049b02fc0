package execute

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// launchState is how far a launch has come. Each state ends with something that is
// safe to lose: what follows is found again from the record, the objects and the tags.
type launchState int

const (
	creating launchState = iota // objects of the claims are being made
	opening                     // the record, with the request, is being written
	marking                     // launch id and token are being written to claims that lack them
	sending                     // the request is being sent, or waits for its next try
	finding                     // instances are looked for by their tag
	settling                    // claims learn their instances, surplus is ended
	closing                     // the record is being closed
	showing                     // done; waits until the mirror shows it
	adopting                    // like creating, of an instance that runs already
)

// launch is one request for instances that are alike.
type launch struct {
	id       string
	pool     string
	class    model.NodeClassRef
	capacity string
	attempt  int
	state    launchState
	claims   []*coming
	offers   []cloud.Offer
	ordered  bool // offers go by priority
	taints   []model.Taint
	taken    *ledger.Taken     // what it counts for on ramps of offerings that were short; Count 0 = no record knows of it yet
	whole    bool              // its pool wants a choice: offers may not be left out
	stamp    map[string]string // annotations for claims that existed before: the class before the request was written

	request  []byte
	version  int64 // of the record, 0 = none written
	opened   time.Time
	sent     bool             // the request may have reached the cloud
	searched bool             // instances were looked for by tag
	surplus  []cloud.Instance // bought for claims that are gone
	degraded bool             // the ledger is away: the annotation is the intent
	err      string
	at       time.Time // not before
	tries    int
}

// coming is a claim of a launch.
type coming struct {
	claim    *model.Claim // as it was sent
	offering *model.Offering
	uid      string // once the API server took it
	given    bool   // existed before this launch
	marked   bool   // carries the annotation of this attempt
	pods     []*model.Pod
	instance *cloud.Instance
	patched  bool
	dropped  string // why it will not be launched
}

func (l *launch) token() string { return token(l.id, l.attempt) }
func (l *launch) key() string   { return "launch/" + l.id }

// live lists the claims that still want an instance or have just got one.
func (x *Executor) live(l *launch) []*coming {
	var out []*coming
	for _, c := range l.claims {
		if c.dropped == "" && !x.dead(c) {
			out = append(out, c)
		}
	}
	return out
}

// dead says whether the claim's object is gone, being deleted, or another one.
func (x *Executor) dead(c *coming) bool {
	o := x.m.Claim(c.claim.Name)
	if o == nil {
		return true
	}
	return o.Deleting != nil || o.UID != "" && c.uid != "" && o.UID != c.uid
}

// Accept takes the new nodes of a plan: limits are checked again with all that is in
// flight, claims are named and become part of the mirror. It answers the names of
// the claims by the plan's node names; nodes that were refused are missing.
func (x *Executor) Accept(nodes []*model.NewNode, reason string, now time.Time) map[string]string {
	x.now = now
	names := map[string]string{}
	groups := map[string]*launch{}
	pending := x.pending()
	for _, n := range nodes {
		pool := x.m.Pool(n.Pool.Name)
		if why := x.refused(pool, n); why != "" {
			x.event(Event{Object: poolRef(n.Pool), Warning: true, Reason: "LaunchRefused", Message: fmt.Sprintf("not launching %s: %s", n.Offering.Key(), why)})
			continue
		}
		fit, rounds, why := x.within(pool, n, pending)
		if fit == nil {
			x.event(Event{Object: poolRef(n.Pool), Reason: "LaunchHeld", Message: fmt.Sprintf("not launching %s now: it was short of capacity: %s", n.Offering.Key(), why)})
			x.Counters.Held++
			x.reflect(n.Offering.Key(), pending)
			continue
		}
		n = fit
		l := groups[groupKey(n)]
		if l == nil || len(l.claims) >= maxPerLaunch || x.LedgerDown {
			l = x.newLaunch(n)
			groups[groupKey(n)] = l
			l.whole = asksVariety(pool)
		}
		c := x.comingFor(l, pool, n)
		l.claims = append(l.claims, c)
		names[n.Name] = c.claim.Name
		x.launchOf[c.claim.Name] = l
		x.m.Assume(c.claim, n.Offering)
		if len(rounds) > 0 {
			l.taken = &ledger.Taken{Rounds: rounds}
		}
		for key := range rounds {
			pending[key]++
			x.reflect(key, pending)
		}
		x.m.Nominate(c.claim.Name, now.Add(nomination))
		if reason != "" {
			x.claimEvent(c.claim, false, "DisruptionLaunching", "Launching NodeClaim: %s", reason)
		}
		for _, p := range n.Pods {
			x.event(Event{Object: podRef(p), Reason: "Nominated", Message: fmt.Sprintf("Pod should schedule on: nodeclaim/%s (%s)", c.claim.Name, offeringText(n.Offering))})
		}
	}
	return names
}

const nomination = 20 * time.Second

func offeringText(o *model.Offering) string {
	return fmt.Sprintf("%s, %s, %s, %.4f USD/h", o.Type.Name, o.Zone, o.CapacityType, o.USDPerHour)
}

// refused says why a planned node may not be bought after all.
func (x *Executor) refused(pool *model.Pool, n *model.NewNode) string {
	switch {
	case pool == nil:
		return "its NodePool is gone"
	case pool.Deleting:
		return "its NodePool is being deleted"
	case pool.UID != n.Pool.UID:
		return "its NodePool was replaced by another of the same name"
	case pool.Unusable != "":
		return pool.Unusable
	}
	if pool.Limits.None() {
		return ""
	}
	used, nodes := x.m.Usage(pool.Name)
	if max := pool.Limits.Nodes; max != nil && nodes+1 > *max {
		return fmt.Sprintf("limit of %d nodes", *max)
	}
	after := used.Add(n.Offering.Type.Capacity)
	for _, name := range slices.Sorted(maps.Keys(pool.Limits.Resources)) {
		if have, max := after.Get(name), pool.Limits.Resources[name]; have > max {
			return fmt.Sprintf("limit of %s %s, would use %s", resource.Format(name, max), name, resource.Format(name, have))
		}
	}
	return ""
}

// groupKey is equal for nodes that one request can ask for together.
func groupKey(n *model.NewNode) string {
	var b strings.Builder
	b.WriteString(n.Pool.Name + "|" + n.Offering.CapacityType + "|" + n.Offering.Key() + "|" + partition(n.Offering))
	for _, o := range n.Alternatives {
		b.WriteString("|" + o.Key())
	}
	labels := ownLabels(n)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString("|" + k + "=" + labels[k])
	}
	return b.String()
}

// ownLabels are the labels of a planned node that hold whichever of its offerings is
// bought; the others are known only then.
func ownLabels(n *model.NewNode) map[string]string {
	out := map[string]string{}
	for k, v := range n.Labels {
		if _, ofOffering := n.Offering.Label(k); !ofOffering && k != model.LabelInstanceType {
			out[k] = v
		}
	}
	return out
}

func (x *Executor) newLaunch(n *model.NewNode) *launch {
	l := &launch{
		id: x.id(n.Pool.Name), pool: n.Pool.Name, class: n.Pool.NodeClass, capacity: n.Offering.CapacityType,
		attempt: 1, opened: x.now, degraded: x.LedgerDown,
		taints: slices.Concat(n.Pool.Taints, n.Pool.StartupTaints, []model.Taint{claim.Unregistered}),
	}
	for i, o := range append([]*model.Offering{n.Offering}, n.Alternatives...) {
		if len(l.offers) == maxOffers {
			break
		}
		if partition(o) == partition(n.Offering) { // the request names one, or leaves it to the cloud
			l.offers = append(l.offers, offer(o, i))
		}
	}
	// Where the strategy's order is not that of the prices, the fleet must keep the strategy's.
	l.ordered = !slices.IsSortedFunc(l.offers, func(a, b cloud.Offer) int { return cmp.Compare(a.USDPerHour, b.USDPerHour) })
	x.launches = append(x.launches, l)
	return l
}

// offer is an offering as a launch names it, at its place in the strategy's order.
func offer(o *model.Offering, place int) cloud.Offer {
	return cloud.Offer{InstanceType: o.Type.Name, Zone: o.Zone, USDPerHour: o.USDPerHour, Priority: float64(place),
		ReservationID: o.ReservationID, ReservationType: o.ReservationType, Interruptible: o.Interruptible}
}

// comingFor makes the claim of a planned node.
func (x *Executor) comingFor(l *launch, pool *model.Pool, n *model.NewNode) *coming {
	labels := map[string]string{}
	maps.Copy(labels, pool.Labels)
	maps.Copy(labels, ownLabels(n))
	labels[model.LabelPool] = pool.Name
	labels[model.LabelNodeClass] = pool.NodeClass.Name
	if p := partition(n.Offering); p != "" {
		labels[model.LabelPlacementPartition] = p
	}
	annotations := map[string]string{}
	maps.Copy(annotations, pool.NodeAnnotations)
	if pool.Hash != "" {
		annotations[model.AnnotationPoolHash] = pool.Hash
		annotations[model.AnnotationPoolHashVersion] = pool.HashVersion
	}
	maps.Copy(annotations, x.m.NodeClass(pool.NodeClass.Name).Stamp())
	if n.MinValuesRelaxed != nil {
		annotations[model.AnnotationMinValuesRelaxed] = strconv.FormatBool(*n.MinValuesRelaxed)
	}
	annotations[model.AnnotationLaunch] = l.id + "/" + l.token()
	types, zones := map[string]bool{}, map[string]bool{}
	for _, o := range l.offers {
		types[o.InstanceType], zones[o.Zone] = true, true
	}
	reqs := n.Requirements.With(
		require.Must(model.LabelInstanceType, "In", slices.Sorted(maps.Keys(types))...),
		require.Must(model.LabelZone, "In", slices.Sorted(maps.Keys(zones))...),
		require.Must(model.LabelCapacityType, "In", l.capacity),
	)
	c := &model.Claim{
		Name: pool.Name + "-" + hash(l.id, fmt.Sprint(len(l.claims)))[:8], Pool: pool.Name, PoolUID: pool.UID, NodeClass: pool.NodeClass,
		Labels: labels, Annotations: annotations, Finalizers: []string{model.FinalizerTermination},
		Taints: pool.Taints, StartupTaints: pool.StartupTaints, Requirements: reqs, Requests: attach.Strip(n.Requests.Add(n.Daemons)),
		ExpireAfter: pool.ExpireAfter, TerminationGP: pool.TerminationGP, Created: x.now,
	}
	return &coming{claim: c, offering: n.Offering, pods: n.Pods, marked: true}
}

// stepLaunch takes a launch as far as it goes now.
func (x *Executor) stepLaunch(l *launch) {
	if x.now.Before(l.at) {
		x.wake(l.at)
		return
	}
	for {
		before := l.state
		switch l.state {
		case creating:
			x.create(l)
		case adopting:
			if x.create(l); l.state == opening {
				l.state = settling
			}
		case opening:
			x.open(l)
		case marking:
			x.mark(l)
		case sending:
			x.send(l)
		case finding:
			x.do(l.key(), FindLaunch{ID: l.id})
		case settling:
			x.settle(l)
		case closing:
			x.close(l)
		case showing:
			x.finish(l)
		}
		if l.state == before {
			return
		}
	}
}

// create makes the objects: the public intent.
func (x *Executor) create(l *launch) {
	open := false
	for _, c := range l.claims {
		if c.uid != "" || c.dropped != "" {
			continue
		}
		if o := x.m.Claim(c.claim.Name); o != nil && x.m.Seen(c.claim.Name) && ours(o, l) {
			c.uid = o.UID // made before, with the answer lost
			continue
		}
		open = true
		x.do("claim/"+c.claim.Name, CreateClaim{Claim: c.claim})
	}
	if !open {
		l.state = opening
	}
}

func ours(o *model.Claim, l *launch) bool {
	id, _, _ := strings.Cut(o.Annotations[model.AnnotationLaunch], "/")
	return id == l.id
}

func (x *Executor) createdClaim(d CreateClaim, r Result) {
	l := x.launchOf[d.Claim.Name]
	if l == nil {
		return
	}
	for _, c := range l.claims {
		if c.claim.Name != d.Claim.Name {
			continue
		}
		switch {
		case r.Err == nil:
			c.uid = r.Value.(string)
			x.m.Confirm(c.claim.Name, x.now)
			x.Counters.Created++
		case errors.Is(r.Err, ErrInvalid):
			x.drop(l, c, "refused by the API server")
			x.event(Event{Object: ObjectRef{Kind: "NodePool", Name: l.pool}, Warning: true, Reason: "FailedCreate", Message: r.Err.Error()})
		case errors.Is(r.Err, ErrConflict):
			if o := x.m.Claim(c.claim.Name); o != nil && x.m.Seen(c.claim.Name) && !ours(o, l) {
				x.drop(l, c, "a claim of that name exists")
			}
		}
	}
}

// drop gives up a claim that has no object.
func (x *Executor) drop(l *launch, c *coming, why string) {
	c.dropped = why
	delete(x.launchOf, c.claim.Name)
	x.m.Forget(c.claim.Name)
}

// open writes the record with the complete request: the intent that recovery goes by.
func (x *Executor) open(l *launch) {
	live := x.wanting(l)
	if len(live) == 0 {
		l.state = settling
		return
	}
	if l.degraded && len(live) > 1 {
		x.split(l, live)
		return
	}
	if len(l.offers) == 0 && !x.offersOfSpec(l, live[0].claim) {
		return
	}
	x.do(l.key(), OpenLaunch{Record: x.record(l, ledger.LaunchOpen), Launch: x.cloudLaunch(l, live), Expect: l.version,
		Account: x.cfg.Account, Region: x.cfg.Region, Probes: x.probing(), All: l.whole})
}

// wanting lists the live claims without an instance.
func (x *Executor) wanting(l *launch) []*coming {
	return slices.DeleteFunc(x.live(l), func(c *coming) bool { return c.instance != nil })
}

func (x *Executor) cloudLaunch(l *launch, live []*coming) cloud.Launch {
	out := cloud.Launch{
		ID: l.id, Pool: l.pool, NodeClass: l.class.Name, CapacityType: l.capacity, Offers: l.offers, Prioritized: l.ordered,
		Labels: x.kubeletLabels(live[0]), Taints: l.taints,
		Tags: map[string]string{
			TagCluster: x.cfg.Cluster, TagOwned + x.cfg.Cluster: "owned", TagPool: l.pool, TagClass: l.class.Name, TagLaunch: l.id,
		},
	}
	for _, c := range live {
		out.Claims = append(out.Claims, c.claim.Name)
		out.EFA = out.EFA || c.claim.Requests.Get(model.ResourceEFA) > 0
	}
	if len(live) == 1 {
		out.Tags[TagClaim] = live[0].claim.Name
	}
	return out
}

func (x *Executor) record(l *launch, state string) ledger.Launch {
	rec := ledger.Launch{
		ID: l.id, Attempt: l.attempt, Token: l.token(), Epoch: x.epoch, Request: l.request, State: state,
		Opened: l.opened, Error: l.err, Pool: l.pool, Capacity: l.capacity,
	}
	if l.taken != nil && l.taken.Count > 0 {
		rec.Taken = l.taken
	}
	if state != ledger.LaunchOpen {
		rec.Closed = x.now
	}
	for _, c := range l.claims {
		if c.uid == "" {
			continue
		}
		lc := ledger.LaunchClaim{Name: c.claim.Name, UID: c.uid}
		if c.offering != nil {
			lc.Asked, lc.USDPerHour = c.offering.Key(), c.offering.USDPerHour
		}
		if c.instance != nil {
			lc.InstanceID, lc.Got = c.instance.ID, key(*c.instance)
		}
		rec.Claims = append(rec.Claims, lc)
	}
	return rec
}

// key is the offering that an instance was bought from.
func key(i cloud.Instance) string { return i.Type + "/" + i.Zone + "/" + i.CapacityType }

func (x *Executor) openedLaunch(d OpenLaunch, r Result) {
	l := x.byID(d.Record.ID)
	if l == nil {
		return
	}
	opened, _ := r.Value.(Opened)
	for _, key := range slices.Sorted(maps.Keys(opened.Health)) {
		x.learn(key, opened.Health[key])
	}
	switch {
	case opened.Held != "":
		x.conclude(l, nil, nil, "")
		x.giveUp(l, "it was short of capacity: "+opened.Held)
	case r.Err == nil:
		l.request, l.version, l.state = opened.Request, opened.Version, marking
		x.admitted(l, opened)
	case errors.Is(r.Err, ledger.ErrUnavailable) && len(opened.Request) > 0:
		// The annotation is the intent then, and each claim gets its own call.
		l.degraded = true
		if len(d.Record.Claims) == 1 {
			l.request, l.state = opened.Request, marking
			rec := d.Record
			rec.Request = opened.Request
			x.remember(ledger.LaunchKey(x.cfg.Cluster, l.id), rec, ledger.Meta{})
		}
		delete(x.retry, l.key())
	case errors.Is(r.Err, ErrFenced):
		x.Fenced = r.Err
	case cloud.KindOf(r.Err) == cloud.NotReady:
		x.classUnready(l, r.Err)
	default:
		x.tell(l, codeOf(r.Err), r.Err.Error())
	}
}

// admitted goes by what the ledger let a launch have.
func (x *Executor) admitted(l *launch, o Opened) {
	if o.Offers != nil {
		l.offers = o.Offers
	}
	before := l.taken
	if l.taken = o.Taken; l.taken != nil && len(l.taken.Rounds) == 0 {
		l.taken = nil
	}
	pending := x.pending()
	for _, t := range []*ledger.Taken{before, l.taken} {
		if t != nil {
			for key := range t.Rounds {
				x.reflect(key, pending)
			}
		}
	}
}

// split makes a launch of its own for each claim, because without a ledger only the
// annotation on the claim says what was asked.
func (x *Executor) split(l *launch, live []*coming) {
	for _, c := range live[1:] {
		one := *l
		one.id, one.attempt, one.state = x.id(c.claim.Name), 1, opening
		one.claims, one.surplus, one.version, one.request = []*coming{c}, nil, 0, nil
		c.marked = false
		x.launches = append(x.launches, &one)
		x.launchOf[c.claim.Name] = &one
	}
	l.claims = slices.DeleteFunc(l.claims, func(c *coming) bool { return slices.Contains(live[1:], c) })
	x.wake(x.now)
}

// mark writes launch id and token to claims that do not carry them yet.
func (x *Executor) mark(l *launch) {
	open := false
	for _, c := range x.wanting(l) {
		if c.marked {
			continue
		}
		open = true
		x.do("claim/"+c.claim.Name, PatchClaim{Patch: ClaimPatch{Name: c.claim.Name, UID: c.uid,
			Annotations: map[string]string{model.AnnotationLaunch: l.id + "/" + l.token()}, AddFinalizers: []string{model.FinalizerTermination}}})
	}
	if !open {
		l.state = sending
	}
}

// send sends the stored bytes, or cancels what nobody wants any more.
func (x *Executor) send(l *launch) {
	want := x.wanting(l)
	if len(want) == 0 {
		if l.sent && !l.searched {
			l.state = finding // it may have bought something all the same
			return
		}
		l.state = settling
		return
	}
	if !l.sent && len(want) < x.asked(l) {
		// Somebody deleted a claim before the request went out: ask for the rest only.
		x.again(l)
		return
	}
	if x.do(l.key(), SendLaunch{ID: l.id, Token: l.token(), Request: l.request}) {
		l.sent, l.searched = true, false
	}
}

// asked is for how many claims the request asks.
func (x *Executor) asked(l *launch) int {
	n := 0
	for _, c := range l.claims {
		if c.uid != "" && c.dropped == "" && c.instance == nil {
			n++
		}
	}
	return n
}

// again starts another attempt, with a token and a request of its own, for the
// claims that are still wanted. What the attempt before bought must be known.
func (x *Executor) again(l *launch) {
	if l.taken != nil {
		x.conclude(l, nil, nil, "")
	}
	l.attempt++
	l.sent, l.searched, l.state = false, false, opening
	for _, c := range l.claims {
		c.marked = c.instance != nil
		if c.instance == nil && c.dropped == "" && x.dead(c) {
			c.dropped = "claim is gone"
		}
	}
}

func (x *Executor) sentLaunch(d SendLaunch, r Result) {
	l := x.byID(d.ID)
	if l == nil {
		return
	}
	if r.Err == nil {
		l.tries = 0
		x.answered(l, r.Value.(cloud.Answer))
		return
	}
	l.err = cut(r.Err.Error())
	var known *cloud.Error
	if errors.As(r.Err, &known) && noSpot[known.Code] {
		l.sent = false
		x.closeSpot(l, r.Err.Error())
		x.giveUp(l, r.Err.Error())
		return
	}
	switch kind := cloud.KindOf(r.Err); {
	case known != nil && ofQuota[known.Code]:
		l.sent = false
		x.conclude(l, nil, nil, "")
		x.overQuota(l, l.offers, r.Err.Error())
		x.giveUp(l, r.Err.Error())
	case kind == cloud.Shortage:
		l.sent = false
		x.conclude(l, nil, l.offers, r.Err.Error())
		x.giveUp(l, r.Err.Error())
	case kind == cloud.Quota, kind == cloud.Auth, kind == cloud.Template, kind == cloud.NotFound:
		// Refused as a whole: nothing was bought, and another request may be right.
		l.sent = false
		x.tell(l, codeOf(r.Err), r.Err.Error())
		x.later(l)
		x.again(l)
	case kind == cloud.Token:
		l.state = finding
		x.later(l)
	default:
		// Throttled or unclear: the same bytes under the same token, however often.
		x.tell(l, codeOf(r.Err), r.Err.Error())
	}
}

func codeOf(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return cmp.Or(e.Reason, e.Code, "LaunchFailed")
	}
	return "LaunchFailed"
}

// later waits before the next attempt: 1 s doubling to a minute.
func (x *Executor) later(l *launch) {
	l.at = x.now.Add(min(FirstRetry<<min(l.tries, 6), LastRetry))
	l.tries++
}

// tell writes why a launch has not come true to the claims that wait for it.
func (x *Executor) tell(l *launch, reason, message string) {
	for _, c := range x.wanting(l) {
		o := x.m.Claim(c.claim.Name)
		if o == nil || c.uid == "" {
			continue
		}
		if old := o.Condition(model.CondLaunched); old.Reason == reason && old.Message == cut(message) {
			continue
		}
		x.do("claim/"+c.claim.Name, PatchClaim{Patch: ClaimPatch{Name: c.claim.Name, UID: c.uid, Conditions: []model.Condition{
			{Type: model.CondLaunched, Status: "Unknown", Reason: reason, Message: cut(message), Since: o.Condition(model.CondLaunched).Since}}}})
	}
}

// answered deals with a definite answer.
func (x *Executor) answered(l *launch, a cloud.Answer) {
	x.assign(l, a.Instances)
	var short, closed []cloud.Offer
	var other *cloud.OfferError
	for i, e := range a.Errors {
		switch {
		case e.Kind == cloud.Shortage && !x.grouped(l):
			short = append(short, e.Offer)
		case e.Kind == cloud.Quota || e.Kind == cloud.Shortage || notHere[e.Code]:
			closed = append(closed, e.Offer)
		case other == nil:
			other = &a.Errors[i]
		}
	}
	message := ""
	if len(a.Errors) > 0 {
		message = a.Errors[0].Code + ": " + a.Errors[0].Message
		l.err = cut(message)
	}
	x.conclude(l, a.Instances, short, message)
	if slices.ContainsFunc(a.Errors, func(e cloud.OfferError) bool { return noSpot[e.Code] }) {
		x.closeSpot(l, message)
	}
	if len(closed) > 0 {
		x.closeHere(l, closed, message)
	}
	var over []cloud.Offer
	for _, e := range a.Errors {
		if ofQuota[e.Code] {
			over = append(over, e.Offer)
		}
	}
	x.overQuota(l, over, message)
	switch left := x.wanting(l); {
	case len(left) == 0:
		l.state = settling
	case len(short)+len(closed) > 0:
		x.giveUp(l, message)
	case other != nil:
		x.tell(l, cmp.Or(other.Reason, other.Code, "LaunchFailed"), other.Code+": "+other.Message)
		x.later(l)
		x.again(l)
	default:
		x.tell(l, "LaunchFailed", "the fleet answered neither instances nor errors")
		x.later(l)
		x.again(l)
	}
}

// notHere are errors of offers that others may not have: v1 counts them like shortages, too.
var notHere = map[string]bool{
	"Unsupported": true, "InsufficientFreeAddressesInSubnet": true, "AuthFailure.ServiceLinkedRoleCreationNotPermitted": true,
}

// noSpot are errors that hold for all of spot.
var noSpot = map[string]bool{"MaxSpotInstanceCountExceeded": true, "AuthFailure.ServiceLinkedRoleCreationNotPermitted": true}

// closeSpot leaves all of spot alone for a while.
func (x *Executor) closeSpot(l *launch, message string) {
	var all []cloud.Offer
	for _, o := range x.m.World(x.now).Offerings[l.class.Name] {
		if o.CapacityType == model.Spot && l.capacity == model.Spot {
			all = append(all, cloud.Offer{InstanceType: o.Type.Name, Zone: o.Zone})
		}
	}
	x.closeHere(l, all, message)
}

// closeHere leaves offers alone for a while without telling other clusters: a quota, a subnet
// or a right is no shortage of the cloud.
func (x *Executor) closeHere(l *launch, offers []cloud.Offer, message string) {
	for _, o := range offers {
		key := o.InstanceType + "/" + o.Zone + "/" + l.capacity
		if until, closed := x.m.Closed(x.now)[key]; !closed || until.Before(x.now.Add(ledger.ShortageFirst)) {
			x.m.CloseOffering(key, x.now, x.now.Add(ledger.ShortageFirst), cut(message))
		}
	}
}

// giveUp deletes the claims that got nothing, so that the next pass plans anew.
func (x *Executor) giveUp(l *launch, message string) {
	for _, c := range x.wanting(l) {
		x.claimEvent(c.claim, true, "InsufficientCapacityError", "NodeClaim %s event: %s", c.claim.Name, message)
		x.deleteClaim(c.claim.Name, c.uid, "insufficient_capacity")
		x.m.Doom(c.claim.Name)
		x.Counters.GivenUp++
		c.dropped = "insufficient capacity"
	}
	l.state = settling
}

// assign hands instances out: claims that know theirs keep it, the others get what
// is left in order, and what nobody wants is surplus.
func (x *Executor) assign(l *launch, instances []cloud.Instance) {
	left := map[string]*cloud.Instance{}
	var order []string
	for _, i := range instances {
		if i.Gone() {
			continue
		}
		left[i.ID] = &i
		order = append(order, i.ID)
	}
	for _, c := range l.claims {
		if o := x.m.Claim(c.claim.Name); o != nil && o.ProviderID != "" {
			id := model.InstanceID(o.ProviderID)
			if i := left[id]; i != nil {
				c.instance, c.patched = i, true
				delete(left, id)
			} else if c.instance == nil {
				c.instance, c.patched = &cloud.Instance{ID: id}, true
			}
		} else if c.instance != nil {
			delete(left, c.instance.ID)
		}
	}
	for _, id := range order {
		i := left[id]
		if i == nil {
			continue
		}
		if want := x.wanting(l); len(want) > 0 {
			want[0].instance = i
			continue
		}
		l.surplus = append(l.surplus, *i)
	}
}

func (x *Executor) foundLaunch(d FindLaunch, r Result) {
	l := x.byID(d.ID)
	if l == nil || r.Err != nil {
		return
	}
	found := r.Value.([]cloud.Instance)
	slices.SortFunc(found, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	l.searched = true
	x.assign(l, found)
	if len(x.wanting(l)) > 0 && len(l.request) > 0 && l.version > 0 {
		l.state = sending // the same bytes under the same token answer the same instances
		return
	}
	if l.taken != nil {
		x.conclude(l, found, nil, "")
	}
	if len(x.wanting(l)) > 0 {
		x.again(l)
		return
	}
	l.state = settling
}

// settle tells each claim about its instance and ends the surplus.
func (x *Executor) settle(l *launch) {
	if l.taken != nil {
		x.conclude(l, nil, nil, "")
	}
	open := false
	for _, c := range l.claims {
		if c.instance == nil || c.patched {
			continue
		}
		o := x.m.Claim(c.claim.Name)
		if o == nil || o.UID != "" && o.UID != c.uid {
			l.surplus = append(l.surplus, *c.instance)
			c.patched, c.dropped = true, "claim is gone"
			continue
		}
		open = true
		x.do("claim/"+c.claim.Name, PatchClaim{Patch: x.launchedPatch(l, c, o)})
	}
	for _, i := range l.surplus {
		open = true
		x.do("instance/"+i.ID, Terminate{IDs: []string{i.ID}, Reason: "surplus of launch " + l.id})
	}
	if !open {
		l.state = closing
	}
}

// launchedPatch is what a claim learns of its instance.
func (x *Executor) launchedPatch(l *launch, c *coming, o *model.Claim) ClaimPatch {
	i := c.instance
	p := ClaimPatch{
		Name: c.claim.Name, UID: c.uid, ProviderID: i.ProviderID(), ImageID: i.ImageID,
		Conditions: []model.Condition{{Type: model.CondLaunched, Status: "True", Reason: model.CondLaunched, Since: x.now}},
		Labels:     map[string]string{},
	}
	if c.given && o.Annotations[model.AnnotationClassHash] == "" && len(l.stamp) > 0 {
		p.Annotations = maps.Clone(l.stamp)
	}
	set := func(k, v string) {
		if _, own := o.Labels[k]; !own && v != "" {
			p.Labels[k] = v // labels of the template win over the provider's
		}
	}
	set(model.LabelInstanceType, i.Type)
	set(model.LabelZone, i.Zone)
	set(model.LabelCapacityType, i.CapacityType)
	set(model.LabelRegion, x.cfg.Region)
	if i.Partition > 0 {
		set(model.LabelPlacementPartition, strconv.Itoa(i.Partition))
	}
	if off := x.m.Offering(l.class.Name, key(*i)); off != nil {
		for k, v := range off.Type.Labels {
			set(k, v)
		}
		p.Capacity, p.Allocatable = off.Type.Capacity.Map(), off.Type.Allocatable.Map()
	}
	return p
}

func (x *Executor) patchedClaim(d PatchClaim, r Result) {
	name := d.Patch.Name
	x.recheck(name, Recheck)
	l := x.launchOf[name]
	if l == nil {
		return
	}
	for _, c := range l.claims {
		if c.claim.Name != name {
			continue
		}
		gone := errors.Is(r.Err, ErrNotFound) || errors.Is(r.Err, ErrConflict)
		switch {
		case d.Patch.ProviderID != "" && c.instance != nil && gone:
			l.surplus = append(l.surplus, *c.instance)
			c.patched, c.dropped = true, "claim is gone"
		case d.Patch.ProviderID != "" && r.Err == nil:
			c.patched = true
		case d.Patch.Annotations[model.AnnotationLaunch] != "" && r.Err == nil:
			c.marked = true
		case d.Patch.Annotations[model.AnnotationLaunch] != "" && gone:
			c.dropped = "claim is gone"
		}
	}
}

// close writes what came of it: the record, and the memory of claims and instances.
func (x *Executor) close(l *launch) {
	state := ledger.LaunchCancelled
	for _, c := range l.claims {
		if c.instance != nil && c.dropped == "" {
			state = ledger.LaunchDone
		}
	}
	rec := x.record(l, state)
	rec.Request = nil // nothing is ever sent again under a closed record
	items := []ledger.Item{encode(ledger.LaunchKey(x.cfg.Cluster, l.id), rec, ledger.Meta{Expires: x.now.Add(ledger.LaunchTTL)})}
	for _, c := range l.claims {
		if c.instance == nil || c.dropped != "" || c.instance.Type == "" {
			continue
		}
		st := ledger.ClaimState{Name: c.claim.Name, UID: c.uid, Pool: l.pool, State: string(claim.Launched), LaunchID: l.id,
			InstanceID: c.instance.ID, Offering: key(*c.instance), Updated: x.now}
		if off := x.m.Offering(l.class.Name, key(*c.instance)); off != nil {
			st.USDPerHour = off.USDPerHour
		}
		x.reclaim[c.uid] = st
		items = append(items,
			encode(ledger.ClaimKey(x.cfg.Cluster, c.uid), st, ledger.Meta{Instance: c.instance.ID}),
			encode(ledger.InstanceKey(x.cfg.Account, x.cfg.Region, c.instance.ID), x.owner(c.claim, "", key(*c.instance)), ledger.Meta{Instance: c.instance.ID}))
	}
	if x.LedgerDown || l.degraded || l.version == 0 {
		if l.version > 0 || l.sent || len(items) > 1 {
			for _, it := range items {
				x.rememberItem(it)
			}
		}
		l.state = showing
		return
	}
	puts := []ledger.PutOp{{Item: items[0], Expect: l.version}}
	together := min(len(items), ledger.MaxTransact)
	for _, it := range items[1:together] {
		puts = append(puts, ledger.PutOp{Item: it, Expect: ledger.Any})
	}
	if x.do(l.key(), CloseLaunch{ID: l.id, Puts: puts}) {
		for _, it := range items[together:] { // of a launch that an earlier release made larger
			x.rememberItem(it)
		}
	}
}

func encode(k ledger.Key, v any, m ledger.Meta) ledger.Item {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("record %v: %v", k, err)) // our own types always marshal
	}
	return ledger.Item{Key: k, Expires: m.Expires, Instance: m.Instance, Data: data}
}

func (x *Executor) rememberItem(it ledger.Item) {
	if _, waiting := x.queue[it.Key]; !waiting {
		x.queued = append(x.queued, it.Key)
	}
	x.queue[it.Key] = it
}

func (x *Executor) owner(c *model.Claim, node, offering string) ledger.InstanceOwner {
	o := ledger.InstanceOwner{Cluster: x.cfg.Cluster, Claim: c.Name, Node: node, Offering: offering}
	if p := x.m.Pool(c.Pool); p != nil {
		o.Rebalance = p.Annotations[model.AnnotationRebalance]
	}
	return o
}

func (x *Executor) closedLaunch(d CloseLaunch, r Result) {
	l := x.byID(d.ID)
	if l == nil {
		return
	}
	switch {
	case r.Err == nil:
		l.state = showing
	case errors.Is(r.Err, ledger.ErrUnavailable):
		delete(x.retry, l.key())
		for _, p := range d.Puts {
			x.rememberItem(p.Item)
		}
		l.state = showing
	case errors.Is(r.Err, ledger.ErrConflict):
		// Somebody else has this record now, so somebody else leads. Reading everything
		// again is right whoever it is.
		x.recovered = false
	}
}

// finish lets a launch go once the mirror shows what it did.
func (x *Executor) finish(l *launch) {
	for _, c := range l.claims {
		if o := x.m.Claim(c.claim.Name); c.instance != nil && c.dropped == "" && o != nil && o.ProviderID == "" && (o.UID == "" || o.UID == c.uid) {
			return
		}
	}
	for _, c := range l.claims {
		if x.launchOf[c.claim.Name] == l {
			delete(x.launchOf, c.claim.Name)
			x.recheck(c.claim.Name, 0)
		}
	}
	x.launches = slices.DeleteFunc(x.launches, func(o *launch) bool { return o == l })
}

func (x *Executor) byID(id string) *launch {
	for _, l := range x.launches {
		if l.id == id {
			return l
		}
	}
	return nil
}
