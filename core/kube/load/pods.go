package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// specGroup is one pod spec, however many pods have it.
type specGroup struct {
	spec     *corev1.PodSpec
	problems []fieldProblem
	first    string // the first pod that has it, for messages
	pods     int
	shapes   map[shapeKey]*convert.Shape
}

// shapeKey is what a shape depends on besides the spec: the defaults of a namespace
// that has some, and whether the pod is a daemon.
type shapeKey struct {
	namespace string
	daemon    bool
	admit     bool
}

// podEntry is a pod as it was read, before admission.
type podEntry struct {
	pod    *model.Pod
	group  *specGroup
	live   *corev1.PodStatus // of a pod whose containers report amounts of their own
	stored bool              // was in an API server: no admission to come
	place  place
}

type podKey struct{ namespace, name string }

// podReader reads pods in pieces: equal specs, statuses and label sets are decoded
// once, by their bytes.
type podReader struct {
	entries  []podEntry
	byName   map[podKey]int32 // index into entries
	groups   map[string]*specGroup
	statuses map[string]*corev1.PodStatus
	labels   map[string]map[string]string
	strings  map[string]string
	slab     []model.Pod
}

func newPodReader() podReader {
	return podReader{
		byName: map[podKey]int32{}, groups: map[string]*specGroup{}, statuses: map[string]*corev1.PodStatus{},
		labels: map[string]map[string]string{}, strings: map[string]string{},
	}
}

// taken says whether another pod has the name already.
func (r *podReader) taken(p *model.Pod) bool {
	_, ok := r.byName[podKey{p.Namespace, p.Name}]
	return ok
}

// internMax is the size in bytes up to which a piece is worth keeping to find its equals.
const internMax = 4096

func (r *podReader) newPod() *model.Pod {
	const slab = 512
	if len(r.slab) == 0 {
		r.slab = make([]model.Pod, slab)
	}
	p := &r.slab[0]
	r.slab = r.slab[1:]
	return p
}

func (r *podReader) intern(s string) string {
	if have, ok := r.strings[s]; ok {
		return have
	}
	r.strings[s] = s
	return s
}

