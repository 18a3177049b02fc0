package kube

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// internMax bounds each table; a full one starts anew, which costs sharing and nothing else.
const internMax = 1 << 14

// intern shares equal parts of pods: a workload's pods have labels, tolerations and
// node terms in common, and those are most of what a pod weighs.
type intern struct {
	mu          sync.Mutex
	texts       map[string]string
	labels      map[string]map[string]string
	terms       map[string][]require.Set
	tolerations map[string][]model.Toleration
	topologies  map[string]*model.Topology
	softs       map[string]*model.Soft
	preferred   map[string][]model.Preference
}

func (i *intern) init() {
	i.texts, i.labels = map[string]string{}, map[string]map[string]string{}
	i.terms, i.tolerations = map[string][]require.Set{}, map[string][]model.Toleration{}
	i.topologies, i.softs, i.preferred = map[string]*model.Topology{}, map[string]*model.Soft{}, map[string][]model.Preference{}
}

func share[V any](table *map[string]V, key string, value V) V {
	if have, ok := (*table)[key]; ok {
		return have
	}
	if len(*table) >= internMax {
		*table = map[string]V{}
	}
	(*table)[key] = value
	return value
}

func (i *intern) text(s string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return share(&i.texts, s, s)
}

func (i *intern) pod(p *model.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range []*string{&p.Namespace, &p.NodeName, &p.PriorityClass, &p.Owner.APIVersion, &p.Owner.Kind, &p.Owner.Name, &p.Owner.UID} {
		*s = share(&i.texts, *s, *s)
	}
	if len(p.Labels) > 0 {
		p.Labels = share(&i.labels, mapKey(p.Labels), p.Labels)
	}
	if len(p.Terms) > 0 {
		var b strings.Builder
		for _, t := range p.Terms {
			b.WriteString(t.Key())
			b.WriteByte('|')
		}
		p.Terms = share(&i.terms, b.String(), p.Terms)
	}
	if len(p.Tolerations) > 0 {
		var b strings.Builder
		for _, t := range p.Tolerations {
			seconds := "for ever"
			if t.Seconds != nil {
				seconds = strconv.FormatInt(*t.Seconds, 10)
			}
			fmt.Fprintf(&b, "%q%q%q%q%s;", t.Key, t.Operator, t.Value, t.Effect, seconds)
		}
		p.Tolerations = share(&i.tolerations, b.String(), p.Tolerations)
	}
	if p.Topology != nil {
		p.Topology = share(&i.topologies, topologyKey(p.Topology), p.Topology)
	}
	if p.Soft != nil {
		p.Soft = share(&i.softs, softKey(p.Soft), p.Soft)
	}
	if len(p.Preferred) > 0 {
		var b strings.Builder
		for _, t := range p.Preferred {
			fmt.Fprintf(&b, "%d %q;", t.Weight, t.Set.Key())
		}
		p.Preferred = share(&i.preferred, b.String(), p.Preferred)
	}
}

// softKey is equal for equal preferences.
func softKey(s *model.Soft) string {
	var b strings.Builder
	b.WriteString(topologyKey(&model.Topology{Spreads: s.Spreads}))
	for _, a := range s.Affinity {
		fmt.Fprintf(&b, "near %d %q %q;", a.Weight, a.Key, a.Selector.ID)
	}
	for _, a := range s.AntiAffinity {
		fmt.Fprintf(&b, "far %d %q %q;", a.Weight, a.Key, a.Selector.ID)
	}
	return b.String()
}

// topologyKey is equal for equal wishes: selectors with one ID pick the same pods.
func topologyKey(t *model.Topology) string {
	var b strings.Builder
	for _, s := range t.Spreads {
		fmt.Fprintf(&b, "spread %q %d %d %q %t %t;", s.Key, s.MaxSkew, s.MinDomains, s.Selector.ID, s.HonorAffinity, s.HonorTaints)
	}
	for _, a := range t.Affinity {
		fmt.Fprintf(&b, "near %q %q;", a.Key, a.Selector.ID)
	}
	for _, a := range t.AntiAffinity {
		fmt.Fprintf(&b, "far %q %q;", a.Key, a.Selector.ID)
	}
	for _, h := range t.HostPorts {
		fmt.Fprintf(&b, "port %q %q %d;", h.IP, h.Protocol, h.Port)
	}
	for _, v := range t.VolumeTerms {
		fmt.Fprintf(&b, "place %q;", v.Key())
	}
	return b.String()
}

func mapKey(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k)
		b.WriteByte(0)
		b.WriteString(m[k])
		b.WriteByte(0)
	}
	return b.String()
}
