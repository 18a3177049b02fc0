package disrupt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
)

// drifts marks a node as drifted for so long.
func drifts(since time.Duration) func(*model.Node) {
	return func(n *model.Node) {
		n.Claim.Conditions = append(n.Claim.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Reason: "AMIDrift", Since: noon.Add(-since)})
	}
}

func onPool(key, value string) func(*model.World) {
	return pool(func(p *model.Pool) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	})
}

// wave is one that took node n1 with one ready pod of web some minutes before noon.
func wave(minutes int) *disrupt.Wave {
	w := world(node("n1", "m5.large", pod("web-1", 100, of("web", born))))
	w.Now = noon.Add(-time.Duration(minutes) * time.Minute)
	var wv *disrupt.Wave
	return wv.Take(w, w.Pools[0], w.Nodes[0])
}

func cordoned(n *model.Node) {
	n.Taints = append(n.Taints, model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule})
}

// What a wave is followed by, and what it waits for.
func TestWaves(t *testing.T) {
	t.Parallel()
	since := func(ago time.Duration) func(*model.Node) {
		return func(n *model.Node) { n.Claim.Created = noon.Add(-ago) }
	}
	fresh, dead := since(5*time.Minute), func(n *model.Node) { n.Ready = false }
	down := func(p *model.Pod) { of("web", noon.Add(-4*time.Minute))(p); p.Ready = false }
	waits := func(w *model.World) {
		p := &model.Pod{Namespace: "x", Name: "web-2"}
		down(p)
		w.Pods = append(w.Pods, p)
	}
	for name, tc := range map[string]struct {
		age     int
		failing string
		world   []func(*model.World)
		why     string // empty: the next wave may start
		halted  bool
	}{
		"done":                     {age: 6, world: []func(*model.World){node("n2", "m5.large", fresh, pod("web-2", 100, of("web", noon.Add(-4*time.Minute))))}},
		"still draining":           {age: 6, world: []func(*model.World){node("n1", "m5.large", cordoned)}, why: "1 nodes of the wave before are still on their way out: n1"},
		"draining for long":        {age: 16, world: []func(*model.World){node("n1", "m5.large", cordoned)}},
		"new node starts":          {age: 6, world: []func(*model.World){node("n2", "m5.large", fresh, dead)}, why: "1 of the new nodes are not ready: n2"},
		"new node never starts":    {age: 11, world: []func(*model.World){node("n2", "m5.large", since(10*time.Minute), dead)}, why: "1 of the new nodes are not ready: n2", halted: true},
		"a node of others starts":  {age: 11, world: []func(*model.World){node("n2", "m5.large", since(time.Minute), dead)}},
		"a pod that came later":    {age: 20, world: []func(*model.World){waits}},
		"an old node is not ready": {age: 11, world: []func(*model.World){node("n2", "m5.large", func(n *model.Node) { n.Ready = false })}},
		"a moved pod waits":        {age: 6, world: []func(*model.World){waits}, why: "1 pods that were moved are not available: x/web-2"},
		"a moved pod never runs":   {age: 11, world: []func(*model.World){waits}, why: "1 pods that were moved are not available: x/web-2", halted: true},
		"a moved pod crashes":      {age: 11, world: []func(*model.World){node("n2", "m5.large", fresh, pod("web-2", 100, down))}, why: "not available: x/web-2", halted: true},
		"a pod of others waits":    {age: 11, world: []func(*model.World){waits, func(w *model.World) { of("other", noon)(w.Pods[0]) }}},
		"rolled back":              {age: 6, world: []func(*model.World){node("n1", "m5.large")}, why: "the replacements of n1 did not come to be usable", halted: true},
		"rolled back long ago":     {age: 31, world: []func(*model.World){node("n1", "m5.large")}},
		"mended":                   {age: 6, world: []func(*model.World){node("n1", "m5.large"), pool(func(p *model.Pool) { p.Hash = "2" })}},
		"machines do not join":     {age: 6, failing: "machines did not join", why: "machines did not join; it is tried again then", halted: true},
		"another image":            {age: 6, failing: "machines did not join", world: []func(*model.World){func(w *model.World) { w.NodeClasses["c"].Images = []model.Image{{ID: "ami-2"}} }}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(tc.world...)
			h := wave(tc.age).Hold(w, nil, tc.failing)
			switch {
			case tc.why == "" && h != nil:
				t.Errorf("held: %+v", h)
			case tc.why != "" && (h == nil || !strings.Contains(h.Why, tc.why) || h.Halted != tc.halted):
				t.Errorf("%+v, want %q, halted %t", h, tc.why, tc.halted)
			}
		})
	}
}

