package ec2front

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/time/rate"
)

// Call is one request as it came.
type Call struct {
	Op   string // CreateFleet, ...
	Body string // the form
}

// Fault is what happens to a call instead of its answer.
type Fault struct {
	// Code answers an error; nothing is done then. Status is 400 where it is not set.
	Status        int
	Code, Message string
	// Cut closes the connection without an answer; After does the work first.
	Cut, After bool
	// Half answers half of the answer.
	Half bool
}

// Faults that EC2 is known for.
var (
	Throttled    = Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."}
	Broken       = Fault{Status: http.StatusInternalServerError, Code: "InternalError", Message: "An internal error has occurred"}
	Unavailable  = Fault{Status: http.StatusServiceUnavailable, Code: "Unavailable", Message: "The service is unavailable. Please try again shortly."}
	Expired      = Fault{Code: "RequestExpired", Message: "Request has expired."}
	AuthFailure  = Fault{Status: http.StatusUnauthorized, Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials"}
	Unauthorized = Fault{Status: http.StatusForbidden, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}
	CutBefore    = Fault{Cut: true}
	CutAfter     = Fault{Cut: true, After: true}
	HalfAnswer   = Fault{Half: true, After: true}
)

type rule struct {
	match func(Call) bool
	fault *Fault // nil: it only watches
	left  int    // calls that it still meets; below 0: all
	met   int
}

// Rule is a fault that was ordered, or a watch.
type Rule struct {
	f *Front
	r *rule
}

// On matches calls of an operation whose form contains the text; an empty operation matches all.
func On(op, text string) func(Call) bool {
	return func(c Call) bool { return (op == "" || c.Op == op) && strings.Contains(c.Body, text) }
}

// Order has the next n calls that match meet the fault; n below 0: all until it ends. Of several rules that match the one
// ordered first is taken.
func (f *Front) Order(n int, fault Fault, match func(Call) bool) *Rule {
	return f.rule(&rule{match: match, fault: &fault, left: n})
}

// Watch counts the calls that match from now on, those that meet a fault included.
func (f *Front) Watch(match func(Call) bool) *Rule { return f.rule(&rule{match: match, left: -1}) }

func (f *Front) rule(r *rule) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return &Rule{f, r}
}

// End takes the fault or the watch away.
func (r *Rule) End() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.rules = slices.DeleteFunc(r.f.rules, func(x *rule) bool { return x == r.r })
}

// Met is how many calls it met so far.
func (r *Rule) Met() int {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.r.met
}

// Throttle lets an operation through at a rate (calls per second by the front's clock) after a burst, and answers
// RequestLimitExceeded to the rest; a burst of 0 ends it.
func (f *Front) Throttle(op string, perSecond float64, burst int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if burst <= 0 {
		delete(f.buckets, op)
		return
	}
	f.buckets[op] = rate.NewLimiter(rate.Limit(perSecond), burst)
}

// take counts a call and answers the fault that it meets. The lock is held.
func (f *Front) take(c Call) *Fault {
	f.calls[c.Op]++
	var out *Fault
	for _, r := range f.rules {
		if r.left == 0 || !r.match(c) || r.fault != nil && out != nil {
			continue
		}
		r.met++
		if r.fault != nil {
			r.left = max(r.left-1, -1)
			out = r.fault
		}
	}
	if b := f.buckets[c.Op]; out == nil && b != nil && !b.AllowN(f.opts.Now(), 1) {
		t := Throttled
		out = &t
	}
	return out
}
