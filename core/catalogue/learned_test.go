package catalogue_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

const mebi = int64(1) << 20

func typeOf(t testing.TB, class *model.NodeClass, name string) *model.InstanceType {
	t.Helper()
	for _, o := range catalogue.Embedded().Offerings(class, nil, catalogue.Options{}) {
		if o.Type.Name == name {
			return o.Type
		}
	}
	t.Fatalf("no type %s", name)
	return nil
}

// seen is a node bought as t says, with so much less for pods.
func seen(t *model.InstanceType, capacity resource.Vector, less resource.Vector) catalogue.Seen {
	kept := t.Capacity.Sub(t.Allocatable)
	return catalogue.Seen{Capacity: capacity, Allocatable: capacity.Sub(kept).Sub(less), Planned: t.Allocatable, PlannedCapacity: t.Capacity}
}

// Case B095: the first real node replaces the estimate, and of several the least counts.
func TestMemoryIsLearned(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "AL2023"}
	r6a := typeOf(t, class, "r6a.12xlarge")
	if m := r6a.Capacity.Base[resource.Memory]; m != 363724*mebi || r6a.MemoryFrom != "estimated" {
		t.Fatalf("before: %d MiB, %s", m/mebi, r6a.MemoryFrom)
	}
	var l catalogue.Learned
	for _, step := range []struct {
		reports, want int64
		news          bool
	}{{378000, 378000, true}, {378000, 378000, false}, {378100, 378000, false}, {377990, 377990, true}} {
		real := r6a.Capacity
		real.Base[resource.Memory] = step.reports * mebi
		var news bool
		l, news = l.Learn(class, r6a, seen(r6a, real, resource.Vector{}))
		got := l.Correct(class, r6a)
		if news != step.news || got.Capacity.Base[resource.Memory] != step.want*mebi || got.MemoryFrom != "learned" {
			t.Errorf("a node reports %d MiB: news %t, capacity %d MiB, %s", step.reports, news, got.Capacity.Base[resource.Memory]/mebi, got.MemoryFrom)
		}
		if kept := got.Capacity.Sub(got.Allocatable); cmp.Diff(r6a.Capacity.Sub(r6a.Allocatable), kept) != "" {
			t.Errorf("kept of the machine: %v, by the rules %v", kept, r6a.Capacity.Sub(r6a.Allocatable))
		}
	}
	if len(l.Short) > 0 {
		t.Errorf("allocatable is as computed, yet learned is %v", l.Short)
	}
}

// A threshold that is a share of the memory follows the memory.
func TestSharesOfMemoryAreComputedAnew(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "AL2023", EvictionMemory: "10%"}
	m5 := typeOf(t, class, "m5.large")
	got := catalogue.WithMemory(class, m5, 7800*mebi)
	want := catalogue.Options{LearnedMemory: map[string]int64{"m5.large": 7800 * mebi}}
	for _, o := range catalogue.Embedded().Offerings(class, nil, want) {
		if o.Type.Name == "m5.large" && cmp.Diff(o.Type.Allocatable, got.Allocatable) != "" {
			t.Fatalf("allocatable %v, by the rules %v", got.Allocatable, o.Type.Allocatable)
		}
	}
}

func TestWhatImagesKeepForThemselvesIsLearned(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "Custom"}
	m5 := typeOf(t, class, "m5.large")
	less := resource.New(300, 500*mebi, 9, 0)
	l, news := catalogue.Learned{}.Learn(class, m5, seen(m5, m5.Capacity, less))
	if !news {
		t.Fatal("nothing was learned")
	}
	got := l.Correct(class, m5)
	if diff := cmp.Diff(m5.Allocatable.Sub(less), got.Allocatable); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The next node was bought by the corrected figures and confirms them.
	next := seen(m5, m5.Capacity, less)
	next.Planned = got.Allocatable
	if _, news := l.Learn(class, m5, next); news {
		t.Error("the same node again was news")
	}
	// Under other settings nothing is known.
	pods := int32(20)
	other := &model.NodeClass{Name: "default", Family: "Custom", MaxPods: &pods}
	t20 := typeOf(t, other, "m5.large")
	if diff := cmp.Diff(t20.Allocatable, l.Correct(other, t20).Allocatable); diff != "" {
		t.Errorf("other settings (-want +got):\n%s", diff)
	}
	// A node that was bought before the class was changed says nothing of the class as it is now, but of the memory.
	if l, _ := (catalogue.Learned{}).Learn(other, t20, seen(m5, m5.Capacity, less)); len(l.Short) > 0 || l.Memory == 0 {
		t.Errorf("learned %+v", l)
	}
	// The record survives being written down.
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back catalogue.Learned
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A node that has not said anything yet teaches nothing.
func TestNothingIsLearnedFromNothing(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "AL2023"}
	m5 := typeOf(t, class, "m5.large")
	if l, news := (catalogue.Learned{}).Learn(class, m5, catalogue.Seen{}); news || l.Memory != 0 {
		t.Errorf("learned %+v", l)
	}
	if got := (catalogue.Learned{}).Correct(class, m5); got != m5 {
		t.Error("a type of which nothing is known was copied")
	}
}

