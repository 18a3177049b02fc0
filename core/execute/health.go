package execute

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
)

// What is known of offerings that were short. The ledger's record is the truth, which all
// clusters of the account share; what is here is what was last heard of it, which is what
// Accept goes by, and all there is while the ledger is away.

const (
	maxProbes = 4                // offerings on a ramp that one launch names
	probeFor  = 30 * time.Second // how long an offering that is closed may be asked after Probe
)

// room is how many more may be launched from an offering, those counted that no record knows yet.
func (x *Executor) room(key string, pending map[string]int) (n int, limited bool) {
	h := x.health[key]
	if until, asked := x.probes[key]; asked && x.now.Before(until) && h.Closed(x.now) {
		h.ClosedUntil, h.Allowance = x.now, 1
	}
	n, limited = h.Room(x.now)
	return max(n-pending[key], 0), limited
}

// pending counts, by offering, launches that no record knows of yet.
func (x *Executor) pending() map[string]int {
	out := map[string]int{}
	for _, l := range x.launches {
		if l.taken == nil || l.taken.Count > 0 {
			continue
		}
		for key := range l.taken.Rounds {
			out[key] += len(x.wanting(l))
		}
	}
	return out
}

// within leaves out what may not be launched from now: the offerings on a ramp of which enough is
// under way, and those beyond maxProbes. It answers the rounds of those on a ramp that stay.
func (x *Executor) within(pool *model.Pool, n *model.NewNode, pending map[string]int) (fit *model.NewNode, rounds map[string]int64, why string) {
	if len(x.health) == 0 {
		return n, nil, ""
	}
	all := append([]*model.Offering{n.Offering}, n.Alternatives...)
	var keep []*model.Offering
	for _, o := range all[:min(len(all), maxOffers)] {
		key := o.Key()
		room, limited := x.room(key, pending)
		if _, counted := rounds[key]; limited && !counted {
			if room == 0 || len(rounds) == maxProbes {
				if why == "" {
					why = x.health[key].Text(x.now)
				}
				continue
			}
			if rounds == nil {
				rounds = map[string]int64{}
			}
			rounds[key] = x.health[key].Round
		}
		keep = append(keep, o)
	}
	switch {
	case len(keep) == min(len(all), maxOffers):
		return n, rounds, ""
	case len(keep) == 0 || asksVariety(pool):
		return nil, nil, why
	}
	one := *n
	one.Labels = ownLabels(n) // of the offering that it was planned for
	one.Offering, one.Alternatives = keep[0], keep[1:]
	return &one, rounds, ""
}

// asksVariety says whether a pool wants a choice of so many types, zones and the like, which
// leaving some out might spoil.
func asksVariety(p *model.Pool) bool {
	for _, r := range p.Requirements.All() {
		if r.MinValues > 0 {
			return true
		}
	}
	return false
}

// Probe lets an offering that is closed be asked once, for somebody who has nothing else.
func (x *Executor) Probe(key string, now time.Time) {
	x.now = now
	x.probes[key] = now.Add(probeFor)
	x.m.OpenOffering(key)
}

// probing lists the offerings that may be asked although they are closed.
func (x *Executor) probing() []string {
	maps.DeleteFunc(x.probes, func(_ string, until time.Time) bool { return !x.now.Before(until) })
	return slices.Sorted(maps.Keys(x.probes))
}

// learn takes in what the ledger says of an offering; older news are none.
func (x *Executor) learn(key string, h ledger.OfferingHealth) {
	if h.Writes < x.health[key].Writes && !h.LastShortage.After(x.health[key].LastShortage) {
		return
	}
	x.setHealth(key, h)
}

func (x *Executor) setHealth(key string, h ledger.OfferingHealth) {
	x.health[key] = h
	if h == (ledger.OfferingHealth{}) {
		delete(x.health, key)
	}
	x.reflect(key, x.pending())
}