// read takes one pod. An error is broken syntax.
func (r *podReader) read(l *loader, p place, h *header) error {
	pod := r.newPod()
	if err := r.metadata(h.metadata, pod); err != nil {
		return podProblem(l, p, pod, "metadata", err)
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	id := identity{"Pod", pod.Namespace, pod.Name}
	if problem := checkName(pod.Namespace, pod.Name); problem != nil {
		l.fail(p, id.String(), problem.field, problem.msg)
		return nil
	}
	key := podKey{pod.Namespace, pod.Name}
	if at, ok := r.byName[key]; ok {
		l.fail(p, id.String(), "metadata.name", "is there twice: "+l.where(r.entries[at].place)+" has it already")
		return nil
	}
	e := podEntry{pod: pod, place: p, stored: pod.UID != ""}
	if pod.UID == "" {
		pod.UID = pod.ID()
	}
	var err error
	if e.group, err = r.spec(l, p, pod, h.spec); err != nil {
		return podProblem(l, p, pod, "spec", err)
	}
	if e.group == nil {
		return nil // noted already
	}
	status, err := r.status(h.status)
	if err != nil {
		return podProblem(l, p, pod, "status", err)
	}
	if status != nil {
		convert.Status(status, pod)
		if reportsAmounts(status) {
			e.live = status
		}
	}
	r.byName[key] = int32(len(r.entries))
	r.entries = append(r.entries, e)
	return nil
}

// podProblem notes what a decoder said about a piece of a pod.
func podProblem(l *loader, p place, pod *model.Pod, piece string, err error) error {
	if errors.Is(err, errSyntax) {
		return err
	}
	title := "Pod"
	if pod.Name != "" {
		title = identity{"Pod", pod.Namespace, pod.Name}.String()
	}
	var fp *fieldProblem
	if errors.As(err, &fp) {
		if fp.field != "" {
			piece += "." + fp.field
		}
		l.fail(p, title, piece, fp.msg)
		return nil
	}
	l.fail(p, title, piece, err.Error())
	return nil
}

func (r *podReader) metadata(b []byte, pod *model.Pod) error {
	if len(b) == 0 || string(b) == "null" {
		return &fieldProblem{"name", "is missing"}
	}
	if b[0] != '{' {
		return &fieldProblem{"", "expected an object, got " + short(b)}
	}
	generate := ""
	err := members(b, func(key string, v []byte) error {
		var err error
		switch key {
		case "name":
			pod.Name, err = fieldText(key, v)
		case "namespace":
			pod.Namespace, err = fieldText(key, v)
			pod.Namespace = r.intern(pod.Namespace)
		case "uid":
			pod.UID, err = fieldText(key, v)
		case "generateName":
			generate, err = fieldText(key, v)
		case "labels":
			pod.Labels, err = r.labelSet(key, v)
		case "annotations":
			pod.Annotations, err = r.annotations(key, v)
		case "creationTimestamp":
			var t *time.Time
			if t, err = fieldTime(key, v); t != nil {
				pod.Created = *t
			}
		case "deletionTimestamp":
			pod.Deleting, err = fieldTime(key, v)
		case "ownerReferences":
			pod.Owner, err = r.owner(key, v)
		default:
			if !json.Valid(v) {
				err = errSyntax
			}
		}
		return err
	})
	if pod.Name == "" && generate != "" {
		pod.Name = fmt.Sprintf("%s%d", generate, len(r.entries))
	}
	_, pod.Mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	pod.Mirror = pod.Mirror || pod.Owner.Kind == "Node"
	return err
}

func fieldTime(key string, v []byte) (*time.Time, error) {
	s, err := fieldText(key, v)
	if err != nil || s == "" {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, &fieldProblem{key, fmt.Sprintf("expected a time such as 2026-01-02T15:04:05Z, got %q", s)}
	}
	t = t.UTC()
	return &t, nil
}

func (r *podReader) stringMap(key string, v []byte) (map[string]string, error) {
	var m map[string]string
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(v, &m); err != nil {
		if !json.Valid(v) {
			return nil, errSyntax
		}
		return nil, &fieldProblem{key, "expected texts by name: " + err.Error()}
	}
	return m, nil
}

func (r *podReader) labelSet(key string, v []byte) (map[string]string, error) {
	if m, ok := r.labels[string(v)]; ok {
		return m, nil
	}
	m, err := r.stringMap(key, v)
	if err != nil {
		return nil, err
	}
	if problem := checkLabels(m); problem != "" {
		return nil, &fieldProblem{key, problem}
	}
	if len(v) <= internMax {
		r.labels[string(v)] = m
	}
	return m, nil
}

func (r *podReader) annotations(key string, v []byte) (map[string]string, error) {
	m, err := r.stringMap(key, v)
	for k := range m {
		if !convert.KeepAnnotation(k) {
			delete(m, k)
		}
	}
	if len(m) == 0 {
		m = nil
	}
	return m, err
}

func (r *podReader) owner(key string, v []byte) (model.Owner, error) {
	var refs []metav1.OwnerReference
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(v, &refs); err != nil {
		if !json.Valid(v) {
			return model.Owner{}, errSyntax
		}
		return model.Owner{}, &fieldProblem{key, err.Error()}
	}
	o := convert.Controller(&metav1.ObjectMeta{OwnerReferences: refs})
	return model.Owner{APIVersion: r.intern(o.APIVersion), Kind: r.intern(o.Kind), Name: r.intern(o.Name), UID: r.intern(o.UID)}, nil
}

// spec finds or makes the group of a spec; nil = it is wrong, and that is noted.
func (r *podReader) spec(l *loader, p place, pod *model.Pod, b []byte) (*specGroup, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, &fieldProblem{"", "expected an object with containers"}
	}
	b, err := r.withoutNode(pod, b)
	if err != nil {
		return nil, err
	}
	g, ok := r.groups[string(b)]
	if !ok {
		g = &specGroup{spec: &corev1.PodSpec{}, first: pod.ID(), shapes: map[shapeKey]*convert.Shape{}}
		unknown, err := sigsjson.UnmarshalStrict(b, g.spec)
		if err != nil {
			if !json.Valid(b) {
				return nil, errSyntax
			}
			field, msg := decodeProblem(b, err)
			return nil, &fieldProblem{field, msg}
		}
		for _, u := range unknown {
			l.warn("%s: Pod %s: spec: %s", l.where(p), pod.ID(), u)
		}
		g.problems = checkPodSpec("spec", g.spec)
		if len(b) <= internMax {
			r.groups[string(b)] = g
		}
	}
	g.pods++
	if len(g.problems) > 0 && g.pods == 1 {
		for _, pr := range g.problems {
			l.fail(p, identity{"Pod", pod.Namespace, pod.Name}.String(), pr.field, pr.msg)
		}
		return nil, nil
	}
	return g, nil
}

