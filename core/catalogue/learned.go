package catalogue

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	"github.com/weir-project/weir/core/model"
	res "github.com/weir-project/weir/core/model/resource"
)

// Learned is what real nodes of one type and image offered. The zero value knows nothing.
type Learned struct {
	// Memory is the capacity that a node reported, bytes; of several the least. 0 = none has.
	Memory int64 `json:"memory,omitempty"`
	// Short is how much less nodes had for pods than the rules say for that memory, by resource, under
	// each class with its settings (see Settings): an image that keeps more for itself, for instance.
	Short map[string]map[string]int64 `json:"short,omitempty"`
}

// Settings names a class with the settings that what is left for pods depends on. What was
// learned of allocatable under others says nothing.
func Settings(class *model.NodeClass) string {
	text, err := json.Marshal([]any{class.Family, class.MaxPods, class.PodsPerCore, class.KubeReserved, class.SystemReserved, class.EvictionMemory,
		class.EvictionStorage, class.RootVolumeBytes, class.InstanceStoreRAID, class.ReservedENIs, class.Interfaces})
	if err != nil {
		panic(err) // strings, numbers and maps of them
	}
	h := fnv.New64a()
	h.Write(text) // never fails
	return fmt.Sprintf("%s/%016x", class.Name, h.Sum64())
}

// WithMemory is a type whose nodes report another capacity of memory; what is left for
// pods is computed anew.
func WithMemory(class *model.NodeClass, t *model.InstanceType, memory int64) *model.InstanceType {
	if memory <= 0 || memory == t.Capacity.Base[res.Memory] {
		return t
	}
	out, was := *t, t.Capacity.Base[res.Memory]
	evict := func(capacity int64) int64 { return threshold(class.EvictionMemory, capacity, defaultEvictionMemory) }
	out.Capacity.Base[res.Memory] = memory
	out.Allocatable.Base[res.Memory] = max(0, t.Allocatable.Base[res.Memory]+memory-was-evict(memory)+evict(was))
	return &out
}

// Correct is a type as its nodes turned out to be.
func (l Learned) Correct(class *model.NodeClass, t *model.InstanceType) *model.InstanceType {
	out := WithMemory(class, t, l.Memory)
	short := l.Short[Settings(class)]
	if l.Memory <= 0 && len(short) == 0 {
		return t
	}
	c := *out
	if l.Memory > 0 {
		c.MemoryFrom = "learned"
	}
	for i := range res.NumBase {
		c.Allocatable.Base[i] = max(0, c.Allocatable.Base[i]-short[res.BaseName(i)])
	}
	return &c
}

// Seen is a node that joined, beside what was thought of it when it was bought.
type Seen struct {
	Capacity, Allocatable res.Vector // as the node reports them
	Planned               res.Vector // allocatable of its claim, zero = not known
	PlannedCapacity       res.Vector
}

// Learn takes a node into account; t is the type as the rules alone have it. It answers
// whether that was news. Resources that devices bring are left out: they come and go with
// their drivers.
//
// How much is left for pods is learned only from nodes that were bought under the
// settings of the class as it is now: the claim's own figures show that.
func (l Learned) Learn(class *model.NodeClass, t *model.InstanceType, n Seen) (Learned, bool) {
	memory := n.Capacity.Base[res.Memory]
	if memory <= 0 {
		return l, false
	}
	news := false
	out := Learned{Memory: l.Memory, Short: maps.Clone(l.Short)}
	if l.Memory == 0 || memory < l.Memory {
		out.Memory, news = memory, true
	}
	settings := Settings(class)
	known := l.Short[settings]
	if !boughtUnder(class, t, n, known) {
		return out, news
	}
	want := WithMemory(class, t, memory).Allocatable
	short := maps.Clone(known)
	for i := range res.NumBase {
		have := n.Allocatable.Base[i]
		if name, less := res.BaseName(i), want.Base[i]-have; have > 0 && less > short[name] {
			if short == nil {
				short = map[string]int64{}
			}
			short[name], news = less, true
		}
	}
	if len(short) > 0 && news {
		if out.Short == nil {
			out.Short = map[string]map[string]int64{}
		}
		maps.DeleteFunc(out.Short, func(k string, _ map[string]int64) bool { return strings.HasPrefix(k, class.Name+"/") })
		out.Short[settings] = short
	}
	return out, news
}

// boughtUnder says whether the claim's figures are those of the class as it is now, with
// or without what had been learned by then.
func boughtUnder(class *model.NodeClass, t *model.InstanceType, n Seen, known map[string]int64) bool {
	want := WithMemory(class, t, n.PlannedCapacity.Base[res.Memory]).Allocatable
	plain, corrected := true, true
	for i := range res.NumBase {
		have := n.Planned.Base[i]
		plain = plain && have == want.Base[i]
		corrected = corrected && have == max(0, want.Base[i]-known[res.BaseName(i)])
	}
	return plain || corrected
}
