package simulate

import (
	"container/heap"
	"slices"
	"time"
)

// queue is a list of things to do in virtual time, in the order of time and, at
// one instant, in the order in which they were added.
type queue struct {
	items []item
	seq   int64
}

type item struct {
	at  time.Time
	seq int64
	do  func()
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (q *queue) Len() int { return len(q.items) }

// Less is for container/heap.
func (q *queue) Less(i, j int) bool {
	a, b := q.items[i], q.items[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.seq < b.seq
}

// Swap is for container/heap.
func (q *queue) Swap(i, j int) { q.items[i], q.items[j] = q.items[j], q.items[i] }

// Push is for container/heap.
func (q *queue) Push(x any) { q.items = append(q.items, x.(item)) }

// Pop is for container/heap.
func (q *queue) Pop() any {
	x := q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	return x
}

func (q *queue) add(at time.Time, do func()) {
	q.seq++
	heap.Push(q, item{at, q.seq, do})
}

func (q *queue) next() (time.Time, bool) {
	if len(q.items) == 0 {
		return time.Time{}, false
	}
	return q.items[0].at, true
}

func (q *queue) take() item { return heap.Pop(q).(item) }

// table is a map whose keys are listed in order.
type table[T any] struct {
	m    map[string]T
	keys []string // sorted
}

func newTable[T any]() *table[T] { return &table[T]{m: map[string]T{}} }

func (t *table[T]) get(k string) (T, bool) { v, ok := t.m[k]; return v, ok }

func (t *table[T]) put(k string, v T) {
	if _, ok := t.m[k]; !ok {
		i := search(t.keys, k)
		t.keys = append(t.keys, "")
		copy(t.keys[i+1:], t.keys[i:])
		t.keys[i] = k
	}
	t.m[k] = v
}

func (t *table[T]) del(k string) {
	if _, ok := t.m[k]; !ok {
		return
	}
	delete(t.m, k)
	i := search(t.keys, k)
	t.keys = append(t.keys[:i], t.keys[i+1:]...)
}

// all is a copy of the values, by key; the table may change while it is walked.
func (t *table[T]) all() []T {
	out := make([]T, len(t.keys))
	for i, k := range t.keys {
		out[i] = t.m[k]
	}
	return out
}

func (t *table[T]) len() int { return len(t.keys) }

func search(keys []string, k string) int {
	i, _ := slices.BinarySearch(keys, k)
	return i
}