// reflect has worlds say how it stands with an offering.
func (x *Executor) reflect(key string, pending map[string]int) {
	h := x.health[key]
	mem := cluster.Memory{Shortages: h.Shortages, Interruptions: h.Interruptions, LastShortage: h.LastShortage, LastInterruption: h.LastInterruption}
	switch room, limited := x.room(key, pending); {
	case !limited:
	case h.Closed(x.now) && room == 0:
		mem.Since, mem.Until, mem.Why = h.LastShortage, h.ClosedUntil, h.Message
		if mem.Since.IsZero() {
			mem.Since = h.ClosedUntil.Add(-ledger.ShortageFirst) // an interruption
		}
	case room == 0:
		mem.Since, mem.Until, mem.Why, mem.Probing = h.LastShortage, x.now.Add(ledger.RampLease), h.Message, true
		if h.OutUntil.After(x.now) && pending[key] == 0 {
			mem.Until = h.OutUntil
		}
	}
	x.m.RememberOffering(key, mem)
}

// heard takes in all that the ledger remembers of offerings.
func (x *Executor) heard(all map[string]ledger.OfferingHealth) {
	own := map[string]bool{} // the ledger does not know yet what we know of these
	for _, s := range x.untold {
		own[s.Offering] = true
	}
	for _, e := range x.inflight {
		if d, ok := e.Do.(AddShortages); ok {
			for _, s := range d.Shortages {
				own[s.Offering] = true
			}
		}
	}
	for key, h := range all {
		if !own[key] {
			x.learn(key, h)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x.health)) {
		if _, there := all[key]; !there && !own[key] {
			x.setHealth(key, ledger.OfferingHealth{})
		}
	}
}

// conclude ends what a launch counts for on the ramps, with what came of it.
func (x *Executor) conclude(l *launch, bought []cloud.Instance, short []cloud.Offer, message string) {
	got := map[string]int{}
	for _, i := range bought {
		if !i.Gone() {
			got[key(i)]++
		}
	}
	taken := ledger.Taken{}
	if l.taken != nil {
		taken = *l.taken
	}
	var list []Shortage
	told := map[string]bool{}
	for _, o := range short {
		s := Shortage{Offering: o.InstanceType + "/" + o.Zone + "/" + l.capacity, Message: cut(message)}
		if round, on := taken.Rounds[s.Offering]; on {
			s.Took, s.Round = taken.Count, round
		}
		if !told[s.Offering] {
			list = append(list, s)
		}
		told[s.Offering] = true
	}
	for _, k := range slices.Sorted(maps.Keys(taken.Rounds)) {
		if !told[k] {
			list = append(list, Shortage{Offering: k, Bought: true, Got: got[k], Took: taken.Count, Round: taken.Rounds[k]})
		}
		delete(x.probes, k)
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		instanceType, _, _ := strings.Cut(k, "/")
		quota := model.QuotaKey(instanceType, l.capacity)
		if h := x.health[quota]; h.Limited() && !h.Closed(x.now) && !told[quota] {
			told[quota] = true // there is room again
			list = append(list, Shortage{Offering: quota, Bought: true, Got: ledger.RampEnd, Round: h.Round})
		}
	}
	l.taken = nil
	if len(list) > 0 {
		x.Short(list, x.now)
	}
}

// ofQuota are errors that hold for all types of a quota of the account, in each of its clusters. Quotas of calls and fleets pass by
// themselves.
var ofQuota = map[string]bool{"VcpuLimitExceeded": true}

// overQuota remembers that the quotas of offers are used up: other types are outside of them.
func (x *Executor) overQuota(l *launch, offers []cloud.Offer, message string) {
	var list []Shortage
	for _, o := range offers {
		key := model.QuotaKey(o.InstanceType, l.capacity)
		if !slices.ContainsFunc(list, func(s Shortage) bool { return s.Offering == key }) {
			list = append(list, Shortage{Offering: key, Message: cut(message)})
		}
	}
	if len(list) > 0 {
		x.Short(list, x.now)
	}
}

// settled is what a report says of the launches that it is about.
func (s Shortage) settled() ledger.Outcome {
	return ledger.Outcome{Took: s.Took, Round: s.Round, Got: s.Got, Short: !s.Bought, Message: s.Message}
}

