package drain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

// Who is in the way by the objects alone: the same pods that a drain would find to be when it asks.
func TestExplain(t *testing.T) {
	t.Parallel()
	pdb := func(name, app string, allowed int32, always bool) *model.PDB {
		return &model.PDB{Namespace: "ns", Name: name, DisruptionsAllowed: allowed, AlwaysAllow: always, Selects: func(l map[string]string) bool { return l["app"] == app }}
	}
	pdbs := []*model.PDB{pdb("closed", "closed", 0, false), pdb("open", "open", 1, false), pdb("sick", "sick", 0, true), pdb("one", "both", 1, false), pdb("two", "both", 1, false)}
	pod := func(app string, ready bool, opts ...func(*model.Pod)) *model.Pod {
		p := &model.Pod{Namespace: "ns", Name: app, UID: app, Labels: map[string]string{"app": app}, GracePeriod: 30 * time.Second, Ready: ready, Created: t0.Add(-time.Hour)}
		for _, o := range opts {
			o(p)
		}
		return p
	}
	late := pod("closed", true, func(p *model.Pod) { p.Name, p.UID, p.Created = "late", "late", t0.Add(time.Minute) })
	pods := []*model.Pod{pod("closed", true), pod("open", true), pod("sick", false), pod("both", true), late,
		pod("kept", true, func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"} }),
		pod("mirror", true, func(p *model.Pod) { p.Mirror = true }),
		pod("critical", true, func(p *model.Pod) { p.PriorityClass = "system-node-critical" })}
	for name, c := range map[string]struct {
		terms Terms
		want  []string
	}{
		"no drain":               {Terms{}, []string{"closed PodDisruptionBudget - -", "both MultiplePodDisruptionBudgets - -", "late PodDisruptionBudget - -", "kept DoNotDisrupt - -"}},
		"a drain without an end": {Terms{Began: t0}, []string{"closed PodDisruptionBudget 10:00:00 -", "both MultiplePodDisruptionBudgets 10:00:00 -", "late PodDisruptionBudget 10:01:00 -", "kept DoNotDisrupt 10:00:00 -"}},
		"a grace period": {Terms{Began: t0, Deadline: t0.Add(time.Hour)}, []string{"closed PodDisruptionBudget 10:00:00 10:59:30", "both MultiplePodDisruptionBudgets 10:00:00 10:59:30",
			"late PodDisruptionBudget 10:01:00 10:59:30", "kept DoNotDisrupt 10:00:00 10:59:30"}},
	} {
		at := func(t time.Time) string {
			if t.IsZero() {
				return "-"
			}
			return t.Format(time.TimeOnly)
		}
		var got []string
		for _, b := range Explain(c.terms, &model.Node{Name: "n"}, pods, pdbs, t0.Add(2*time.Minute)) {
			got = append(got, fmt.Sprintf("%s %s %s %s", b.Pod.Name, b.Reason, at(b.Since), at(b.Force)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
