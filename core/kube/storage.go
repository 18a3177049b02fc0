package kube

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// stored is news of an object that others depend on: it stays in this room. Value is
// nil where the object is gone.
type stored struct {
	cluster.Change // nil: it only makes the type one of the changes that entries hold
	kind           string
	namespace      string
	name           string
	value          any
}

// mounted is a pod with volumes, before it is known where they are.
type mounted struct {
	cluster.UpsertPod
	volumes []convert.PodVolume
}

// storageKinds are the kinds that say where volumes are and how many fit on a node. Of
// each object only what planning needs is kept.
func storageKinds(c *Clients) []*kind {
	core, storage := c.Core.CoreV1().RESTClient(), c.Core.StorageV1().RESTClient()
	keep := func(kind string, value func(obj any) any) func(any) (cluster.Change, error) {
		return func(obj any) (cluster.Change, error) {
			o := obj.(interface {
				GetNamespace() string
				GetName() string
			})
			return stored{kind: kind, namespace: o.GetNamespace(), name: o.GetName(), value: value(obj)}, nil
		}
	}
	gone := func(kind string) func(string, string) cluster.Change {
		return func(ns, name string) cluster.Change { return stored{kind: kind, namespace: ns, name: name} }
	}
	return []*kind{
		{name: "PersistentVolumeClaim", client: core, resource: "persistentvolumeclaims", example: &corev1.PersistentVolumeClaim{}, gone: gone("PersistentVolumeClaim"),
			upsert: keep("PersistentVolumeClaim", func(o any) any { return convert.PersistentVolumeClaim(o.(*corev1.PersistentVolumeClaim)) })},
		{name: "PersistentVolume", client: core, resource: "persistentvolumes", example: &corev1.PersistentVolume{}, gone: gone("PersistentVolume"),
			upsert: keep("PersistentVolume", func(o any) any { return convert.PersistentVolume(o.(*corev1.PersistentVolume)) })},
		{name: "StorageClass", client: storage, resource: "storageclasses", example: &storagev1.StorageClass{}, gone: gone("StorageClass"),
			upsert: keep("StorageClass", func(o any) any { return convert.StorageClass(o.(*storagev1.StorageClass)) })},
		{name: "CSINode", client: storage, resource: "csinodes", example: &storagev1.CSINode{},
			upsert: func(obj any) (cluster.Change, error) {
				o := obj.(*storagev1.CSINode)
				return cluster.UpsertVolumeLimits{Node: o.Name, Limits: convert.CSINode(o)}, nil
			},
			gone: func(_, name string) cluster.Change { return cluster.DeleteVolumeLimits{Node: name} }},
		{name: "VolumeAttachment", client: storage, resource: "volumeattachments", example: &storagev1.VolumeAttachment{},
			upsert: upsertAttachment,
			gone:   func(_, name string) cluster.Change { return cluster.DeleteAttachment{Name: name} }},
	}
}

// upsertAttachment tells which volume is on which node. Volumes that are written into a
// pod have no name that anybody could wait for.
func upsertAttachment(obj any) (cluster.Change, error) {
	o := obj.(*storagev1.VolumeAttachment)
	if v := o.Spec.Source.PersistentVolumeName; v != nil && *v != "" {
		return cluster.UpsertAttachment{Name: o.Name, Node: o.Spec.NodeName, Volume: *v}, nil
	}
	return cluster.DeleteAttachment{Name: o.Name}, nil
}

// storage knows the storage of the cluster and the pods that use it, and tells of such a
// pod anew when what it depends on changes its answer.
type storage struct {
	mu     sync.Mutex // held over calls of the sink, so that news of one pod cannot overtake each other
	intern *intern
	of     *convert.Volumes
	pods   map[string]*mount          // by namespace/name; those with volumes only
	users  map[string]map[string]bool // namespace/name of a claim -> pods that name it
	claims map[string]map[string]bool // name of a volume -> claims that name it
}

type mount struct {
	pod     *model.Pod // as the API server says
	volumes []convert.PodVolume
	told    *model.Pod // as the sink was told
}

func (s *storage) init(i *intern) {
	s.intern, s.of = i, convert.NewVolumes()
	s.pods, s.users, s.claims = map[string]*mount{}, map[string]map[string]bool{}, map[string]map[string]bool{}
}

// pod tells of a pod with volumes.
func (s *storage) pod(c mounted, sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.Pod.ID()
	if old := s.pods[id]; old != nil {
		s.unlink(id, old)
	}
	m := &mount{pod: c.Pod, volumes: c.volumes}
	s.pods[id] = m
	for _, claim := range m.claims() {
		link(s.users, claim, id)
	}
	s.tell(m, sink)
}

// forget tells that a pod is gone.
func (s *storage) forget(c cluster.DeletePod, sink Sink) {
	s.mu.Lock()
	m := s.pods[c.ID]
	if m == nil {
		s.mu.Unlock() // nobody else tells of a pod without volumes
		sink(c)
		return
	}
	defer s.mu.Unlock()
	s.unlink(c.ID, m)
	delete(s.pods, c.ID)
	sink(c)
}

func (s *storage) unlink(id string, m *mount) {
	for _, claim := range m.claims() {
		unlink(s.users, claim, id)
	}
}

// claims lists the claims of the pod as namespace/name.
func (m *mount) claims() []string {
	var out []string
	for _, v := range m.volumes {
		if name := v.ClaimName(m.pod.Name); name != "" {
			out = append(out, m.pod.Namespace+"/"+name)
		}
	}
	return out
}

// set takes in an object and tells of the pods that it concerns.
func (s *storage) set(c stored, sink Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.kind {
	case "PersistentVolumeClaim":
		id := c.namespace + "/" + c.name
		if old := s.of.Claim(c.namespace, c.name); old != nil && old.Volume != "" {
			unlink(s.claims, old.Volume, id)
		}
		claim, _ := c.value.(*convert.VolumeClaim)
		s.of.SetClaim(c.namespace, c.name, claim)
		if claim != nil && claim.Volume != "" {
			link(s.claims, claim.Volume, id)
		}
		s.tellUsers(id, sink)
	case "PersistentVolume":
		v, _ := c.value.(*convert.Volume)
		s.of.SetVolume(c.name, v)
		for _, claim := range sortedNames(s.claims[c.name]) {
			s.tellUsers(claim, sink)
		}
	case "StorageClass":
		class, _ := c.value.(*convert.VolumeClass)
		s.of.SetClass(c.name, class)
		for _, m := range s.pods {
			s.tell(m, sink)
		}
	}
}

func (s *storage) tellUsers(claim string, sink Sink) {
	for _, id := range sortedNames(s.users[claim]) {
		s.tell(s.pods[id], sink)
	}
}

// tell says where the pod can be, unless the sink has heard the same of it.
func (s *storage) tell(m *mount, sink Sink) {
	p := *m.pod
	s.of.Place(&p, m.volumes)
	if t := m.told; t != nil && p.Requests.Equal(t.Requests) && slices.Equal(p.Unsupported, t.Unsupported) && slices.Equal(p.Volumes, t.Volumes) && samePlaces(p.Topology, t.Topology) {
		return
	}
	s.intern.pod(&p)
	m.told = &p
	sink(cluster.UpsertPod{Pod: &p})
}

func samePlaces(a, b *model.Topology) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.VolumeTerms, b.VolumeTerms, require.Set.Equal)
}

func link(m map[string]map[string]bool, key, value string) {
	if m[key] == nil {
		m[key] = map[string]bool{}
	}
	m[key][value] = true
}

func unlink(m map[string]map[string]bool, key, value string) {
	delete(m[key], value)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func sortedNames(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