// Whatever a node offers, a type that it taught never promises more than that node has.
func TestTheSameMisfitNeverHappensTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		class := &model.NodeClass{Name: "default", Family: "AL2023", EvictionMemory: rapid.SampledFrom([]string{"", "5%", "1Gi"}).Draw(t, "eviction")}
		it := &model.InstanceType{Name: "x", Capacity: resource.New(4000, 16384*mebi, 58, 20<<30)}
		it.Allocatable = it.Capacity.Sub(resource.New(80, 2000*mebi, 0, 3<<30))
		var l catalogue.Learned
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			capacity := it.Capacity
			capacity.Base[resource.Memory] += rapid.Int64Range(-500, 500).Draw(t, "memory") * mebi
			less := resource.New(rapid.Int64Range(0, 900).Draw(t, "cpu"), rapid.Int64Range(0, 900).Draw(t, "less")*mebi, rapid.Int64Range(0, 20).Draw(t, "pods"), 0)
			planned := l.Correct(class, it)
			n := catalogue.Seen{Capacity: capacity, Planned: planned.Allocatable, PlannedCapacity: planned.Capacity}
			n.Allocatable = catalogue.WithMemory(class, it, capacity.Base[resource.Memory]).Allocatable.Sub(less)
			l, _ = l.Learn(class, it, n)
			if got := l.Correct(class, it).Allocatable; !got.Fits(n.Allocatable) {
				t.Fatalf("planned for with %v, the node has %v; learned %+v", got, n.Allocatable, l)
			}
			if _, news := l.Learn(class, it, n); news {
				t.Fatalf("the same node again is news: %+v", l)
			}
		}
	})
}

// One node with half of its memory missing is not believed; a second machine that agrees is, and a sound one between them
// clears the doubt. The same machine twice is one witness.
func TestOneOutlierIsNotBelieved(t *testing.T) {
	t.Parallel()
	class := &model.NodeClass{Name: "default", Family: "AL2023"}
	m5 := typeOf(t, class, "m5.large")
	sound, kept := m5.Capacity.Base[resource.Memory], m5.Capacity.Sub(m5.Allocatable)
	type report struct {
		instance              string
		memory, left          int64 // bytes; left -1 = as the rules have it
		doubt                 bool  // afterwards
		wantMemory, wantShort int64
	}
	for name, reports := range map[string][]report{
		"one is not":                     {{"i-1", gibi, -1, true, 0, 0}},
		"twice the same is not":          {{"i-1", gibi, -1, true, 0, 0}, {"i-1", gibi, -1, true, 0, 0}},
		"two are, with the more of them": {{"i-1", gibi, -1, true, 0, 0}, {"i-2", 2 * gibi, -1, false, 2 * gibi, 0}},
		"from then on a third is no outlier": {{"i-1", gibi, -1, true, 0, 0}, {"i-2", 2 * gibi, -1, false, 2 * gibi, 0},
			{"i-3", gibi + gibi/2, -1, false, gibi + gibi/2, 0}},
		"a sound one clears the doubt":       {{"i-1", gibi, -1, true, 0, 0}, {"i-2", sound, -1, false, sound, 0}, {"i-3", gibi, -1, true, sound, 0}},
		"what was learned before stays":      {{"i-1", sound - 100*mebi, -1, false, sound - 100*mebi, 0}, {"i-2", gibi, -1, true, sound - 100*mebi, 0}},
		"more than half is believed at once": {{"i-1", sound/2 + mebi, -1, false, sound/2 + mebi, 0}},
		"twice as much is not":               {{"i-1", 2*sound + mebi, -1, true, 0, 0}},
		"nor is one that leaves pods nothing": {{"i-1", sound, 100 * mebi, true, 0, 0},
			{"i-2", sound, 200 * mebi, false, sound, m5.Allocatable.Base[resource.Memory] - 200*mebi}},
		"one that leaves them a little less is": {{"i-1", sound, m5.Allocatable.Base[resource.Memory] - gibi, false, sound, gibi}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l catalogue.Learned
			for _, r := range reports {
				planned := l.Correct(class, m5)
				n := catalogue.Seen{Instance: r.instance, Capacity: m5.Capacity, Planned: planned.Allocatable, PlannedCapacity: planned.Capacity}
				n.Capacity.Base[resource.Memory] = r.memory
				n.Allocatable = n.Capacity.Sub(kept)
				if n.Allocatable.Base[resource.Memory] = r.memory - kept.Base[resource.Memory]; r.left >= 0 {
					n.Allocatable.Base[resource.Memory] = r.left
				}
				before := l
				var news bool
				l, news = l.Learn(class, m5, n)
				short := l.Short[catalogue.Settings(class)]["memory"]
				if l.Doubts(r.instance) != r.doubt || l.Memory != r.wantMemory || short != r.wantShort {
					t.Errorf("after %s: doubt %+v, memory %d, short by %d; want %t, %d, %d", r.instance, l.Doubt, l.Memory, short, r.doubt, r.wantMemory, r.wantShort)
				}
				if news == cmp.Equal(before, l) {
					t.Errorf("after %s: news %t, though it was %+v and is %+v", r.instance, news, before, l)
				}
			}
		})
	}
}

const gibi = int64(1) << 30