// withoutNode moves the name of the node from the spec to the pod: it is what specs of
// one workload differ in once its pods run.
func (r *podReader) withoutNode(pod *model.Pod, b []byte) ([]byte, error) {
	if !bytes.Contains(b, []byte(`"nodeName"`)) {
		return b, nil
	}
	var at []byte
	err := members(b, func(key string, v []byte) error {
		var err error
		if key == "nodeName" {
			at = v
			pod.NodeName, err = fieldText(key, v)
		}
		return err
	})
	if err != nil || pod.NodeName == "" {
		return b, err
	}
	pod.NodeName = r.intern(pod.NodeName)
	start := cap(b) - cap(at) // at is a piece of b
	out := make([]byte, 0, len(b))
	out = append(append(append(out, b[:start]...), `""`...), b[start+len(at):]...)
	return out, nil
}

func (r *podReader) status(b []byte) (*corev1.PodStatus, error) {
	if len(b) == 0 || string(b) == "null" || string(b) == "{}" {
		return nil, nil
	}
	if s, ok := r.statuses[string(b)]; ok {
		return s, nil
	}
	s := &corev1.PodStatus{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(b, s); err != nil {
		if !json.Valid(b) {
			return nil, errSyntax
		}
		field, msg := decodeProblem(b, err)
		return nil, &fieldProblem{field, msg}
	}
	if len(b) <= 512 && !bytes.Contains(b, []byte(`IP"`)) {
		r.statuses[string(b)] = s
	}
	return s, nil
}

// reportsAmounts says whether a status tells amounts that may differ from the spec's.
func reportsAmounts(s *corev1.PodStatus) bool {
	if s.Resources != nil || s.AllocatedResources != nil {
		return true
	}
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			if list[i].Resources != nil || list[i].AllocatedResources != nil {
				return true
			}
		}
	}
	return false
}

// shape applies the shape of an entry's spec to its pod, admission included. Errors
// are *convert.FieldError.
func (r *podReader) shape(e *podEntry, a *convert.Admission) (*convert.Shape, []string, error) {
	daemon := e.pod.Daemon()
	key := shapeKey{daemon: daemon, admit: !e.stored}
	if key.admit && len(a.LimitRanges[e.pod.Namespace]) > 0 {
		key.namespace = e.pod.Namespace
	}
	if s, ok := e.group.shapes[key]; ok && e.live == nil {
		return s, nil, nil
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.pod.Namespace, Name: e.pod.Name}, Spec: *e.group.spec.DeepCopy()}
	if e.pod.Owner.Kind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: e.pod.Owner.Kind, Name: e.pod.Owner.Name, Controller: &yes}}
	}
	if e.live != nil {
		p.Status = *e.live
	}
	var missing []string
	if key.admit {
		missing = a.Admit(p)
	} else { // what every API server did, whatever plug-ins it has: no limit without a request
		missing = (*convert.Admission)(nil).Admit(p)
	}
	s, err := convert.ShapeOf(p)
	if err != nil {
		return nil, nil, err
	}
	if e.live == nil {
		e.group.shapes[key] = s
	}
	return s, missing, nil
}
