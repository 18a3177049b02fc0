package kube

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/execute"
)

// EventOptions say how Kubernetes events are written. Zero values mean the default
// written beside each.
type EventOptions struct {
	// Source is the component that events name: karpenter, which is what dashboards
	// and alerts of people who move look for.
	Source string
	// Instance names this process.
	Instance string
	// PerObject is how many events one object may have at once; one more is allowed
	// every Refill. 25 and 30 s.
	PerObject int
	Refill    time.Duration
	// Suppressed hears of each event that is not written: why is "duplicate" or "rate".
	Suppressed func(reason, why string)
}

// quiet is for how long an equal event is not written again.
const quiet = 2 * time.Minute

// quietBy are the reasons with another time.
var quietBy = map[string]time.Duration{
	"FailedScheduling":          5 * time.Minute,
	"Unconsolidatable":          15 * time.Minute,
	"NodeRepairBlocked":         15 * time.Minute,
	"NoCompatibleInstanceTypes": time.Minute,
}

const maxEventMessage = 1024 // bytes; the server refuses longer notes

// recorder decides which events are written.
type recorder struct {
	opts EventOptions
	now  func() time.Time

	mu      sync.Mutex
	written map[eventKey]time.Time // until when an equal event is a duplicate
	buckets map[execute.ObjectRef]*bucket
	swept   time.Time
	serial  uint64
}

type eventKey struct {
	object          execute.ObjectRef
	reason, message string
}

type bucket struct {
	left float64
	at   time.Time
}

func newRecorder(o EventOptions, now func() time.Time) *recorder {
	if o.Source == "" {
		o.Source = "karpenter"
	}
	if o.PerObject == 0 {
		o.PerObject = 25
	}
	if o.Refill == 0 {
		o.Refill = 30 * time.Second
	}
	if o.Suppressed == nil {
		o.Suppressed = func(string, string) {}
	}
	return &recorder{opts: o, now: now, written: map[eventKey]time.Time{}, buckets: map[execute.ObjectRef]*bucket{}}
}

func (r *recorder) admit(e execute.Event) bool {
	why := r.suppress(e)
	if why != "" {
		r.opts.Suppressed(e.Reason, why)
	}
	return why == ""
}

func (r *recorder) suppress(e execute.Event) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	key := eventKey{e.Object, e.Reason, e.Message}
	if until, ok := r.written[key]; ok && now.Before(until) {
		return "duplicate"
	}
	b := r.buckets[e.Object]
	if b == nil {
		b = &bucket{left: float64(r.opts.PerObject), at: now}
		r.buckets[e.Object] = b
	}
	b.left = min(b.left+float64(now.Sub(b.at))/float64(r.opts.Refill), float64(r.opts.PerObject))
	b.at = now
	if b.left < 1 {
		return "rate"
	}
	b.left--
	during := quiet
	if d, ok := quietBy[e.Reason]; ok {
		during = d
	}
	r.written[key] = now.Add(during)
	return ""
}

// failed forgets an event that could not be written, so that it may be tried again.
func (r *recorder) failed(e execute.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, eventKey{e.Object, e.Reason, e.Message})
}

// sweep forgets what no longer matters, once a minute.
func (r *recorder) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Minute {
		return
	}
	r.swept = now
	for k, until := range r.written {
		if !now.Before(until) {
			delete(r.written, k)
		}
	}
	full := time.Duration(r.opts.PerObject) * r.opts.Refill
	for k, b := range r.buckets {
		if now.Sub(b.at) > full {
			delete(r.buckets, k)
		}
	}
}

var eventAPIVersion = map[string]string{
	keys.KindNodePool: apiv1.GroupVersion.String(), keys.KindNodeClaim: apiv1.GroupVersion.String(),
	keys.KindEC2NodeClass: keys.GroupAWS + "/v1", "Node": "v1", "Pod": "v1",
}

// object is the event as the server stores it. Events of objects without a namespace
// are in the default one.
func (r *recorder) object(e execute.Event) *corev1.Event {
	r.mu.Lock()
	r.serial++
	serial := r.serial
	r.mu.Unlock()
	now := r.now()
	ns := e.Object.Namespace
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	message := e.Message
	if len(message) > maxEventMessage {
		message = strings.ToValidUTF8(message[:maxEventMessage-3], "") + "..."
	}
	uid := e.Object.UID
	if uid == "" && e.Object.Kind == "Node" {
		uid = e.Object.Name // kubectl describe looks for node events by this
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("%s.%x.%x", eventName(e.Object.Name), now.UnixNano(), serial)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: eventAPIVersion[e.Object.Kind], Kind: e.Object.Kind, Namespace: e.Object.Namespace, Name: e.Object.Name, UID: types.UID(uid),
		},
		Reason: e.Reason, Message: message, Type: kind, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source:              corev1.EventSource{Component: r.opts.Source},
		ReportingController: r.opts.Source, ReportingInstance: r.opts.Instance,
	}
}

// eventName cuts a name so that the event's own name stays legal.
func eventName(name string) string {
	const most = 200
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	return name
}
