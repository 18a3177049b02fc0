package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/require"
)

// Names that the objects of volumes use and that k8s.io/api does not export.
const (
	annotationBindCompleted = "pv.kubernetes.io/bind-completed"
	annotationDefaultClass  = "storageclass.kubernetes.io/is-default-class"
	annotationDefaultOld    = "storageclass.beta.kubernetes.io/is-default-class"
	inTreeEBS               = "kubernetes.io/aws-ebs"
	noProvisioner           = "kubernetes.io/no-provisioner"
)

// PodVolume is a volume of a pod that is attached to its node.
type PodVolume struct {
	Name string // in the pod
	// Claim is the PersistentVolumeClaim in the pod's namespace. Empty: <pod>-<volume>
	// where Ephemeral is set, else an EBS volume that the pod names by itself.
	Claim     string
	Ephemeral bool    // the claim is the pod's own
	Made      bool    // a controller makes the claim where there is none yet
	Class     *string // storage class of a claim that is to be made; nil = the default one
}

// ClaimName is the claim of the volume in a pod of that name; empty = it has none.
func (v PodVolume) ClaimName(pod string) string {
	if v.Claim == "" && v.Ephemeral {
		return pod + "-" + v.Name
	}
	return v.Claim
}

// podVolumes lists the volumes of a spec that storage decides about.
func podVolumes(spec *corev1.PodSpec) []PodVolume {
	var out []PodVolume
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, PodVolume{Name: v.Name, Claim: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			p := PodVolume{Name: v.Name, Ephemeral: true, Made: true}
			if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
				p.Class = t.Spec.StorageClassName
			}
			out = append(out, p)
		case v.AWSElasticBlockStore != nil:
			out = append(out, PodVolume{Name: v.Name})
		}
	}
	return out
}

// VolumeClaim is what planning needs of a PersistentVolumeClaim.
type VolumeClaim struct {
	Volume   string  // PersistentVolume that it names, or empty
	Class    *string // nil = the default one, empty = none
	Bound    bool    // binding is complete
	Lost     bool
	Deleting bool
	Pod      string // name of the pod that owns it, or empty
}

// Volume is what planning needs of a PersistentVolume.
type Volume struct {
	Driver   string        // CSI driver that attaches it; empty = nothing does, or nothing counts
	Terms    []require.Set // where it can be reached, any one of these; nil = anywhere
	Nowhere  string        // why it can be reached from no node, or empty
	Deleting bool
}

// VolumeClass is what planning needs of a StorageClass.
type VolumeClass struct {
	Driver    string
	Immediate bool          // volumes are made before pods are placed
	Terms     []require.Set // where volumes can be made, any one of these; nil = anywhere
	Default   bool
	Created   time.Time
}

// PersistentVolumeClaim is a claim as planning sees it.
func PersistentVolumeClaim(in *corev1.PersistentVolumeClaim) *VolumeClaim {
	_, bound := in.Annotations[annotationBindCompleted]
	c := &VolumeClaim{Volume: in.Spec.VolumeName, Class: in.Spec.StorageClassName, Bound: bound,
		Lost: in.Status.Phase == corev1.ClaimLost, Deleting: in.DeletionTimestamp != nil}
	if old, ok := in.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		c.Class = &old
	}
	if owner := metav1.GetControllerOf(in); owner != nil && owner.Kind == "Pod" {
		c.Pod = owner.Name
	}
	return c
}

// PersistentVolume is a volume as planning sees it. The labels that said where volumes
// are before they had node affinity count as well, for kube-scheduler keeps to them.
func PersistentVolume(in *corev1.PersistentVolume) *Volume {
	v := &Volume{Deleting: in.DeletionTimestamp != nil}
	v.affinity(in)
	v.labelled(in.Labels)
	return v
}

