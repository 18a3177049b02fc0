package load

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	sigsjson "sigs.k8s.io/json"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/api/validate"
	"github.com/weir-project/weir/core/kube/convert"
)

// loader holds what was read so far.
type loader struct {
	files    []string
	errs     []error
	warnings []string
	seen     map[identity]place

	// of the file that is being read
	known   int
	unknown []string

	pods      podReader
	nodes     []*corev1.Node
	claims    []*apiv1.NodeClaim
	pools     []*apiv1.NodePool
	classes   []*awsv1.EC2NodeClass
	daemons   []*appsv1.DaemonSet
	deploys   []*appsv1.Deployment
	replicas  []*appsv1.ReplicaSet
	statefuls []*appsv1.StatefulSet
	jobs      []*batchv1.Job
	pdbs      []*policyv1.PodDisruptionBudget
	limits    []*corev1.LimitRange
	priority  []*schedulingv1.PriorityClass
	runtimes  []*nodev1.RuntimeClass
	volumes   *convert.Volumes
	around    *convert.Surroundings
	guessed   []string                    // namespaces of pods that are not in the input
	attach    map[string]map[string]int64 // by node, then CSI driver
	unused    map[string]int              // kind to count
	asIs      bool                        // workloads without pods have none
}

type identity struct{ kind, namespace, name string }