// Short remembers what was found out about offerings, at once in the mirror and for all clusters
// in the ledger.
func (x *Executor) Short(list []Shortage, now time.Time) {
	x.now = now
	for i := range list {
		s := &list[i]
		s.At = now
		h := x.health[s.Offering]
		if s.Interruption {
			h.Interrupted(now)
		} else {
			h.Settle(s.settled(), now)
		}
		x.setHealth(s.Offering, h)
	}
	x.serial++
	x.do(fmt.Sprintf("shortages/%d", x.serial), AddShortages{Account: x.cfg.Account, Region: x.cfg.Region, Shortages: list})
}

func (x *Executor) shortagesAdded(d AddShortages, r Result) {
	health, _ := r.Value.(map[string]ledger.OfferingHealth)
	for key, h := range health {
		x.learn(key, h)
	}
	if r.Err == nil || errors.Is(r.Err, ledger.ErrInvalid) {
		return
	}
	// What this process knows holds all the same; other clusters hear of it when the
	// ledger is back.
	for _, s := range d.Shortages {
		if _, counted := health[s.Offering]; !counted {
			x.untold = append(x.untold, s)
		}
	}
	if n := len(x.untold) - maxUntold; n > 0 {
		x.untold = x.untold[n:]
	}
	if r.Effect.Key != untoldKey {
		delete(x.retry, r.Effect.Key)
	}
}

const (
	untoldKey = "shortages/untold"
	maxUntold = 1000 // the latest: older ones have ended
)

// tellShortages tries again what the ledger did not take, in the order in which it was seen.
func (x *Executor) tellShortages() {
	if len(x.untold) == 0 {
		return
	}
	if x.do(untoldKey, AddShortages{Account: x.cfg.Account, Region: x.cfg.Region, Shortages: x.untold}) {
		x.untold = nil
	}
}

// admitted is what of a launch may be asked for.
type admitted struct {
	offers []cloud.Offer
	taken  ledger.Taken
	health map[string]ledger.OfferingHealth
	why    string // why nothing may be; empty = something
}

// admit leaves out the offers of a launch that no more may be bought from, as all clusters of the
// account know it, and counts it on the ramps of those that stay.
func admit(ctx context.Context, p Ports, d OpenLaunch) (admitted, error) {
	a := admitted{offers: d.Launch.Offers, taken: ledger.Taken{Rounds: map[string]int64{}}}
	var err error
	if a.health, err = ledger.Offerings(ctx, p.Ledger, d.Account, d.Region, p.Now()); err != nil || len(a.health) == 0 {
		return a, err
	}
	left := 0
	a.offers, a.taken.Count = nil, len(d.Launch.Claims)
	for _, o := range d.Launch.Offers {
		key := o.InstanceType + "/" + o.Zone + "/" + d.Launch.CapacityType
		if _, counted := a.taken.Rounds[key]; !counted && a.health[key].Limited() {
			ok := false
			if len(a.taken.Rounds) < maxProbes {
				a.health[key], ok, err = ledger.TakeOffering(ctx, p.Ledger, d.Account, d.Region, key, a.taken.Count, slices.Contains(d.Probes, key), p.Now())
				if err != nil {
					a.release(ctx, p, d)
					return a, err
				}
			}
			if !ok {
				left++
				if a.why == "" {
					a.why = key + ": " + a.health[key].Text(p.Now())
				}
				continue
			}
			if a.health[key].Limited() {
				a.taken.Rounds[key] = a.health[key].Round
			}
		}
		a.offers = append(a.offers, o)
	}
	if len(a.offers) == 0 || left > 0 && d.All {
		a.release(ctx, p, d)
		return a, nil
	}
	a.why = ""
	return a, nil
}

// release takes back what was counted for a launch that is not made. Where that fails, the lease
// of the record ends it.
func (a *admitted) release(ctx context.Context, p Ports, d OpenLaunch) {
	for key, round := range a.taken.Rounds {
		h, err := ledger.SettleOffering(ctx, p.Ledger, d.Account, d.Region, key, ledger.Outcome{Took: a.taken.Count, Round: round}, p.Now())
		if err == nil {
			a.health[key] = h
		}
	}
	a.taken = ledger.Taken{}
}
