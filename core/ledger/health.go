package ledger

import (
	"context"
	"fmt"
	"time"
)

// Capacity memory is a ramp. A shortage closes the offering for a while; then one machine may be
// launched from it to try; each one that was bought lets one more be launched at a time, so that
// what is tried doubles (1, 2, 4, ...) while all goes well; and the next shortage goes back to one,
// after a longer wait. What is under way is counted in the record, so that all clusters of the
// account share one ramp.

const (
	// RampEnd is how many machines at a time end the ramp: the offering is as any other then.
	RampEnd = 64
	// RampLease is how long a launch counts as under way of which nothing more was heard.
	RampLease = 5 * time.Minute
)

// Limited says whether the offering was short, so that only so many may be launched at a time.
func (h OfferingHealth) Limited() bool { return h.Shortages > 0 || !h.ClosedUntil.IsZero() }

// Closed says whether the offering is to be left alone at now.
func (h OfferingHealth) Closed(now time.Time) bool { return now.Before(h.ClosedUntil) }

// allowance is how many may be under way at a time. Records of earlier releases know none.
func (h OfferingHealth) allowance() int { return max(h.Allowance, 1) }

// underWay is how many are being launched.
func (h OfferingHealth) underWay(now time.Time) int {
	if !now.Before(h.OutUntil) {
		return 0
	}
	return h.Out
}

// Room is how many more may be launched at now; limited false: as many as one likes.
func (h OfferingHealth) Room(now time.Time) (n int, limited bool) {
	switch {
	case !h.Limited():
		return 0, false
	case h.Closed(now):
		return 0, true
	}
	return max(h.allowance()-h.underWay(now), 0), true
}

// Take counts n launches as under way and answers whether they may be made; what is not limited
// is not counted. A probe is one launch of an offering that is closed still, for somebody who has
// nothing else: it ends the wait, and what comes of it is the next word.
func (h *OfferingHealth) Take(n int, probe bool, now time.Time) bool {
	if !h.Limited() {
		return true
	}
	if probe && n == 1 && h.Closed(now) && h.underWay(now) == 0 {
		h.ClosedUntil, h.Allowance = now, 1
	}
	if room, _ := h.Room(now); room < n {
		return false
	}
	if h.Out > 0 && h.underWay(now) == 0 {
		h.Out = 0
		h.Round++ // should those that were given up on answer yet, they count for nothing
	}
	h.Out += n
	h.OutUntil = now.Add(RampLease)
	return true
}

// Short closes the offering for 3 minutes, doubling with each shortage in a row up to 30, and
// allows one launch after that. Shortages that are told while it is closed for one already
// (several launches asked at once) count as one: false, nothing has changed.
func (h *OfferingHealth) Short(message string, now time.Time) bool {
	if h.Closed(now) && h.Shortages > 0 {
		return false
	}
	h.Shortages++
	h.LastShortage, h.Message = now, message
	h.ClosedUntil = now.Add(ShortageBackoff(h.Shortages))
	h.restart()
	return true
}

// Interrupted counts a spot interruption against the offering: closed for at least 3 minutes, and
// one launch to try after that.
func (h *OfferingHealth) Interrupted(now time.Time) {
	h.Interruptions++
	h.LastInterruption = now
	if until := now.Add(ShortageFirst); until.After(h.ClosedUntil) {
		h.ClosedUntil, h.Message = until, "spot interruption"
	}
	h.restart()
}

// restart begins the ramp anew; launches of before say nothing about what comes.
func (h *OfferingHealth) restart() {
	h.Allowance, h.Out, h.OutUntil = 1, 0, time.Time{}
	h.Round++
}

// Outcome is what came of launches that named an offering.
type Outcome struct {
	Took    int   // launches that Take counted, which have ended now
	Round   int64 // as the record said when they were taken
	Got     int   // machines that were bought from the offering
	Short   bool  // it had no capacity for the others
	Message string
}

