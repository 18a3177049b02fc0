package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/harness"
)

// reclaims takes machines away from under the workload web.
type reclaims struct {
	*fleet
	ec2   *sim.Client
	fn    *function
	least int // ready pods that the budget wants
}

func (f *fleet) reclaims(ec2 *sim.Client, fn *function, least int) *reclaims {
	return &reclaims{fleet: f, ec2: ec2, fn: fn, least: least}
}

// reclaim says who hears of it and what must come of it.
type reclaim struct {
	lambda, scaler bool // who hears
	secret         bool // EC2 takes nothing: there is only an event, for the function
	replaced       bool // a machine is bought
	unrecorded     bool // the function may say that it could not record the notice
}

// fullest is the node with the most pods of web.
func (r *reclaims) fullest() (node, instance, claim string) {
	r.t.Helper()
	on := map[string]int{}
	for _, n := range r.mustReady("web") {
		if on[n]++; on[n] > on[node] || on[n] == on[node] && n < node {
			node = n
		}
	}
	instance, claim = instanceOfNode(r.t, r.ControlPlane, node)
	return node, instance, claim
}

// take takes the machine of a node, and holds the promise: the node is cordoned and replaced, every pod runs elsewhere before
// the machine goes, and the budget is kept in every state of the pods that the API server shows.
func (r *reclaims) take(name, node string, replicas int, how reclaim) {
	r.t.Helper()
	instance, _ := instanceOfNode(r.t, r.ControlPlane, node)
	seen := r.watch(node)
	start := time.Now()
	body := spotEvent("e-"+instance, instance)
	if how.scaler {
		body = r.announced(instance)
	}
	if how.lambda {
		got := r.cordonsInTime(name, body, how.scaler && how.replaced)
		switch {
		case how.unrecorded && got.ErrorMessage != "":
			r.t.Logf("%s: the function said %s", name, got.ErrorMessage)
		case got.ErrorMessage != "" || len(got.Outcomes) != 1 || !got.Outcomes[0].Done || got.Outcomes[0].Action != interrupt.Drain:
			r.t.Errorf("%s: the function answered %+v", name, got)
		}
	}
	r.allOn(replicas, node)
	took := time.Since(start)
	seen.stop()
	if took > event.SpotNotice {
		r.t.Errorf("%s: all pods ran elsewhere after %v; the machine goes after %v", name, took, event.SpotNotice)
	}
	if seen.cordoned.IsZero() {
		r.t.Errorf("%s: nobody saw node %s cordoned", name, node)
	}
	if seen.least < r.least {
		r.t.Errorf("%s: %d ready pods at a time, the budget wants %d", name, seen.least, r.least)
	}
	if how.replaced && (seen.claims == 0 || seen.bought.After(seen.evicted)) {
		r.t.Errorf("%s: %d claims, the first after %v; the last pod left after %v", name, seen.claims, seen.bought.Sub(start), seen.evicted.Sub(start))
	}
	if !how.replaced && seen.claims > 0 {
		r.t.Errorf("%s: %d claims were made", name, seen.claims)
	}
	r.t.Logf("%s: cordoned after %v, machine asked for after %v, last pod asked to leave after %v, all elsewhere after %v, %d ready at least", name,
		seen.cordoned.Sub(start).Round(time.Millisecond), max(0, seen.bought.Sub(start).Round(time.Millisecond)), seen.evicted.Sub(start).Round(time.Millisecond), took.Round(time.Millisecond), seen.least)
}

// cordonWithin is the promise of the function: from the start of an invocation to the cordon.
const cordonWithin = time.Second