// labelled narrows a volume to the zone and region of its labels; several zones stand
// in one label, with two underscores between them.
func (v *Volume) labelled(have map[string]string) {
	var set require.Set
	for _, key := range []string{"failure-domain.beta.kubernetes.io/zone", model.LabelZone, "failure-domain.beta.kubernetes.io/region", model.LabelRegion} {
		if text, ok := have[key]; ok {
			if r, err := require.New(model.CanonicalKey(key), require.In, strings.Split(text, "__")...); err == nil {
				set = set.With(r)
			}
		}
	}
	if set.Len() == 0 || v.Nowhere != "" {
		return
	}
	if len(v.Terms) == 0 {
		v.Terms = []require.Set{{}}
	}
	if v.Terms = cross(v.Terms, []require.Set{set}); len(v.Terms) == 0 {
		v.Nowhere = "its labels name another zone than its node affinity"
	}
}

// affinity reads what attaches a volume, and its node affinity.
func (v *Volume) affinity(in *corev1.PersistentVolume) {
	switch s := &in.Spec; {
	case s.CSI != nil:
		v.Driver = s.CSI.Driver
	case s.AWSElasticBlockStore != nil:
		v.Driver = attach.EBS
	}
	if in.Spec.NodeAffinity == nil || in.Spec.NodeAffinity.Required == nil {
		return
	}
	// A volume on a machine's own disk names that machine; a pod of it may still be
	// planned for, as its other labels say.
	onHost := in.Spec.Local != nil || in.Spec.HostPath != nil
	anywhere := false
	for _, t := range in.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			continue // matches nothing
		}
		var c conjunction
		if len(t.MatchFields) > 0 {
			c.impossible = "its node affinity uses matchFields, which is not supported"
		}
		for _, e := range t.MatchExpressions {
			key := model.CanonicalKey(e.Key)
			if onHost && key == model.LabelHostname {
				continue
			}
			r, err := require.New(key, require.Operator(e.Operator), e.Values...)
			if err != nil {
				c.impossible = "its node affinity: " + err.Error()
				break
			}
			c.add(r)
		}
		switch {
		case c.impossible != "":
			v.Nowhere = c.impossible
		case c.set.Len() == 0:
			anywhere = true
		default:
			v.Terms = append(v.Terms, c.set)
		}
	}
	switch {
	case anywhere:
		v.Terms, v.Nowhere = nil, ""
	case len(v.Terms) > 0:
		v.Nowhere = ""
	case v.Nowhere == "":
		v.Nowhere = "its node affinity has no terms"
	}
}

// StorageClass is a class of volumes as planning sees it.
func StorageClass(in *storagev1.StorageClass) *VolumeClass {
	c := &VolumeClass{Driver: in.Provisioner, Created: in.CreationTimestamp.UTC(),
		Immediate: in.VolumeBindingMode == nil || *in.VolumeBindingMode == storagev1.VolumeBindingImmediate,
		Default:   in.Annotations[annotationDefaultClass] == "true" || in.Annotations[annotationDefaultOld] == "true"}
	switch c.Driver {
	case inTreeEBS:
		c.Driver = attach.EBS
	case noProvisioner:
		c.Driver = ""
	}
	for _, t := range in.AllowedTopologies {
		var set require.Set
		for _, e := range t.MatchLabelExpressions {
			r, err := require.New(model.CanonicalKey(e.Key), require.In, e.Values...)
			if err == nil { // the API server refuses expressions without values
				set = set.With(r)
			}
		}
		if set.Len() > 0 {
			c.Terms = append(c.Terms, set)
		}
	}
	return c
}

// CSINode is how many volumes may be attached to a node, by driver. It is not nil, for a
// node whose drivers have not registered is not one that nothing is known of.
func CSINode(in *storagev1.CSINode) map[string]int64 {
	out := map[string]int64{}
	for _, d := range in.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return out
}

// Volumes knows the storage of a cluster and says where the pods that use it can be. It
// is not safe for concurrent use.
type Volumes struct {
	claims  map[claimID]*VolumeClaim
	volumes map[string]*Volume
	classes map[string]*VolumeClass
	byDef   *string // name of the default class, nil = to be found; empty = none
	terms   map[string][]require.Set
}

type claimID struct{ namespace, name string }

// NewVolumes makes an empty one.
func NewVolumes() *Volumes {
	return &Volumes{claims: map[claimID]*VolumeClaim{}, volumes: map[string]*Volume{}, classes: map[string]*VolumeClass{}, terms: map[string][]require.Set{}}
}

