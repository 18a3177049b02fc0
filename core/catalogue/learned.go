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
	// Doubt is a node that reported something hard to believe, until another one agrees or disagrees.
	Doubt *Doubt `json:"doubt,omitempty"`
}

// Doubt is what one node reported that was hard to believe.
type Doubt struct {
	Instance    string `json:"instance"`
	Memory      int64  `json:"memory"`      // capacity, bytes
	Allocatable int64  `json:"allocatable"` // memory for pods, bytes
}

// plausible is the share of the memory that was expected below which one node alone is not believed, and over whose inverse.
// The estimates are some percent off, an image may keep a gigabyte more; but half of a machine's memory is missing where the
// machine is broken or its kubelet was misled, and what is learned holds for weeks for every machine of the type and image.
// Two nodes that agree are believed: then the image does it.
const plausible = 0.5

// doubtful says whether a node reports memory that is hard to believe by what is known so far.
func (l Learned) doubtful(class *model.NodeClass, t *model.InstanceType, n Seen) bool {
	far := func(have, want int64) bool {
		return want > 0 && (float64(have) < plausible*float64(want) || plausible*float64(have) > float64(want))
	}
	want := t
	if l.Memory > 0 {
		want = WithMemory(class, t, l.Memory)
	}
	if far(n.Capacity.Base[res.Memory], want.Capacity.Base[res.Memory]) {
		return true
	}
	known := l.Short[Settings(class)]
	left := WithMemory(class, t, n.Capacity.Base[res.Memory]).Allocatable.Base[res.Memory] - known[res.BaseName(res.Memory)]
	have := n.Allocatable.Base[res.Memory]
	return have > 0 && far(have, left) && have < left && boughtUnder(class, t, n, known)
}

// Doubts says whether the node of an instance reported something that is not believed yet.
func (l Learned) Doubts(instance string) bool { return l.Doubt != nil && l.Doubt.Instance == instance }

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
	Instance              string     // id of the machine: the same one twice is one witness
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
//
// A node whose memory is hard to believe (see plausible) only raises a doubt. A second one like it, of another machine, is
// believed, and of the two the one with more; a node in between that is as it should be takes the doubt away.
func (l Learned) Learn(class *model.NodeClass, t *model.InstanceType, n Seen) (Learned, bool) {
	memory := n.Capacity.Base[res.Memory]
	if memory <= 0 {
		return l, false
	}
	news := l.Doubt != nil
	out := Learned{Memory: l.Memory, Short: maps.Clone(l.Short)}
	if l.doubtful(class, t, n) {
		d := Doubt{Instance: n.Instance, Memory: memory, Allocatable: n.Allocatable.Base[res.Memory]}
		if l.Doubt == nil || l.Doubt.Instance == n.Instance {
			out.Doubt = &d
			return out, l.Doubt == nil || *l.Doubt != d
		}
		memory = max(memory, l.Doubt.Memory)
		n.Allocatable.Base[res.Memory] = max(n.Allocatable.Base[res.Memory], l.Doubt.Allocatable)
	}
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
