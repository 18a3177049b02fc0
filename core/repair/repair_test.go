package repair

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/model"
)

var t0 = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// node is one of pool p that has been healthy since t0 minus a day.
func node(name string, f ...func(*model.Node)) *model.Node {
	n := &model.Node{Name: name, Claim: &model.Claim{Name: "c-" + name, Pool: "p"}, Ready: true, ReadySince: t0.Add(-24 * time.Hour)}
	for _, g := range f {
		g(n)
	}
	return n
}

func notReady(d time.Duration) func(*model.Node) {
	return func(n *model.Node) { n.Ready, n.ReadySince = false, t0.Add(-d) }
}

func silent(d time.Duration) func(*model.Node) {
	return func(n *model.Node) { n.Ready, n.Silent, n.ReadySince = false, true, t0.Add(-d) }
}

func health(typ, status string, d time.Duration) func(*model.Node) {
	return func(n *model.Node) {
		n.Health = append(n.Health, model.Condition{Type: typ, Status: status, Since: t0.Add(-d)})
	}
}

func pool(name string) func(*model.Node) { return func(n *model.Node) { n.Claim.Pool = name } }

// healthy are n nodes of a pool.
func healthy(n int, f ...func(*model.Node)) []*model.Node {
	var out []*model.Node
	for i := range n {
		out = append(out, node(fmt.Sprintf("h%d", i), f...))
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	foreign := func(n *model.Node) { n.Claim = nil }
	at := t0
	for _, tt := range []struct {
		name   string
		nodes  []*model.Node
		frozen string
		want   []string // node: condition=status, and why it is blocked
		next   time.Duration
	}{
		{name: "all well", nodes: healthy(3)},
		{name: "not ready for half an hour", nodes: append(healthy(4), node("a", notReady(30*time.Minute))), want: []string{"a: Ready=False"}},
		{name: "not ready for less", nodes: append(healthy(4), node("a", notReady(29*time.Minute))), next: time.Minute},
		{name: "B112: Unknown is watched as well, and one of three is a fifth rounded up", nodes: append(healthy(2), node("a", silent(31*time.Minute))),
			want: []string{"a: Ready=Unknown"}},
		{name: "B112: two of three are too many", nodes: append(healthy(1), node("a", silent(31*time.Minute)), node("b", notReady(time.Minute))),
			want: []string{"a: Ready=Unknown (more than 20% nodes are unhealthy in the nodepool: 2 of 3)"}, next: 29 * time.Minute},
		{name: "two of six", nodes: append(healthy(4), node("a", silent(31*time.Minute)), node("b", notReady(time.Hour))), want: []string{"a: Ready=Unknown", "b: Ready=False"}},
		{name: "two of five", nodes: append(healthy(3), node("a", silent(31*time.Minute)), node("b", notReady(time.Hour))),
			want: []string{"a: Ready=Unknown (more than 20% nodes are unhealthy in the nodepool: 2 of 5)", "b: Ready=False (more than 20% nodes are unhealthy in the nodepool: 2 of 5)"}},
		{name: "an accelerator is not waited for so long", nodes: append(healthy(4), node("a", health("AcceleratedHardwareReady", "False", 10*time.Minute))),
			want: []string{"a: AcceleratedHardwareReady=False"}},
		{name: "what the monitoring agent reports", nodes: append(healthy(16), node("a", health("StorageReady", "False", 30*time.Minute)), node("b", health("NetworkingReady", "False", 30*time.Minute)),
			node("c", health("KernelReady", "False", 30*time.Minute)), node("d", health("ContainerRuntimeReady", "False", 30*time.Minute))),
			want: []string{"a: StorageReady=False", "b: NetworkingReady=False", "c: KernelReady=False", "d: ContainerRuntimeReady=False"}},
		{name: "what it does not know", nodes: append(healthy(4), node("a", health("KernelReady", "Unknown", time.Hour))), want: nil},
		{name: "a condition of somebody else", nodes: append(healthy(4), node("a", health("CoffeeReady", "False", time.Hour))), want: nil},
		{name: "the one that runs out first is named", nodes: append(healthy(4), node("a", notReady(40*time.Minute), health("AcceleratedHardwareReady", "False", 19*time.Minute))),
			want: []string{"a: Ready=False"}},
		{name: "and decides when", nodes: append(healthy(4), node("a", notReady(5*time.Minute), health("AcceleratedHardwareReady", "False", 4*time.Minute))), next: 6 * time.Minute},
		{name: "one that has never reported", nodes: append(healthy(4), node("a", func(n *model.Node) { n.Ready, n.ReadySince = false, time.Time{} }))},
		{name: "a claim that has not joined", nodes: append(healthy(4), node("", notReady(time.Hour)))},
		{name: "somebody else's node", nodes: append(healthy(4), node("a", notReady(time.Hour), foreign))},
		{name: "one that is being deleted", nodes: append(healthy(4), node("a", notReady(time.Hour), func(n *model.Node) { n.Deleting = &at })), want: nil},
		{name: "which counts all the same", nodes: append(healthy(3), node("a", notReady(time.Hour), func(n *model.Node) { n.Claim.Deleting = &at }), node("b", notReady(time.Hour))),
			want: []string{"b: Ready=False (more than 20% nodes are unhealthy in the nodepool: 2 of 5)"}},
		{name: "pools count apart", nodes: append(healthy(9), node("a", notReady(time.Hour), pool("q")), node("b", notReady(time.Hour), pool("q"))),
			want: []string{"a: Ready=False (more than 20% nodes are unhealthy in the nodepool: 2 of 2)", "b: Ready=False (more than 20% nodes are unhealthy in the nodepool: 2 of 2)"}},
		{name: "without a pool the cluster counts", nodes: append(healthy(9), node("a", notReady(time.Hour), pool("")), node("b", notReady(time.Hour), pool("q"))),
			want: []string{"a: Ready=False", "b: Ready=False"}},
		{name: "and may be too broken", nodes: append(healthy(1), node("a", notReady(time.Hour), pool("")), node("b", notReady(time.Hour), foreign)),
			want: []string{"a: Ready=False (more than 20% nodes are unhealthy in the cluster: 2 of 3)"}},
		{name: "a cluster that is frozen", nodes: append(healthy(4), node("a", notReady(time.Hour))), frozen: "the clock jumped", want: []string{"a: Ready=False (the clock jumped)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := Find(tt.nodes, Policies(), tt.frozen, t0)
			var got []string
			for _, f := range r.Findings {
				text := f.Node.Name + ": " + f.Condition.Type + "=" + f.Condition.Status
				if f.Blocked != "" {
					text += " (" + f.Blocked + ")"
				}
				got = append(got, text)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("findings (-want +got)\n%s", d)
			}
			next := time.Duration(0)
			if !r.Next.IsZero() {
				next = r.Next.Sub(t0)
			}
			if next != tt.next {
				t.Errorf("looks again after %s, expected %s", next, tt.next)
			}
		})
	}
}

func TestWithoutPoliciesNobodyIsUnhealthy(t *testing.T) {
	t.Parallel()
	if r := Find(append(healthy(3), node("a", notReady(time.Hour))), nil, "", t0); len(r.Findings) != 0 || !r.Next.IsZero() {
		t.Errorf("%+v", r)
	}
}

// TestBrake holds that never more than a fifth of a pool, rounded up, is replaced, and
// that whoever is replaced was unhealthy for as long as is tolerated.
func TestBrake(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*model.Node
		sizes := map[string]int{}
		for i := range rapid.IntRange(1, 40).Draw(t, "nodes") {
			p := rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "pool")
			n := node(fmt.Sprintf("n%d", i), pool(p))
			if rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
				notReady(time.Duration(rapid.IntRange(0, 60).Draw(t, "minutes")) * time.Minute)(n)
			}
			nodes = append(nodes, n)
			sizes[p]++
		}
		replaced := map[string]int{}
		for _, f := range Find(nodes, Policies(), "", t0).Findings {
			if t0.Sub(f.Node.ReadySince) < 30*time.Minute || f.Node.Ready {
				t.Errorf("%s is found although it is not ready for %s only", f.Node.Name, t0.Sub(f.Node.ReadySince))
			}
			if f.Blocked == "" {
				replaced[f.Node.Claim.Pool]++
			}
		}
		for p, n := range replaced {
			if p != "" && float64(n-1) >= 0.2*float64(sizes[p]) {
				t.Errorf("%d of %d nodes of pool %s are replaced", n, sizes[p], p)
			}
		}
		if n := replaced[""]; float64(n-1) >= 0.2*float64(len(nodes)) {
			t.Errorf("%d of the %d nodes of the cluster are replaced", n, len(nodes))
		}
	})
}
