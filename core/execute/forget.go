package execute

import (
	"maps"

	"github.com/weir-project/weir/core/ledger"
)

// What is remembered by claim, pool or class goes with it. Most of it goes when the end of the object is seen; forget takes
// what came later, such as the answer of a call about a claim that was gone by then.

// staleRetry is how long after its next try was due an effect that nobody asked for again is forgotten.
const staleRetry = 10 * LastRetry

// forget looks at every sweep for what nobody can ask for any more.
func (x *Executor) forget(s Swept) {
	known := make(map[string]bool, len(s.Claims))
	for _, c := range s.Claims {
		known[c.UID] = true
	}
	maps.DeleteFunc(x.reclaim, func(uid string, st ledger.ClaimState) bool {
		c := x.m.Claim(st.Name)
		return !known[uid] && (c == nil || c.UID != "" && c.UID != uid) // one that came after the listing is in the mirror
	})
	maps.DeleteFunc(x.tags.done, func(id string, _ bool) bool { return x.m.ClaimByInstance(id) == nil })
	maps.DeleteFunc(x.classAt, func(name string, _ classSeen) bool { return x.m.NodeClass(name) == nil })
	maps.DeleteFunc(x.outcomes, func(name string, _ []bool) bool { return x.m.Pool(name) == nil })
	maps.DeleteFunc(x.retry, func(_ string, r retry) bool { return x.now.Sub(r.at) > staleRetry })
}