// A pod that was not ready before it was moved need not be after.
func TestWavesDoNotWaitForWhatWasBrokenBefore(t *testing.T) {
	t.Parallel()
	w := world(node("n1", "m5.large", pod("web-1", 100, of("web", born), func(p *model.Pod) { p.Ready = false })))
	var wv *disrupt.Wave
	wv = wv.Take(w, w.Pools[0], w.Nodes[0])
	after := world(node("n2", "m5.large", func(n *model.Node) { n.Claim.Created = noon.Add(time.Minute) }, pod("web-2", 100, of("web", noon.Add(time.Minute)), func(p *model.Pod) { p.Ready = false })))
	after.Now = noon.Add(20 * time.Minute)
	if h := wv.Hold(after, nil, ""); h != nil {
		t.Errorf("held: %s", h.Why)
	}
}

// Soak, waves, minimum age and pauses hold nodes back, each with what a person reads.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	soon, later := noon.Add(24*time.Hour), noon.Add(time.Hour)
	minAge := func(d time.Duration) func(*model.World) { return func(w *model.World) { w.Settings.MinNodeAge = d } }
	waves := func(h model.Hold) disrupt.Options {
		return disrupt.Options{Held: map[string]*model.Hold{"default": &h}}
	}
	for name, tc := range map[string]struct {
		opts    disrupt.Options
		world   []func(*model.World)
		drifted bool
		reason  string // empty: it goes
		message string
		until   *time.Time
	}{
		"drift":                  {drifted: true},
		"soaks":                  {world: []func(*model.World){onPool(model.AnnotationSoak, "72h")}, drifted: true, reason: disrupt.BlockedSoak, message: "AMIDrift since 2026-03-02T12:00:00Z", until: &soon},
		"has soaked":             {world: []func(*model.World){onPool(model.AnnotationSoak, "48h")}, drifted: true},
		"soak of nonsense":       {world: []func(*model.World){onPool(model.AnnotationSoak, "3 days")}, drifted: true, reason: disrupt.BlockedSoak, message: `annotation weir.dev/soak: expected a duration such as 72h, got "3 days"`},
		"the wave before":        {opts: waves(model.Hold{Why: "two are not ready", Until: &later}), drifted: true, reason: disrupt.BlockedWave, message: "two are not ready", until: &later},
		"halted":                 {opts: waves(model.Hold{Halted: true, Why: "two are not ready"}), drifted: true, reason: disrupt.BlockedHalted, message: "two are not ready"},
		"halted, not drifted":    {opts: waves(model.Hold{Halted: true}), drifted: false},
		"paused":                 {opts: disrupt.Options{Paused: map[string]*model.Hold{"default": {Why: "round and round", Until: &later}}}, reason: disrupt.BlockedPaused, message: "round and round", until: &later},
		"too young":              {world: []func(*model.World){minAge(49 * time.Hour)}, reason: disrupt.BlockedYoung, message: "younger than 49h0m0s", until: &later},
		"too young for drift":    {world: []func(*model.World){minAge(49 * time.Hour)}, drifted: true, reason: disrupt.BlockedYoung, message: "younger than 49h0m0s", until: &later},
		"old enough":             {world: []func(*model.World){minAge(48 * time.Hour)}},
		"another pool is paused": {opts: disrupt.Options{Paused: map[string]*model.Hold{"other": {}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(append([]func(*model.World){node("n1", "m5.large", pod("p1", 200)), node("n2", "m5.large", pod("p2", 200))}, tc.world...)...)
			w.Nodes[1].Annotations[model.AnnotationDoNotDisrupt] = "true"
			if tc.drifted {
				w.Pools[0].ConsolidateAfter = model.Never
				drifts(48 * time.Hour)(w.Nodes[0])
			}
			p := disrupt.Plan(w, nil, nil, tc.opts)
			if tc.reason == "" {
				if diff := cmp.Diff([]string{"n1"}, removed(p)); diff != "" {
					t.Fatalf("removed (-want +got):\n%s%+v", diff, p.Blocked)
				}
				return
			}
			b := blocked(t, p, "n1")
			if b.Reason != tc.reason || !strings.Contains(b.Message, tc.message) {
				t.Errorf("got %s %q, want %s with %q", b.Reason, b.Message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.until, b.Until); diff != "" {
				t.Errorf("until (-want +got):\n%s", diff)
			}
		})
	}
}

// By force, or in turn: what happens to nodes past their expireAfter.
func TestBudgetedExpiry(t *testing.T) {
	t.Parallel()
	old := func(n *model.Node) { n.Claim.ExpireAfter = 47 * time.Hour }
	three := func(opts ...func(*model.World)) *model.World {
		return world(append([]func(*model.World){node("n1", "m5.large", old, pod("p1", 200)), node("n2", "m5.large", old, pod("p2", 200)), node("n3", "m5.large", pod("p3", 200)),
			pool(func(p *model.Pool) {
				p.ConsolidateAfter, p.Budgets = model.Never, []model.Budget{{Nodes: "1"}}
			})}, opts...)...)
	}
	force := disrupt.Plan(three(), nil, nil, disrupt.Options{Expire: true})
	if diff := cmp.Diff([]string{"n1", "n2"}, removed(force)); diff != "" || force.Commands[0].Reason != model.Expired {
		t.Errorf("by force (-want +got):\n%s", diff)
	}
	turn := disrupt.Plan(three(onPool(model.AnnotationExpire, model.ExpireBudgeted)), nil, nil, disrupt.Options{Expire: true})
	if len(turn.Commands) != 1 || turn.Commands[0].Reason != model.Expired || len(turn.Commands[0].Remove) != 1 || !strings.Contains(turn.Commands[0].Why, "expireAfter of 47h0m0s") {
		t.Errorf("in turn: %+v", turn.Commands)
	}
	if len(turn.Commands) == 1 {
		other := map[string]string{"n1": "n2", "n2": "n1"}[turn.Commands[0].Remove[0].ID()]
		if b := blocked(t, turn, other); b.Reason != disrupt.BlockedBudget {
			t.Errorf("%s: %s %q", other, b.Reason, b.Message)
		}
	}
	drifted := pool(func(p *model.Pool) {
		p.Budgets = []model.Budget{{Nodes: "0", Reasons: []model.DisruptionReason{model.Drifted}}}
	})
	none := disrupt.Plan(three(onPool(model.AnnotationExpire, model.ExpireBudgeted), drifted), nil, nil, disrupt.Options{Expire: true})
	if len(none.Commands) != 0 {
		t.Errorf("a budget for drift holds for them, too: %v", removed(none))
	}
}

// What is written on a pool and means nothing is said.
func TestAnnotationsOfNonsense(t *testing.T) {
	t.Parallel()
	p := plan(world(onPool(model.AnnotationExpire, "gently"), onPool(model.AnnotationSoak, "-1h")))
	want := []string{
		`NodePool default: annotation weir.dev/expire: expected "budgeted", got "gently"; its nodes are ended by force when they are past their expireAfter`,
		`NodePool default: annotation weir.dev/soak: expected a duration such as 72h, got "-1h"; until it is mended no node of this pool is replaced for drift`,
	}
	if diff := cmp.Diff(want, p.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Nodes that were bought together do not come due together, and none after its time.
func TestExpiryIsSpread(t *testing.T) {
	t.Parallel()
	p := &model.Pool{Annotations: map[string]string{model.AnnotationExpire: model.ExpireBudgeted}}
	first, last := noon.Add(1000*time.Hour), noon
	for i := range 50 {
		c := &model.Claim{Name: "c", UID: string(rune('a' + i)), Created: noon, ExpireAfter: 100 * time.Hour}
		at, ever := disrupt.ExpiresAt(p, c)
		if !ever || at.After(noon.Add(100*time.Hour)) || at.Before(noon.Add(90*time.Hour)) {
			t.Fatalf("claim %d comes due at %s", i, at)
		}
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
		if at, _ := disrupt.ExpiresAt(nil, c); !at.Equal(noon.Add(100 * time.Hour)) {
			t.Errorf("without the annotation: %s", at)
		}
	}
	if last.Sub(first) < 5*time.Hour {
		t.Errorf("all of 50 come due within %s", last.Sub(first))
	}
	if _, ever := disrupt.ExpiresAt(p, &model.Claim{Created: noon, ExpireAfter: model.Never}); ever {
		t.Error("Never is never")
	}
}