func newLoader() *loader {
	return &loader{seen: map[identity]place{}, pods: newPodReader(), volumes: convert.NewVolumes(), around: &convert.Surroundings{}, attach: map[string]map[string]int64{}, unused: map[string]int{}}
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// fail notes an error. field is a path inside the object.
func (l *loader) fail(p place, object, field, msg string) {
	if p.item >= 0 {
		at := fmt.Sprintf("[%d]", p.item)
		if p.list {
			at = "items" + at
		}
		if field != "" {
			at += "." + field
		}
		field = at
	}
	l.errs = append(l.errs, &Error{File: l.files[p.file], Document: int(p.doc), Object: object, Field: field, Msg: msg})
}

// where is a place for messages.
func (l *loader) where(p place) string {
	s := l.files[p.file]
	if p.doc > 0 {
		s += fmt.Sprintf(": document %d", p.doc)
	}
	if p.item >= 0 {
		s += fmt.Sprintf(", item %d", p.item)
	}
	return s
}

// kindInfo says in which group and version a kind is read.
type kindInfo struct {
	group, version string
	namespaced     bool
	read           func(l *loader, p place, kind string, v []byte)
}

func (k kindInfo) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

var kinds map[string]kindInfo

// spreaders are kinds that say something only where there are default spread constraints.
var spreaders map[string]kindInfo

func init() {
	kinds = map[string]kindInfo{
		"NodePool":     {"karpenter.sh", "v1", false, readPool},
		"NodeClaim":    {"karpenter.sh", "v1", false, readClaim},
		"EC2NodeClass": {"karpenter.k8s.aws", "v1", false, readClass},

		"Node":        {"", "v1", false, keep(func(l *loader, o *corev1.Node) { l.nodes = append(l.nodes, o) }, checkNode)},
		"DaemonSet":   {"apps", "v1", true, keep(func(l *loader, o *appsv1.DaemonSet) { l.daemons = append(l.daemons, o) }, checkDaemonSet)},
		"Deployment":  {"apps", "v1", true, keep(func(l *loader, o *appsv1.Deployment) { l.deploys = append(l.deploys, o) }, checkDeployment)},
		"ReplicaSet":  {"apps", "v1", true, keep(func(l *loader, o *appsv1.ReplicaSet) { l.replicas = append(l.replicas, o) }, checkReplicaSet)},
		"StatefulSet": {"apps", "v1", true, keep(func(l *loader, o *appsv1.StatefulSet) { l.statefuls = append(l.statefuls, o) }, checkStatefulSet)},
		"Job":         {"batch", "v1", true, keep(func(l *loader, o *batchv1.Job) { l.jobs = append(l.jobs, o) }, checkJob)},
		"PodDisruptionBudget": {"policy", "v1", true,
			keep(func(l *loader, o *policyv1.PodDisruptionBudget) { l.pdbs = append(l.pdbs, o) }, checkPDB)},
		"LimitRange":    {"", "v1", true, keep(func(l *loader, o *corev1.LimitRange) { l.limits = append(l.limits, o) }, checkLimitRange)},
		"PriorityClass": {"scheduling.k8s.io", "v1", false, keep(func(l *loader, o *schedulingv1.PriorityClass) { l.priority = append(l.priority, o) }, nil)},
		"RuntimeClass":  {"node.k8s.io", "v1", false, keep(func(l *loader, o *nodev1.RuntimeClass) { l.runtimes = append(l.runtimes, o) }, checkRuntimeClass)},

		"PersistentVolume": {"", "v1", false, keep(func(l *loader, o *corev1.PersistentVolume) {
			l.volumes.SetVolume(o.Name, convert.PersistentVolume(o))
		}, checkVolume)},
		"PersistentVolumeClaim": {"", "v1", true, keep(func(l *loader, o *corev1.PersistentVolumeClaim) {
			l.volumes.SetClaim(o.Namespace, o.Name, convert.PersistentVolumeClaim(o))
		}, nil)},
		"StorageClass": {"storage.k8s.io", "v1", false, keep(func(l *loader, o *storagev1.StorageClass) {
			l.volumes.SetClass(o.Name, convert.StorageClass(o))
		}, checkStorageClass)},
		"CSINode": {"storage.k8s.io", "v1", false, keep(func(l *loader, o *storagev1.CSINode) {
			l.attach[o.Name] = convert.CSINode(o)
		}, checkCSINode)},
		"Namespace": {"", "v1", false, keep(func(l *loader, o *corev1.Namespace) { l.around.SetNamespace(o.Name, o.Labels); l.unused["Namespace"]++ }, nil)},
	}
	spreaders = map[string]kindInfo{
		"Service": {"", "v1", true, keep(func(l *loader, o *corev1.Service) { l.around.SetService(o.Namespace, o.Name, o.Spec.Selector) }, nil)},
		"ReplicationController": {"", "v1", true, keep(func(l *loader, o *corev1.ReplicationController) {
			l.around.SetOwner(o.Namespace, "ReplicationController", o.Name, labels.SelectorFromSet(o.Spec.Selector))
		}, nil)},
	}
}

// dispatch hands an object to the reader of its kind.
func (l *loader) dispatch(p place, v []byte, h *header) error {
	if h.kind == "" || h.apiVersion == "" {
		if h.kind == "" && h.apiVersion == "" {
			l.unknown = append(l.unknown, "an object without apiVersion and kind")
			return nil
		}
		field := "kind"
		if h.apiVersion == "" {
			field = "apiVersion"
		}
		l.fail(p, h.kind, field, "is missing")
		return nil
	}
	group, version := "", h.apiVersion
	if i := strings.IndexByte(h.apiVersion, '/'); i >= 0 {
		group, version = h.apiVersion[:i], h.apiVersion[i+1:]
	}
	if h.kind == "Pod" && h.apiVersion == "v1" {
		l.known++
		return l.pods.read(l, p, h)
	}
	k, ok := kinds[h.kind]
	if !ok && len(l.around.Defaults) > 0 {
		k, ok = spreaders[h.kind]
	}
	if h.kind == "Pod" {
		k, ok = kindInfo{version: "v1"}, true
	}
	if !ok || group != k.group {
		l.unknown = append(l.unknown, h.kind+" "+h.apiVersion)
		return nil
	}
	if version != k.version {
		l.fail(p, h.kind, "apiVersion", fmt.Sprintf("%s is not served, expected %s", h.apiVersion, k.apiVersion()))
		return nil
	}
	l.known++
	k.read(l, p, h.kind, v) // items of a typed list need not name their kind
	return nil
}

// object is what all typed objects have in common.
type object interface {
	metav1.Object
}

// claimName notes an object's name, fills in its namespace, and refuses doubles.
func (l *loader) claimName(p place, kind string, o object) bool {
	if (kinds[kind].namespaced || spreaders[kind].namespaced) && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), len(l.seen)))
	}
	if problem := checkMeta(o); problem != nil {
		l.fail(p, title(kind, o), problem.field, problem.msg)
		return false
	}
	return l.unique(p, identity{kind, o.GetNamespace(), o.GetName()})
}

func (l *loader) unique(p place, id identity) bool {
	if first, ok := l.seen[id]; ok {
		l.fail(p, id.String(), "metadata.name", "is there twice: "+l.where(first)+" has it already")
		return false
	}
	l.seen[id] = p
	return true
}

// String is kind and name, as messages show it.
func (id identity) String() string {
	if id.namespace != "" {
		return id.kind + " " + id.namespace + "/" + id.name
	}
	return id.kind + " " + id.name
}

func title(kind string, o object) string {
	return identity{kind, o.GetNamespace(), o.GetName()}.String()
}

