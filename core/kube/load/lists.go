package load

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Of what a cluster has, these kinds say something. Pods come first: those that are bound
// while the others are read are bound to nodes that are read later. Nodes come just
// before the claims that are joined with them.
var (
	clusterKinds = []string{"Pod", "DaemonSet", "PodDisruptionBudget", "PersistentVolumeClaim", "PersistentVolume", "StorageClass",
		"Namespace", "LimitRange", "PriorityClass", "RuntimeClass", "NodePool", "EC2NodeClass", "CSINode", "Node", "NodeClaim"}
	// spreadKinds have the selectors that default spread constraints ask for.
	spreadKinds = []string{"Service", "ReplicationController", "ReplicaSet", "StatefulSet"}
)

// ClusterKinds are the kinds whose lists make a cluster, in the order in which they are
// best read; with default spread constraints there are more of them. Workloads are not
// among the others: of a cluster that runs their pods say it all.
func ClusterKinds(spreadDefaults bool) []schema.GroupVersionKind {
	names := clusterKinds
	if spreadDefaults {
		names = append(names[:len(names):len(names)], spreadKinds...)
	}
	out := make([]schema.GroupVersionKind, len(names))
	for i, name := range names {
		k, ok := kinds[name]
		if !ok {
			k, ok = spreaders[name]
		}
		if !ok {
			k = kindInfo{version: "v1"} // Pod, which has a reader of its own
		}
		out[i] = schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: name}
	}
	return out
}

// Lists reads a cluster from the answers of its API server, with the reader of Files. It
// makes up no replicas: a workload without pods has none.
type Lists struct{ l *loader }

// NewLists makes a reader that has read nothing. MaxBytes of the options counts for nothing.
func NewLists(opts Options) *Lists {
	l := newLoader()
	l.around.Defaults, l.asIs = opts.SpreadDefaults, true
	return &Lists{l}
}

// Add takes the answer to a list request, or a page of it, in JSON, and answers where the
// next page begins, empty = nowhere. Messages call the answer by the name. What is wrong
// with it is told by Input.
func (r *Lists) Add(name string, data []byte) (next string) {
	l := r.l
	l.files = append(l.files, name)
	l.known, l.unknown = 0, nil
	p := place{file: int32(len(l.files) - 1), item: -1}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		l.fail(p, "", "", "expected a list, got nothing")
		return ""
	}
	err := l.value(p, data)
	if err == nil && l.known == 0 {
		err = fmt.Errorf("expected a list of a kind that is read, got %s", short(data))
	}
	var h header
	if err == nil {
		h, err = readHeader(data)
	}
	var page struct{ Continue string }
	if err == nil && len(h.metadata) > 0 {
		err = json.Unmarshal(h.metadata, &page)
	}
	if err != nil {
		l.fail(p, "", "", err.Error())
	}
	return page.Continue
}

// Input is the cluster. Errors are *Error, several of them joined.
func (r *Lists) Input() (*Input, error) {
	if len(r.l.errs) > 0 {
		return nil, join(r.l.errs)
	}
	return r.l.assemble()
}
