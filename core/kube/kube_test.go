package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestEventsAreNotRepeated(t *testing.T) {
	t.Parallel()
	now := t0
	suppressed := map[string]int{}
	r := newRecorder(EventOptions{PerObject: 3, Refill: 10 * time.Minute, Suppressed: func(_, why string) { suppressed[why]++ }}, func() time.Time { return now })
	e := execute.Event{Object: execute.ObjectRef{Kind: "Pod", Name: "a"}, Reason: "Nominated", Message: "m"}
	steps := []struct {
		after   time.Duration
		message string
		want    bool
	}{
		{0, "m", true}, {time.Minute, "m", false}, {time.Minute, "m", true}, {0, "other", true},
		{0, "one too many", false}, {10 * time.Minute, "one too many", true}, {0, "again too many", false},
	}
	for i, s := range steps {
		now = now.Add(s.after)
		e.Message = s.message
		if got := r.admit(e); got != s.want {
			t.Errorf("step %d: got %t, want %t", i, got, s.want)
		}
	}
	e.Object.Name = "b"
	if !r.admit(e) {
		t.Error("each object has its own share")
	}
	if d := cmp.Diff(map[string]int{"duplicate": 1, "rate": 2}, suppressed); d != "" {
		t.Error(d)
	}
	now = now.Add(24 * time.Hour)
	e.Object.Name = "c"
	r.admit(e)
	if len(r.written) != 1 || len(r.buckets) != 1 {
		t.Errorf("old entries stay: %d, %d", len(r.written), len(r.buckets))
	}
}

func TestEventThatFailedMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRecorder(EventOptions{}, func() time.Time { return t0 })
	e := execute.Event{Object: execute.ObjectRef{Kind: "Node", Name: "n"}, Reason: "FailedDraining"}
	if !r.admit(e) || r.admit(e) {
		t.Error("the second one is a duplicate")
	}
	r.failed(e)
	if !r.admit(e) {
		t.Error("it was never written")
	}
}

func TestEventObject(t *testing.T) {
	t.Parallel()
	r := newRecorder(EventOptions{Instance: "host-1"}, func() time.Time { return t0 })
	o := r.object(execute.Event{Object: execute.ObjectRef{Kind: "Node", Name: strings.Repeat("n", 250)}, Warning: true, Reason: "R", Message: strings.Repeat("é", 900)})
	if o.Namespace != "default" || o.Type != "Warning" || len(o.Message) > 1024 || !strings.HasSuffix(o.Message, "...") || len(o.Name) > 253 ||
		o.Source.Component != "karpenter" || o.ReportingInstance != "host-1" || string(o.InvolvedObject.UID) != o.InvolvedObject.Name || o.InvolvedObject.APIVersion != "v1" {
		t.Errorf("%+v", o)
	}
	if again := r.object(execute.Event{Object: execute.ObjectRef{Kind: "Node", Name: "n"}}); again.Name == o.Name {
		t.Error("names must differ")
	}
}