// keep reads a typed object, checks it, and stores it.
func keep[T any, P interface {
	*T
	object
}](store func(*loader, P), check func(P) []fieldProblem) func(*loader, place, string, []byte) {
	return func(l *loader, p place, kind string, v []byte) {
		o := P(new(T))
		unknown, err := sigsjson.UnmarshalStrict(v, o)
		if err != nil {
			field, msg := decodeProblem(v, err)
			l.fail(p, title(kind, o), field, msg)
			return
		}
		if !l.claimName(p, kind, o) {
			return
		}
		for _, u := range unknown {
			l.warn("%s: %s: %s", l.where(p), title(kind, o), u)
		}
		if check != nil {
			if problems := check(o); len(problems) > 0 {
				for _, pr := range problems {
					l.fail(p, title(kind, o), pr.field, pr.msg)
				}
				return
			}
		}
		o.SetManagedFields(nil)
		store(l, o)
	}
}

func readPool(l *loader, p place, _ string, v []byte) {
	if o := custom(l, p, "NodePool", v, validate.NodePool); o != nil && l.claimName(p, "NodePool", o) {
		l.pools = append(l.pools, o)
	}
}

func readClaim(l *loader, p place, _ string, v []byte) {
	if o := custom(l, p, "NodeClaim", v, validate.NodeClaim); o != nil && l.claimName(p, "NodeClaim", o) {
		l.claims = append(l.claims, o)
	}
}

func readClass(l *loader, p place, _ string, v []byte) {
	if o := custom(l, p, "EC2NodeClass", v, validate.EC2NodeClass); o != nil && l.claimName(p, "EC2NodeClass", o) {
		l.classes = append(l.classes, o)
	}
}

// custom reads an object of our own definitions as an API server would, with strict
// field validation.
func custom[P any](l *loader, p place, kind string, v []byte, check func(map[string]any) (P, []apiv1.FieldError, error)) (out P) {
	var m map[string]any
	if err := json.Unmarshal(v, &m); err != nil {
		l.fail(p, kind, "", err.Error())
		return out
	}
	name := kind
	if meta, ok := m["metadata"].(map[string]any); ok {
		if n, ok := meta["name"].(string); ok {
			name += " " + n
		}
		delete(meta, "managedFields")
	}
	o, problems, err := check(m)
	if err != nil {
		l.fail(p, name, "", err.Error())
		return out
	}
	refused := false
	for _, f := range problems {
		if f.Class != apiv1.Invalid {
			refused = true
			l.fail(p, name, f.Path, f.Message)
		}
	}
	if refused {
		return out
	}
	return o
}

var structField = regexp.MustCompile(`cannot unmarshal (\S+) into Go (?:struct field [A-Za-z0-9]+\.(\S+)|value) of type (\S+)`)

// decodeProblem makes field and message of an error of the decoder.
func decodeProblem(v []byte, err error) (field, msg string) {
	if m := structField.FindStringSubmatch(err.Error()); m != nil {
		return m[2], fmt.Sprintf("expected %s, got %s", jsonType(m[3]), m[1])
	}
	var any any
	if json.Unmarshal(v, &any) == nil {
		if at, q := badQuantity(any, ""); at != "" {
			return at, fmt.Sprintf("%s is not a quantity such as 500m, 2 or 4Gi", q)
		}
	}
	return "", strings.TrimPrefix(err.Error(), "json: ")
}

func jsonType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number (" + goType + ")"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map["):
		return "an object"
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	}
	return "an object (" + goType + ")"
}

// amounts are the fields whose members are quantities.
var amounts = map[string]bool{
	"requests": true, "limits": true, "overhead": true, "podFixed": true, "capacity": true, "allocatable": true,
	"default": true, "defaultRequest": true, "max": true, "min": true, "maxLimitRequestRatio": true,
}

// badQuantity finds a quantity of nonsense in a decoded object.
func badQuantity(v any, path string) (at, value string) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			sub := k
			if path != "" {
				sub = path + "." + k
			}
			if list, ok := v[k].(map[string]any); ok && amounts[k] {
				if at, q := badAmount(list, sub); at != "" {
					return at, q
				}
			}
			if at, q := badQuantity(v[k], sub); at != "" {
				return at, q
			}
		}
	case []any:
		for i, e := range v {
			if at, q := badQuantity(e, fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at, q
			}
		}
	}
	return "", ""
}

func badAmount(list map[string]any, path string) (at, value string) {
	for k, v := range list {
		raw, err := json.Marshal(v)
		if err != nil {
			continue
		}
		var q apiresource.Quantity
		if q.UnmarshalJSON(raw) != nil {
			return fmt.Sprintf("%s[%s]", path, k), string(raw)
		}
	}
	return "", ""
}