// SetClaim takes in a claim; nil = there is none (any more).
func (s *Volumes) SetClaim(namespace, name string, c *VolumeClaim) {
	if c == nil {
		delete(s.claims, claimID{namespace, name})
		return
	}
	s.claims[claimID{namespace, name}] = c
}

// Claim is a claim that was taken in, or nil.
func (s *Volumes) Claim(namespace, name string) *VolumeClaim {
	return s.claims[claimID{namespace, name}]
}

// SetVolume takes in a volume; nil = there is none.
func (s *Volumes) SetVolume(name string, v *Volume) {
	if v == nil {
		delete(s.volumes, name)
		return
	}
	v.Terms = s.share(v.Terms)
	s.volumes[name] = v
}

// SetClass takes in a storage class; nil = there is none.
func (s *Volumes) SetClass(name string, c *VolumeClass) {
	s.byDef = nil
	if c == nil {
		delete(s.classes, name)
		return
	}
	s.classes[name] = c
}

// share makes equal places one: most volumes are in one of a few zones.
func (s *Volumes) share(terms []require.Set) []require.Set {
	if len(terms) == 0 {
		return nil
	}
	const most = 4096
	var b strings.Builder
	for _, t := range terms {
		b.WriteString(t.Key())
		b.WriteByte('|')
	}
	if have, ok := s.terms[b.String()]; ok {
		return have
	}
	if len(s.terms) >= most {
		clear(s.terms)
	}
	s.terms[b.String()] = terms
	return terms
}

// defaultClass is the newest class that is marked as the default one; ties go by name.
func (s *Volumes) defaultClass() string {
	if s.byDef == nil {
		best := ""
		for _, name := range sortedKeys(s.classes) {
			if c := s.classes[name]; c.Default && (best == "" || c.Created.After(s.classes[best].Created)) {
				best = name
			}
		}
		s.byDef = &best
	}
	return *s.byDef
}

// answer is what is known of one volume of a pod.
type answer struct {
	claim  string
	driver string
	terms  []require.Set
	bound  string // name of the volume that exists already
	why    string // why the pod cannot be placed, or empty
}

// look finds a volume of a pod.
func (s *Volumes) look(p *model.Pod, v PodVolume) answer {
	a := answer{claim: v.ClaimName(p.Name)}
	if a.claim == "" {
		return answer{driver: attach.EBS}
	}
	c := s.claims[claimID{p.Namespace, a.claim}]
	if c == nil && v.Made {
		c = &VolumeClaim{Class: v.Class, Pod: p.Name}
	}
	no := func(phrase, format string, args ...any) answer {
		a.why = fmt.Sprintf("%s: claim %s of volume %s %s", phrase, a.claim, v.Name, fmt.Sprintf(format, args...))
		return a
	}
	if c == nil {
		return no("claim missing", "does not exist")
	}
	pv := s.volumes[c.Volume]
	var class *VolumeClass
	name := ""
	switch {
	case pv != nil:
		a.driver = pv.Driver
	case c.Volume == "":
		if name = s.defaultClass(); c.Class != nil {
			name = *c.Class
		}
		if class = s.classes[name]; class != nil {
			a.driver = class.Driver
		}
	}
	switch {
	case c.Deleting:
		return no("claim is being deleted", "goes as soon as no pod uses it")
	case c.Lost:
		return no("claim lost its volume", "is bound to volume %s, which is gone", cmp.Or(c.Volume, "(none)"))
	case v.Ephemeral && p.Name != "" && c.Pod != p.Name:
		return no("claim of another", "was not made for this pod")
	case c.Volume != "" && !c.Bound:
		return no("claim not bound", "names volume %s, and binding is not complete (no annotation %s)", c.Volume, annotationBindCompleted)
	case c.Volume != "" && pv == nil:
		return no("volume missing", "is bound to volume %s, which does not exist", c.Volume)
	case c.Volume != "" && pv.Deleting:
		return no("volume is being deleted", "is bound to volume %s", c.Volume)
	case c.Volume != "" && pv.Nowhere != "":
		return no("volume out of reach", "is bound to volume %s: %s", c.Volume, pv.Nowhere)
	case c.Volume != "":
		a.bound, a.terms = c.Volume, pv.Terms
	case name == "":
		return no("claim not bound", "names no storage class, and there is no default one")
	case class == nil:
		return no("storage class missing", "asks for StorageClass %s, which does not exist", name)
	case class.Immediate:
		return no("claim not bound", "waits for its volume, which StorageClass %s makes before pods are placed (volumeBindingMode Immediate)", name)
	default:
		a.terms = class.Terms
	}
	return a
}