// Settle takes in what came of launches and answers whether anything has changed.
func (h *OfferingHealth) Settle(o Outcome, now time.Time) bool {
	old := *h
	same := o.Round == h.Round
	if same && o.Took > 0 {
		h.Out = max(h.underWay(now)-o.Took, 0)
	}
	switch {
	case o.Short:
		h.Short(o.Message, now)
	case same && o.Got > 0 && h.Limited() && !h.Closed(now):
		if h.Allowance = h.allowance() + o.Got; h.Allowance >= RampEnd {
			*h = OfferingHealth{Interruptions: h.Interruptions, LastInterruption: h.LastInterruption, LastShortage: h.LastShortage, Round: h.Round, Writes: h.Writes}
		}
	}
	return *h != old
}

// Text says how it stands with the offering at now; empty = as with any other.
func (h OfferingHealth) Text(now time.Time) string {
	switch room, limited := h.Room(now); {
	case !limited:
		return ""
	case h.Closed(now):
		return "closed until " + h.ClosedUntil.UTC().Format(time.RFC3339) + ", then one probe"
	case room == 0:
		return fmt.Sprintf("at most %d at a time, %d under way", h.allowance(), h.underWay(now))
	default:
		return fmt.Sprintf("at most %d at a time", h.allowance())
	}
}

// AddShortage counts one more shortage of an offering: see OfferingHealth.Short.
func AddShortage(ctx context.Context, s Store, account, region, offering, message string, now time.Time) (OfferingHealth, error) {
	return updateOffering(ctx, s, account, region, offering, now, func(h *OfferingHealth) bool { return h.Short(message, now) })
}

// AddInterruption counts a spot interruption of an offering: see OfferingHealth.Interrupted.
func AddInterruption(ctx context.Context, s Store, account, region, offering string, now time.Time) (OfferingHealth, error) {
	return updateOffering(ctx, s, account, region, offering, now, func(h *OfferingHealth) bool {
		h.Interrupted(now)
		return true
	})
}

// TakeOffering counts n launches from an offering as under way: see OfferingHealth.Take. All
// writers of the account see them. Where ok is false nothing was counted and none may be made.
func TakeOffering(ctx context.Context, s Store, account, region, offering string, n int, probe bool, now time.Time) (h OfferingHealth, ok bool, err error) {
	h, err = updateOffering(ctx, s, account, region, offering, now, func(h *OfferingHealth) bool {
		ok = h.Take(n, probe, now)
		return ok && h.Limited()
	})
	return h, ok && err == nil, err
}

// SettleOffering takes in what came of launches: see OfferingHealth.Settle.
func SettleOffering(ctx context.Context, s Store, account, region, offering string, o Outcome, now time.Time) (OfferingHealth, error) {
	return updateOffering(ctx, s, account, region, offering, now, func(h *OfferingHealth) bool { return h.Settle(o, now) })
}

// ShortageBackoff is how long an offering stays closed after n shortages in a row.
func ShortageBackoff(n int) time.Duration {
	d := ShortageFirst
	for i := 1; i < n && d < ShortageLongest; i++ {
		d *= 2
	}
	return min(d, ShortageLongest)
}

func updateOffering(ctx context.Context, s Store, account, region, offering string, now time.Time, f func(*OfferingHealth) bool) (OfferingHealth, error) {
	h, err := Update(ctx, s, OfferingKey(account, region, offering), now, func(h OfferingHealth, _ bool) (OfferingHealth, Meta, bool) {
		write := f(&h)
		if write {
			h.Writes++
		}
		return h, Meta{Expires: now.Add(OfferingTTL)}, write
	})
	if err != nil {
		return OfferingHealth{}, fmt.Errorf("remembering offering %s: %w", offering, err)
	}
	return h, nil
}

// Offerings reads what the account remembers of offerings in a region, by
// type/zone/capacity type.
func Offerings(ctx context.Context, s Store, account, region string, now time.Time) (map[string]OfferingHealth, error) {
	items, err := s.Query(ctx, OfferingKey(account, region, "").Partition, "", now)
	if err != nil {
		return nil, err
	}
	out := make(map[string]OfferingHealth, len(items))
	for _, it := range items {
		h, err := Decode[OfferingHealth](it)
		if err != nil {
			return nil, err
		}
		out[it.Sort] = h
	}
	return out, nil
}