func TestTaints(t *testing.T) {
	t.Parallel()
	have := []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}}
	got, changed := taints(have, []model.Taint{{Key: "a", Value: "2", Effect: model.NoSchedule}, {Key: "a", Effect: model.NoExecute}}, []model.Taint{{Key: "b", Effect: model.NoExecute}, {Key: "b", Effect: model.NoSchedule}})
	want := []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}}
	if d := cmp.Diff(want, got); d != "" || !changed {
		t.Error(d, changed)
	}
	if _, changed := taints(have, []model.Taint{{Key: "b", Effect: model.NoExecute}}, nil); changed {
		t.Error("it is there already")
	}
	if have[0].Value != "1" || len(have) != 2 {
		t.Error("the input was changed")
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	k := &Client{now: func() time.Time { return t0 }}
	old := metav1.NewTime(t0.Add(-time.Hour))
	have := []metav1.Condition{
		{Type: "Launched", Status: "True", Reason: "Launched", LastTransitionTime: old, ObservedGeneration: 1},
		{Type: "Registered", Status: "Unknown", Reason: "NodeNotFound", LastTransitionTime: old, ObservedGeneration: 1},
		{Type: "Drifted", Status: "True", Reason: "x", LastTransitionTime: old, ObservedGeneration: 1},
	}
	got, changed := k.conditions(have, []model.Condition{
		{Type: "Launched", Status: "True", Reason: "Launched", Since: t0}, // the same: nothing moves
		{Type: "Registered", Status: "True", Since: t0},                   // changes, and needs a reason
		{Type: "Ready", Status: "Unknown", Reason: "Waiting"},             // new, without a time
	}, []string{"Drifted"}, 1)
	want := []metav1.Condition{
		have[0],
		{Type: "Registered", Status: "True", Reason: "Registered", LastTransitionTime: metav1.NewTime(t0), ObservedGeneration: 1},
		{Type: "Ready", Status: "Unknown", Reason: "Waiting", LastTransitionTime: metav1.NewTime(t0), ObservedGeneration: 1},
	}
	if d := cmp.Diff(want, got); d != "" || !changed {
		t.Error(d, changed)
	}
	if _, changed := k.conditions(want, []model.Condition{{Type: "Ready", Status: "Unknown", Reason: "Waiting", Since: t0.Add(time.Minute)}}, nil, 1); changed {
		t.Error("another time alone is no change")
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	have := &metav1.ObjectMeta{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"n": "1", "m": "2"}, Finalizers: []string{"x", "y"}}
	got := metadata(have, map[string]string{"b": "2"}, map[string]string{"n": "", "k": "3"}, []string{"z", "y"}, []string{"x"})
	want := map[string]any{"labels": map[string]any{"b": "2"}, "annotations": map[string]any{"n": nil, "k": "3"}, "finalizers": []string{"y", "z"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := metadata(have, map[string]string{"a": "1"}, map[string]string{"gone": ""}, []string{"x"}, []string{"q"}); len(got) != 0 {
		t.Errorf("nothing changes, got %v", got)
	}
}

func TestPortErrors(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err, want error
		again     bool
	}{
		{apierrors.NewNotFound(gr, "a"), execute.ErrNotFound, false},
		{apierrors.NewConflict(gr, "a", fmt.Errorf("uid")), execute.ErrConflict, false},
		{apierrors.NewAlreadyExists(gr, "a"), execute.ErrConflict, false},
		{apierrors.NewBadRequest("a"), execute.ErrInvalid, false},
		{apierrors.NewForbidden(gr, "a", nil), nil, false},
		{apierrors.NewTooManyRequests("busy", 1), nil, true},
	} {
		got := portError("do", tt.err)
		for _, e := range []error{execute.ErrNotFound, execute.ErrConflict, execute.ErrInvalid} {
			if is := strings.Contains(got.Error(), e.Error()); is != errors.Is(tt.want, e) {
				t.Errorf("%v: is %v: %t", tt.err, e, is)
			}
		}
		if Transient(got) != tt.again {
			t.Errorf("%v: transient %t", got, !tt.again)
		}
	}
	if portError("do", nil) != nil || Transient(nil) {
		t.Error("no error is no error")
	}
}

// sunk records what a sink hears.
type sunk struct{ changes []cluster.Change }

func (s *sunk) take(c cluster.Change) { s.changes = append(s.changes, c) }

func daemonPod(name string, created time.Time, cpu int64) *model.Pod {
	return &model.Pod{Namespace: "ns", Name: name, Created: created, Owner: model.Owner{Kind: "DaemonSet", Name: "d"}, Requests: resource.New(cpu, 0, 1, 0)}
}

func TestNewestPodShowsWhatADaemonTakes(t *testing.T) {
	t.Parallel()
	var d daemons
	d.init()
	var s sunk
	ds := &model.DaemonSet{Namespace: "ns", Name: "d", Pod: daemonPod("d", t0, 100)}
	d.pod(daemonPod("early", t0, 200), s.take) // before the set is known
	d.set(ds, s.take)
	d.pod(daemonPod("late", t0.Add(time.Hour), 300), s.take)
	d.pod(daemonPod("same", t0.Add(2*time.Hour), 300), s.take) // nothing new
	d.pod(daemonPod("old", t0.Add(-time.Hour), 900), s.take)
	var got []int64
	for _, c := range s.changes {
		got = append(got, c.(cluster.UpsertDaemonSet).DaemonSet.Pod.Requests.Base[resource.CPU])
	}
	if d := cmp.Diff([]int64{200, 300}, got); d != "" {
		t.Error(d)
	}
	if ds.Pod.Requests.Base[resource.CPU] != 100 {
		t.Error("what was handed over was changed")
	}
	d.forget(&kind{name: "DaemonSet"}, &entry{namespace: "ns", name: "d"})
	if len(d.sets) != 0 || len(d.samples) != 0 {
		t.Error("a deleted set is remembered")
	}
}

func TestHandlerTells(t *testing.T) {
	t.Parallel()
	var s sunk
	var problems []string
	w := &Watcher{sink: s.take, opts: WatchOptions{OnError: func(kind, name string, err error) { problems = append(problems, kind+" "+name) }}, broken: map[string]time.Time{}}
	w.daemons.init()
	w.intern.init()
	k := &kind{name: "NodeClaim", upsert: upsertClaim, gone: func(_, name string) cluster.Change { return cluster.DeleteClaim{Name: name} }}
	h := handler{w, k}
	claim := func(version, op string) any {
		o := &apiv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", ResourceVersion: version}}
		o.Spec.Requirements = []apiv1.Requirement{{Key: "a", Operator: apiv1.Operator(op)}}
		e, err := w.transform(k)(o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := claim("1", "Exists")
	if again, err := w.transform(k)(first); err != nil || again != first {
		t.Error("what was converted stays as it is")
	}
	h.OnAdd(first, true)
	h.OnUpdate(first, claim("1", "Exists")) // listed again
	h.OnUpdate(first, claim("2", "Exists"))
	h.OnUpdate(first, claim("3", "Nonsense"))
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "c", Obj: first})
	var got []string
	for _, c := range s.changes {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", c), "cluster."))
	}
	if d := cmp.Diff([]string{"UpsertClaim", "UpsertClaim", "DeleteClaim", "DeleteClaim"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"NodeClaim c"}, problems); d != "" {
		t.Error(d)
	}
}

func TestBehind(t *testing.T) {
	t.Parallel()
	now := t0
	w := &Watcher{opts: WatchOptions{OnError: func(string, string, error) {}, Now: func() time.Time { return now }}, broken: map[string]time.Time{}}
	pods, nodes := &kind{name: "Pod"}, &kind{name: "Node"}
	ctx := t.Context()
	w.reached(ctx, pods, fmt.Errorf("refused"))
	now = now.Add(10 * time.Second)
	w.reached(ctx, nodes, fmt.Errorf("refused"))
	w.reached(ctx, pods, fmt.Errorf("refused"))
	if got := w.Behind(); got != 10*time.Second {
		t.Errorf("got %s", got)
	}
	w.reached(ctx, pods, nil)
	if got := w.Behind(); got != 0 {
		t.Errorf("got %s", got)
	}
	now = now.Add(time.Second)
	if got := w.Behind(); got != time.Second {
		t.Errorf("got %s", got)
	}
}

func TestEqualPartsOfPodsAreShared(t *testing.T) {
	t.Parallel()
	var i intern
	i.init()
	seconds := int64(300)
	pod := func() *model.Pod {
		return &model.Pod{Labels: map[string]string{"a": "b", "c": "d"}, Tolerations: []model.Toleration{{Key: "k", Seconds: &seconds}}}
	}
	a, b := pod(), pod()
	i.pod(a)
	i.pod(b)
	if &a.Tolerations[0] != &b.Tolerations[0] {
		t.Error("tolerations")
	}
	a.Labels["new"] = "x"
	if b.Labels["new"] != "x" {
		t.Error("labels")
	}
}
