package moto

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Call is one request.
type Call struct {
	Op   string // UpdateItem, CreateFleet, ...
	Body string
}

// Fault is what happens to a call instead of its answer.
type Fault struct {
	// Status and Code answer in place of moto, which then does no work.
	Status int
	Code   string
	// Cut closes the connection without an answer; After lets moto do the work first.
	Cut, After bool
	// Garbage answers half of the body that moto answered.
	Garbage bool
}

// Faults that AWS is known for.
var (
	Throttled   = Fault{Status: http.StatusBadRequest, Code: "ThrottlingException"}
	Overloaded  = Fault{Status: http.StatusBadRequest, Code: "ProvisionedThroughputExceededException"}
	Broken      = Fault{Status: http.StatusInternalServerError, Code: "InternalServerError"}
	Unavailable = Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}
	Denied      = Fault{Status: http.StatusBadRequest, Code: "AccessDeniedException"}
	Expired     = Fault{Status: http.StatusBadRequest, Code: "ExpiredTokenException"}
	CutBefore   = Fault{Cut: true}
	CutAfter    = Fault{Cut: true, After: true}
	HalfAnswer  = Fault{Garbage: true, After: true}
)

// Proxy hands requests to moto one at a time and does to them what its rules say.
type Proxy struct {
	back http.Handler

	one sync.Mutex // held while moto works; SQS's long polls excepted

	mu      sync.Mutex // guards all below
	rules   []*rule
	watches []*rule
}

type rule struct {
	match func(Call) bool
	fault Fault
	left  int // calls that it still meets; below 0: all
	met   int
}

// NewProxy makes one for a server.
func NewProxy(target *url.URL) *Proxy {
	back := httputil.NewSingleHostReverseProxy(target)
	back.Transport = &http.Transport{DisableKeepAlives: true} // moto closes each connection
	return &Proxy{back: back}
}

// Rule is a fault that was ordered, or a watch.
type Rule struct {
	p *Proxy
	r *rule
}

// Order has the next n calls that match meet the fault; n below 0: all until it ends.
// Of several rules that match the one ordered first is taken.
func (p *Proxy) Order(n int, f Fault, match func(Call) bool) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &rule{match: match, fault: f, left: n}
	p.rules = append(p.rules, r)
	return &Rule{p, r}
}

// End takes the fault or the watch away.
func (r *Rule) End() {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.rules = slices.DeleteFunc(r.p.rules, func(x *rule) bool { return x == r.r })
	r.p.watches = slices.DeleteFunc(r.p.watches, func(x *rule) bool { return x == r.r })
}

// Met is how many calls it met so far.
func (r *Rule) Met() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.r.met
}

// On matches calls of an operation whose body contains the text, such as a table's
// name; an empty operation matches all.
func On(op, text string) func(Call) bool {
	return func(c Call) bool { return (op == "" || c.Op == op) && strings.Contains(c.Body, text) }
}

// Watch counts the calls that match from now on, those that meet a fault included.
func (p *Proxy) Watch(match func(Call) bool) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &rule{match: match, left: -1}
	p.watches = append(p.watches, r)
	return &Rule{p, r}
}

// take counts the call and answers the fault that it meets.
func (p *Proxy) take(c Call) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watches {
		if w.match(c) {
			w.met++
		}
	}
	for _, r := range p.rules {
		if r.left != 0 && r.match(c) {
			r.left, r.met = max(r.left-1, -1), r.met+1
			f := r.fault
			return &f
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	c := Call{Op: operation(r, body), Body: string(body)}
	f := p.take(c)
	if f != nil && f.Status != 0 {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(f.Status)
		fmt.Fprintf(w, `{"__type":"com.amazonaws#%s","message":"ordered by a test"}`, f.Code)
		return
	}
	if f != nil && f.Cut && !f.After {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if c.Op != "ReceiveMessage" {
		p.one.Lock()
		defer p.one.Unlock()
	}
	if f == nil {
		p.back.ServeHTTP(w, r)
		return
	}
	held := &recorder{header: http.Header{}}
	p.back.ServeHTTP(held, r)
	if f.Garbage {
		half := held.body.Bytes()[:held.body.Len()/2]
		w.Header().Set("Content-Type", held.header.Get("Content-Type"))
		w.WriteHeader(held.status)
		_, _ = w.Write(half) // whoever is gone needs no answer
		return
	}
	panic(http.ErrAbortHandler)
}

// recorder keeps an answer that the client will not see whole.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// operation is told by a header in AWS's JSON protocols, by a field of the form in its
// query protocols.
func operation(r *http.Request, body []byte) string {
	if _, op, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return op
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return form.Get("Action")
}
