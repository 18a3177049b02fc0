package model

import (
	"time"

	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// Effect of a taint.
type Effect string

// The effects that Kubernetes knows.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods that do not tolerate it off a node.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// Same says whether two taints occupy the same place on a node (key and effect).
func (t Taint) Same(o Taint) bool { return t.Key == o.Key && t.Effect == o.Effect }

// String is key=value:Effect, as kubectl writes it.
func (t Taint) String() string {
	s := t.Key
	if t.Value != "" {
		s += "=" + t.Value
	}
	return s + ":" + string(t.Effect)
}

// Toleration lets a pod onto nodes with matching taints.
type Toleration struct {
	Key      string // empty with Exists: every key
	Operator string // Equal (also when empty), Exists, Lt, Gt
	Value    string
	Effect   Effect // empty: every effect
	Seconds  *int64 // for NoExecute: how long; nil = for ever
}

// Owner is the controller that a pod belongs to.
type Owner struct{ APIVersion, Kind, Name, UID string }

// Preference is a soft requirement with its weight, 1 to 100.
type Preference struct {
	Weight int32
	Set    require.Set
}

// Unsupported names something a pod asks for that the planner does not place.
type Unsupported struct {
	Filter  Filter
	Message string
}

// Form marks a copy of a pod whose preferences a planner treats as rules for now.
type Form struct {
	Key        string   // equal for equal forms
	SoftTaints bool     // taints with PreferNoSchedule keep it away, too
	Past       []string // preferences of pods that no longer count this one; "*" = all
}

// Pod is a pod as planning sees it.
type Pod struct {
	UID, Namespace, Name string
	Labels, Annotations  map[string]string
	Created              time.Time
	Owner                Owner

	Requests    resource.Vector // effective requests, with one unit of pods
	Terms       []require.Set   // required: any one of these (node selector included in each); never empty
	Preferred   []Preference    // heaviest first
	Tolerations []Toleration
	Topology    *Topology     // nil = asks nothing of the pods around it
	Soft        *Soft         // nil = prefers nothing of the pods around it
	Form        *Form         // on copies that a planner makes; nil on pods of a cluster
	Unsupported []Unsupported // reasons why it cannot be planned for; empty = it can
	Invalid     string        // why the pod is to be left alone altogether (bad requirement), or empty
	Ignore      bool          // asks for karpenter.sh/nodepool DoesNotExist: kept off our nodes on purpose

	Priority      int32
	PriorityClass string
	NodeName      string // where it is bound, or empty
	NominatedNode string // where it will preempt others, or empty
	Gated         bool   // has scheduling gates
	Unschedulable bool   // kube-scheduler has tried and said so
	Terminal      bool   // Succeeded or Failed
	Ready         bool
	Mirror        bool // static pod of a kubelet
	Started       *time.Time
	Volumes       []string      // names of the PersistentVolumes that it mounts, sorted
	Deleting      *time.Time    // deletionTimestamp: when it will be gone at the latest
	DeletingGrace time.Duration // deletionGracePeriodSeconds, of one that is being deleted
	GracePeriod   time.Duration
	RestartCount  int32
}

// ID is namespace/name.
func (p *Pod) ID() string { return p.Namespace + "/" + p.Name }

// Workload names the pods of one controller; empty = the pod has none, or is of a
// DaemonSet or a node.
func (p *Pod) Workload() string {
	if p.Owner.Kind == "" || p.Owner.Kind == "Node" || p.Daemon() {
		return ""
	}
	if p.Owner.UID != "" {
		return p.Owner.UID
	}
	return p.Namespace + "/" + p.Owner.Kind + "/" + p.Owner.Name
}

// Daemon says whether a DaemonSet owns the pod.
func (p *Pod) Daemon() bool { return p.Owner.Kind == "DaemonSet" }

// Active says whether the pod neither ended nor is being deleted.
func (p *Pod) Active() bool { return !p.Terminal && p.Deleting == nil }

// Preempts says whether the pod waits for others to be evicted from the node that it
// was nominated to.
func (p *Pod) Preempts() bool { return p.NominatedNode != "" && p.NodeName == "" && p.Active() }

// Critical says whether the pod belongs to the last tiers of a drain.
func (p *Pod) Critical() bool {
	return p.PriorityClass == "system-cluster-critical" || p.PriorityClass == "system-node-critical"
}

// Reschedulable says whether the pod needs a new place when its node goes:
// active, or of a StatefulSet and terminating; neither of a DaemonSet nor static.
func (p *Pod) Reschedulable() bool {
	if p.Daemon() || p.Mirror || p.Terminal {
		return false
	}
	return p.Deleting == nil || p.Owner.Kind == "StatefulSet"
}

// Tolerates says whether some toleration of the pod matches the taint.
func (p *Pod) Tolerates(t Taint) bool {
	for _, tol := range p.Tolerations {
		if tol.Matches(t) {
			return true
		}
	}
	return false
}

// Untolerated is the first taint of the list that keeps the pod away: by the hard
// effects NoSchedule and NoExecute, and by PreferNoSchedule where its form says so.
func (p *Pod) Untolerated(taints []Taint) (Taint, bool) {
	return p.untolerated(taints, p.Form != nil && p.Form.SoftTaints)
}

// Repelled is the first taint with a hard effect that the pod does not tolerate,
// whatever its form: what kube-scheduler goes by when it counts nodes for a spread.
func (p *Pod) Repelled(taints []Taint) (Taint, bool) { return p.untolerated(taints, false) }

func (p *Pod) untolerated(taints []Taint, soft bool) (Taint, bool) {
	for _, t := range taints {
		if (soft || t.Effect != PreferNoSchedule) && !p.Tolerates(t) {
			return t, true
		}
	}
	return Taint{}, false
}

// DaemonSet is a DaemonSet with the pod that it would put on a node.
type DaemonSet struct {
	Namespace, Name string
	Pod             *Pod
}

// PDB is a PodDisruptionBudget with its selector already applied.
type PDB struct {
	Namespace, Name    string
	DisruptionsAllowed int32
	FullyBlocking      bool // maxUnavailable 0 or 0%, or minAvailable 100%: never allows one
	AlwaysAllow        bool // unhealthyPodEvictionPolicy AlwaysAllow
	// MatchLabels are label values that every selected pod has (the selector's
	// matchLabels); they let a reader look budgets up by label. Nil = not known.
	MatchLabels map[string]string
	// Selects says whether the budget covers a pod of its namespace.
	Selects func(labels map[string]string) bool
}

// Covers says whether the budget selects the pod.
func (b *PDB) Covers(p *Pod) bool {
	return b.Namespace == p.Namespace && b.Selects != nil && b.Selects(p.Labels)
}
