package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// memory answers what Karpenter reads of a cluster from maps, as its informers' caches do:
// the library's fake client looks at every object for each question. Anything else than
// reading is not there.
type memory struct {
	client.Client // nil
	pool          *karpv1.NodePool
	nodes         map[string]*corev1.Node
	claims        map[string]*karpv1.NodeClaim
	pods          map[client.ObjectKey]*corev1.Pod
	on            map[string]map[client.ObjectKey]*corev1.Pod // by node name
	budgets       []policyv1.PodDisruptionBudget
}

func newMemory() *memory {
	return &memory{nodes: map[string]*corev1.Node{}, claims: map[string]*karpv1.NodeClaim{}, pods: map[client.ObjectKey]*corev1.Pod{}, on: map[string]map[client.ObjectKey]*corev1.Pod{}}
}

// put takes in a pod that is new or was moved.
func (m *memory) put(p *corev1.Pod) {
	key := client.ObjectKeyFromObject(p)
	if old := m.pods[key]; old != nil {
		delete(m.on[old.Spec.NodeName], key)
	}
	m.pods[key] = p
	if m.on[p.Spec.NodeName] == nil {
		m.on[p.Spec.NodeName] = map[client.ObjectKey]*corev1.Pod{}
	}
	m.on[p.Spec.NodeName][key] = p
}

// Get implements client.Reader.
func (m *memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch x := into.(type) {
	case *corev1.Pod:
		if p := m.pods[key]; p != nil {
			p.DeepCopyInto(x)
			return nil
		}
	case *corev1.Node:
		if n := m.nodes[key.Name]; n != nil {
			n.DeepCopyInto(x)
			return nil
		}
	case *karpv1.NodePool:
		if key.Name == m.pool.Name {
			m.pool.DeepCopyInto(x)
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List implements client.Reader.
func (m *memory) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	switch x := into.(type) {
	case *corev1.PodList:
		from := m.pods
		if o.FieldSelector != nil {
			if node, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName"); ok {
				from = m.on[node]
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(from), func(a, b client.ObjectKey) int { return cmpKeys(a, b) }) {
			p := from[key]
			if (o.Namespace == "" || o.Namespace == p.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labelSet(p.Labels))) {
				x.Items = append(x.Items, *p)
			}
		}
	case *corev1.NodeList:
		for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
			x.Items = append(x.Items, *m.nodes[name])
		}
	case *karpv1.NodeClaimList:
		for _, name := range slices.Sorted(maps.Keys(m.claims)) {
			x.Items = append(x.Items, *m.claims[name])
		}
	case *karpv1.NodePoolList:
		x.Items = []karpv1.NodePool{*m.pool}
	case *policyv1.PodDisruptionBudgetList:
		x.Items = slices.Clone(m.budgets)
	}
	return nil // of other kinds there are none
}