// maxPlaces bounds the combinations of places of one pod's volumes.
const maxPlaces = 256

// Place completes a pod with where its volumes let it be, the places for volumes that
// it takes of its node, and why it cannot be placed where that is so.
func (s *Volumes) Place(p *model.Pod, volumes []PodVolume) {
	if len(volumes) == 0 {
		return
	}
	p.Unsupported = slices.Clip(p.Unsupported) // shared with pods of the same spec
	p.Volumes = s.bound(p, volumes)
	no := func(why string) {
		p.Unsupported = append(p.Unsupported, model.Unsupported{Filter: model.FilterVolumes, Message: why})
	}
	places := []require.Set{{}}
	var narrow []answer // those that cannot be anywhere
	counted := map[string]bool{}
	failed, excess := false, false
	for _, v := range volumes {
		a := s.look(p, v)
		if a.driver != "" && (a.claim == "" || !counted[a.claim]) {
			counted[a.claim] = true
			name := attach.Resource(a.driver)
			p.Requests = p.Requests.With(name, p.Requests.Get(name)+1)
		}
		if a.why != "" {
			no(a.why)
			failed = true
			continue
		}
		if len(a.terms) > 0 && !excess {
			narrow = append(narrow, a)
			places = cross(places, a.terms)
			excess = len(places) > maxPlaces
		}
	}
	switch {
	case failed:
		return
	case excess:
		no(fmt.Sprintf("the volumes allow more than %d combinations of places", maxPlaces))
	case len(places) == 0:
		no(apart(narrow))
	case len(places) > 1 || places[0].Len() > 0:
		t := model.Topology{}
		if p.Topology != nil {
			t = *p.Topology
		}
		t.VolumeTerms = s.share(places)
		p.Topology = &t
	}
}

// bound names the volumes that exist already, sorted.
func (s *Volumes) bound(p *model.Pod, volumes []PodVolume) []string {
	var names []string
	for _, v := range volumes {
		c := s.claims[claimID{p.Namespace, v.ClaimName(p.Name)}]
		if c != nil && c.Volume != "" && !slices.Contains(names, c.Volume) {
			names = append(names, c.Volume)
		}
	}
	slices.Sort(names)
	return names
}

// cross is every place that is one of each list, without those that cannot be.
func cross(a, b []require.Set) []require.Set {
	var out []require.Set
	seen := map[string]bool{}
	for _, x := range a {
		for _, y := range b {
			c := conjunction{set: x}
			for _, r := range y.All() {
				c.add(r)
			}
			if k := c.set.Key(); c.impossible == "" && !seen[k] {
				seen[k] = true
				out = append(out, c.set)
			}
			if len(out) > maxPlaces {
				return out
			}
		}
	}
	return out
}

// apart says that volumes cannot be reached from one node, and where each is.
func apart(narrow []answer) string {
	var list []string
	exist := 0
	for _, a := range narrow {
		var at []string
		for _, t := range a.terms {
			where := t.String()
			if r, ok := t.Get(model.LabelZone); ok && r.Finite() {
				where = strings.Join(r.Values, "|")
			}
			at = append(at, where)
		}
		name := a.bound
		if name == "" {
			name = "new volume of claim " + a.claim
		} else {
			exist++
		}
		list = append(list, name+":"+strings.Join(at, "|"))
	}
	text := "no node reaches all volumes of the pod: " + strings.Join(list, ", ")
	if exist > 1 {
		text += "; a StorageClass with volumeBindingMode WaitForFirstConsumer makes volumes where the pod is"
	}
	return text
}