// cordonsInTime invokes the function and holds what it reports of its cordon against the promise. A machine that is so busy
// that the API server answers slowly gets as much more as ten answers take. raced says that the scaler may have cordoned first,
// so that the function has nothing to report.
func (r *reclaims) cordonsInTime(name, body string, raced bool) answer {
	r.t.Helper()
	before := len(r.fn.cordons())
	slow := r.roundTrip()
	got := r.fn.mustInvoke(body)
	slow = max(slow, r.roundTrip())
	if !raced { // its output comes by another way than its answer
		harness.Eventually(r.t, name+": the function reports a cordon", patience, func(context.Context) error {
			if len(r.fn.cordons()) == before {
				return errors.New("none yet")
			}
			return nil
		})
	}
	limit := cordonWithin + 10*slow
	for _, took := range r.fn.cordons()[before:] {
		if took > limit {
			r.t.Errorf("%s: cordoned %v after the event came, promised are %v", name, took, limit)
		}
		r.t.Logf("%s: the function cordoned after %v of %v", name, took, limit)
	}
	return got
}

// roundTrip is how long the API server takes to answer, the slowest of three times.
func (r *reclaims) roundTrip() (slowest time.Duration) {
	r.t.Helper()
	for range 3 {
		start := time.Now()
		if _, err := r.Client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
			r.t.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
	}
	return slowest
}

// announced has EC2 take the machine, and is the event that it sends.
func (r *reclaims) announced(instance string) string {
	r.t.Helper()
	before, err := r.ec2.Events(r.t.Context(), 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var last int64
	for _, e := range before {
		last = max(last, e.Seq)
	}
	if err := r.ec2.Reclaim(r.t.Context(), instance); err != nil {
		r.t.Fatal(err)
	}
	events, err := r.ec2.Events(r.t.Context(), last, patience)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(string(e.JSON), "EC2 Spot Instance Interruption Warning") && strings.Contains(string(e.JSON), instance) {
			return string(e.JSON)
		}
	}
	r.t.Fatalf("EC2 announced nothing: %d events", len(events))
	return ""
}

// sight is what the API server showed.
type sight struct {
	stop func()

	mu                        sync.Mutex // guards all below until stop has returned
	cordoned, bought, evicted time.Time  // of the node, the first claim, the last pod asked to leave it
	claims, least             int        // made since; ready pods at the least
	ready                     map[string]bool
}

// watch looks at every change of the pods of web, of the node and of the claims.
func (r *reclaims) watch(node string) *sight {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	s := &sight{ready: map[string]bool{}, least: 1 << 30}
	var ended sync.WaitGroup
	s.stop = func() { cancel(); ended.Wait() }
	r.t.Cleanup(s.stop)
	follow := func(w watch.Interface, err error, take func(watch.Event)) {
		if err != nil {
			r.t.Fatal(err)
		}
		ended.Go(func() {
			defer w.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case e, ok := <-w.ResultChan():
					if !ok || e.Type == watch.Error {
						r.t.Errorf("a watch ended: %v", e.Object)
						return
					}
					s.mu.Lock()
					take(e)
					s.mu.Unlock()
				}
			}
		})
	}
	pods := r.Client.CoreV1().Pods(r.ns)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		s.pod(&list.Items[i], node, false)
	}
	s.least = len(s.ready)
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app=web", ResourceVersion: list.ResourceVersion})
	follow(w, err, func(e watch.Event) {
		if p, ok := e.Object.(*corev1.Pod); ok {
			s.pod(p, node, e.Type == watch.Deleted)
		}
	})
	w, err = r.Client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	follow(w, err, func(e watch.Event) {
		n, ok := e.Object.(*corev1.Node)
		if ok && s.cordoned.IsZero() && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == model.TaintDisrupted }) {
			s.cordoned = time.Now()
		}
	})
	claims := r.Dynamic.Resource(v1.NodeClaims)
	known, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	w, err = claims.Watch(ctx, metav1.ListOptions{ResourceVersion: known.GetResourceVersion()})
	follow(w, err, func(e watch.Event) {
		if e.Type != watch.Added {
			return
		}
		if s.claims++; s.claims == 1 {
			s.bought = time.Now()
		}
	})
	return s
}

func (s *sight) pod(p *corev1.Pod, node string, gone bool) {
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	if uid := string(p.UID); ready && p.DeletionTimestamp == nil && !gone {
		s.ready[uid] = true
	} else {
		if s.ready[uid] && p.Spec.NodeName == node {
			s.evicted = time.Now()
		}
		delete(s.ready, uid)
		s.least = min(s.least, len(s.ready))
	}
}
