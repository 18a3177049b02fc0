package simulate

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: simulate.weir.dev/v1alpha1\nkind: Scenario\nmetadata: {name: x}\n"

func TestScenarioIsRead(t *testing.T) {
	t.Parallel()
	s, err := ParseScenario(strings.NewReader("# a comment\n---\n"+head+`spec:
  title: T
  seed: 7
  start: "2026-01-01T00:00:00Z"
  end: 1h
  delays: {run: 0s, join: 3s}
  steps:
    - {at: 5m, scale: {workload: default/web, replicas: 0}}
    - {at: 0s, title: first, apply: [a.yaml, b.yaml]}
    - {at: 5m, reclaim: {nodePool: spot, count: 2}}
    - {at: 6m, kill: {effect: SendLaunch, after: true, restart: 30s}}
    - {at: 7m, fault: {op: CreateFleet, count: 2, lose: true}}
    - {at: 8m, capacity: {offering: "*/us-east-1a/spot", left: 0}}
    - {at: 9m, expect: {workload: default/web, running: 3, nodes: {spot: 1}, maxUsdPerHour: 1.5}}
`), "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.Seed != 7 || s.Title != "T" || s.End != time.Hour || !s.Start.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("header: %+v", s)
	}
	d := s.Delays.withDefaults()
	if d.Join != 3*time.Second || d.Run > time.Microsecond || d.Ready != 10*time.Second {
		t.Errorf("delays: %+v", d)
	}
	var kinds []string
	for _, x := range s.Steps {
		switch {
		case x.Apply != nil:
			kinds = append(kinds, "apply")
		case x.Scale != nil:
			kinds = append(kinds, "scale")
		case x.Reclaim != nil:
			kinds = append(kinds, "reclaim")
		case x.Kill != nil:
			kinds = append(kinds, "kill "+time.Duration(x.Kill.Restart).String())
		case x.Fault != nil:
			kinds = append(kinds, "fault")
		case x.Short != nil:
			kinds = append(kinds, "capacity")
		case x.Expect != nil:
			kinds = append(kinds, "expect")
		}
	}
	if d := cmp.Diff([]string{"apply", "scale", "reclaim", "kill 30s", "fault", "capacity", "expect"}, kinds); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
}

func TestBadScenarios(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, field, msg string }{
		"empty":             {"", "", "no document"},
		"broken YAML":       {"a: [", "", "did not find"},
		"doubled key":       {head + "spec: {seed: 1, seed: 2}", "", "already set"},
		"another kind":      {"apiVersion: v1\nkind: Pod\nspec: {}", "apiVersion", "expected simulate.weir.dev/v1alpha1"},
		"no spec":           {head, "spec", "must be set"},
		"unknown field":     {head + "spec: {sead: 1}", "spec.sead", "unknown field"},
		"wrong type":        {head + "spec: {seed: many}", "spec.seed", "expected uint64"},
		"unknown delay":     {head + "spec: {delays: {boot: 3s}}", "spec.delays.boot", "unknown field"},
		"bad duration":      {head + "spec: {end: soon}", "spec", "expected a duration"},
		"negative time":     {head + "spec: {steps: [{at: -1m, title: x}]}", "spec.steps[0]", "expected a duration"},
		"no time":           {head + "spec: {steps: [{apply: [a]}]}", "spec.steps[0].at", "must be set"},
		"two actions":       {head + "spec: {steps: [{at: 0s, title: x}, {at: 0s, apply: [a], scale: {workload: a/b, replicas: 1}}]}", "spec.steps[1]", "exactly one of"},
		"no action":         {head + "spec: {steps: [{at: 0s}]}", "spec.steps[0]", "exactly one of"},
		"unknown in step":   {head + "spec: {steps: [{at: 0s, scale: {workload: a/b, replica: 1}}]}", "spec.steps[0].replica", "unknown field"},
		"no replicas":       {head + "spec: {steps: [{at: 0s, scale: {workload: a/b}}]}", "spec.steps[0].scale.replicas", "at least 0"},
		"workload":          {head + "spec: {steps: [{at: 0s, scale: {workload: b, replicas: 1}}]}", "spec.steps[0].scale.workload", "namespace/name"},
		"reclaim of what":   {head + "spec: {steps: [{at: 0s, reclaim: {count: 1}}]}", "spec.steps[0].reclaim", "exactly one of nodePool and node"},
		"fault of what":     {head + "spec: {steps: [{at: 0s, fault: {op: Nope, count: 1, lose: true}}]}", "spec.steps[0].fault.op", "expected one of"},
		"fault without end": {head + "spec: {steps: [{at: 0s, fault: {op: CreateFleet, lose: true}}]}", "spec.steps[0].fault.count", "at least 1"},
		"offering":          {head + "spec: {steps: [{at: 0s, capacity: {offering: x, left: 0}}]}", "spec.steps[0].capacity.offering", "type/zone/capacity-type"},
		"delete of what":    {head + "spec: {steps: [{at: 0s, delete: {kind: Moon, name: x}}]}", "spec.steps[0].delete.kind", "expected one of"},
		"after the end":     {head + "spec: {end: 10m, steps: [{at: 20m, title: x}, {at: 10m, title: z}]}", "spec.steps[0].at", "20m0s is after the end of the run, 10m0s"},
		"expected too late": {head + "spec: {end: 10m, steps: [{at: 0s, title: x}, {at: 601s, expect: {running: 1}}]}", "spec.steps[1].at", "after the end"},
		"second document":   {head + "spec: {}\n---\n" + head + "spec: {}", "", "second document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseScenario(strings.NewReader(tc.text), "s.yaml")
			var fe *FieldError
			if !errors.As(err, &fe) {
				t.Fatalf("error %v, want a FieldError", err)
			}
			if fe.File != "s.yaml" || fe.Field != tc.field || !strings.Contains(fe.Msg, tc.msg) {
				t.Errorf("got %q (field %q), want field %q and %q", fe.Error(), fe.Field, tc.field, tc.msg)
			}
		})
	}
}

func FuzzParseScenario(f *testing.F) {
	demo, err := os.ReadFile("../../integration/demo/scenario.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(demo))
	f.Add(head + "spec: {steps: [{at: 0s, kill: {}}]}")
	f.Add("---\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScenario(strings.NewReader(text), "fuzz")
		var fe *FieldError
		if err != nil && !errors.As(err, &fe) {
			t.Errorf("error %v is no FieldError", err)
		}
		if (s == nil) != (err != nil) {
			t.Errorf("scenario %v with error %v", s, err)
		}
	})
}
