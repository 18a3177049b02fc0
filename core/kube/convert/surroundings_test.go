package convert_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
)

// at completes a pod with surroundings.
func at(t *testing.T, p *corev1.Pod, around *convert.Surroundings) *model.Pod {
	t.Helper()
	s, err := convert.ShapeOf(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &model.Pod{}
	s.Apply(m)
	convert.Metadata(&p.ObjectMeta, m)
	s.Around(m, around)
	return m
}

func TestNamespaceSelector(t *testing.T) {
	t.Parallel()
	around := &convert.Surroundings{}
	around.SetNamespace("red", map[string]string{"team": "red"})
	around.SetNamespace("blue", map[string]string{"team": "blue"})
	around.SetNamespace("bare", nil)
	ask := func(kind, term string) *corev1.Pod {
		return podOf(t, `{metadata: {namespace: default}, spec: {affinity: {`+kind+`: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}, `+term+`}]}}}}`)
	}
	for name, c := range map[string]struct {
		term string
		want []string // namespaces whose pods it picks
	}{
		"its own":             {`matchLabelKeys: []`, []string{"default"}},
		"named":               {`namespaces: [red, bare]`, []string{"bare", "red"}},
		"every":               {`namespaceSelector: {}`, []string{"bare", "blue", "default", "red"}},
		"by label":            {`namespaceSelector: {matchLabels: {team: red}}`, []string{"red"}},
		"by label and named":  {`namespaceSelector: {matchLabels: {team: red}}, namespaces: [blue]`, []string{"blue", "red"}},
		"by name":             {`namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bare}}`, []string{"bare"}},
		"none":                {`namespaceSelector: {matchLabels: {team: green}}`, nil},
		"without the label":   {`namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}`, []string{"bare"}},
		"every and some more": {`namespaceSelector: {}, namespaces: [blue]`, []string{"bare", "blue", "default", "red"}},
	} {
		for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
			m := at(t, ask(kind, c.term), around)
			if len(m.Unsupported) > 0 {
				t.Errorf("%s: %v", name, m.Unsupported)
				continue
			}
			term := slices.Concat(m.Topology.Affinity, m.Topology.AntiAffinity)[0]
			var got []string
			for _, ns := range []string{"bare", "blue", "default", "red"} {
				if term.Selector.Picks(&model.Pod{Namespace: ns, Labels: map[string]string{"app": "db"}}) {
					got = append(got, ns)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s %s (-want +got):\n%s", kind, name, d)
			}
		}
	}
	// where nothing is known of namespaces
	if m := at(t, ask("podAffinity", `namespaceSelector: {matchLabels: {team: red}}`), nil); len(m.Unsupported) != 1 || m.Unsupported[0].Filter != model.FilterAffinity {
		t.Errorf("affinity without namespaces: %v", m.Unsupported)
	}
	anti := at(t, ask("podAntiAffinity", `namespaceSelector: {matchLabels: {team: red}}`), nil)
	if !anti.Topology.AntiAffinity[0].Selector.Picks(&model.Pod{Namespace: "blue", Labels: map[string]string{"app": "db"}}) {
		t.Error("anti-affinity without namespaces must keep off every namespace")
	}
	if _, err := convert.ShapeOf(ask("podAffinity", `namespaceSelector: {matchExpressions: [{key: a, operator: Nonsense}]}`)); err == nil || !strings.Contains(err.Error(), "[0].namespaceSelector") {
		t.Errorf("nonsense: %v", err)
	}
}

func TestDefaultSpread(t *testing.T) {
	t.Parallel()
	cfg, err := convert.ReadSchedulerConfig([]byte(`
podTopologySpread:
  defaultConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, minDomains: 2}
  - {maxSkew: 3, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
`))
	if err != nil {
		t.Fatal(err)
	}
	around := &convert.Surroundings{Defaults: cfg.PodTopologySpread.DefaultConstraints}
	around.SetService("default", "web", map[string]string{"app": "web"})
	around.SetService("default", "all", map[string]string{"tier": "front"})
	around.SetService("default", "headless", nil)
	around.SetService("other", "web", map[string]string{"app": "web", "x": "y"})
	sel, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"hash": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}})
	if err != nil {
		t.Fatal(err)
	}
	around.SetOwner("default", "ReplicaSet", "web-1", sel)
	make := func(labels map[string]string, owner, spec string) *corev1.Pod {
		p := podOf(t, "spec: {"+spec+"}")
		p.Namespace, p.Labels, p.OwnerReferences = "default", labels, nil
		if owner != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, Controller: &yes}}
		}
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // selector, empty = no default
	}{
		"a service":              {make(map[string]string{"app": "web"}, "", ""), "default/app=web"},
		"two services":           {make(map[string]string{"app": "web", "tier": "front"}, "", ""), "default/app=web,tier=front"},
		"service and controller": {make(map[string]string{"app": "web", "hash": "1"}, "web-1", ""), "default/app=web,app,hash=1"},
		"a controller":           {make(map[string]string{"app": "x", "hash": "1"}, "web-1", ""), "default/app,hash=1"},
		"neither":                {make(map[string]string{"app": "x"}, "gone", ""), ""},
		"constraints of its own": {make(map[string]string{"app": "web"}, "", `topologySpreadConstraints: [{maxSkew: 9, topologyKey: own, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]`), ""},
	} {
		m := at(t, c.pod, around)
		if c.want == "" {
			if m.Topology != nil || m.Soft != nil && len(m.Soft.Spreads) > 1 {
				t.Errorf("%s: %+v %+v", name, m.Topology, m.Soft)
			}
			continue
		}
		if m.Topology == nil || len(m.Topology.Spreads) != 1 || m.Soft == nil || len(m.Soft.Spreads) != 1 {
			t.Errorf("%s: %+v %+v", name, m.Topology, m.Soft)
			continue
		}
		hard, soft := m.Topology.Spreads[0], m.Soft.Spreads[0]
		if hard.Selector.ID != c.want || hard.Key != model.LabelZone || hard.MaxSkew != 1 || hard.MinDomains != 2 || !hard.HonorAffinity || hard.HonorTaints {
			t.Errorf("%s: %+v, want selector %s", name, hard, c.want)
		}
		if soft.Key != model.LabelHostname || soft.MaxSkew != 3 || !hard.Selector.Picks(m) {
			t.Errorf("%s: %+v", name, soft)
		}
	}
	// other wishes stay beside the default ones
	m := at(t, make(map[string]string{"app": "web"}, "", `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}`), around)
	if len(m.Topology.Spreads) != 1 || len(m.Topology.AntiAffinity) != 1 {
		t.Errorf("beside others: %+v", m.Topology)
	}
}

func TestSchedulerConfigErrors(t *testing.T) {
	t.Parallel()
	constraint := func(s string) string { return "podTopologySpread: {defaultConstraints: [" + s + "]}" }
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":   {"podTopologySpread: {defaultConstraint: []}", `unknown field "podTopologySpread.defaultConstraint"`},
		"not an object":   {"[]", "expected YAML or JSON with podTopologySpread.defaultConstraints"},
		"twice":           {"podTopologySpread: {}\npodTopologySpread: {}", "already set"},
		"no skew":         {constraint("{topologyKey: a, whenUnsatisfiable: DoNotSchedule}"), "podTopologySpread.defaultConstraints[0].maxSkew: must be greater than 0, got 0"},
		"no key":          {constraint("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"), "defaultConstraints[0].topologyKey: is missing"},
		"bad key":         {constraint("{maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: DoNotSchedule}"), `topologyKey: "a b" is not a label key`},
		"no mode":         {constraint("{maxSkew: 1, topologyKey: a}"), `whenUnsatisfiable: expected DoNotSchedule or ScheduleAnyway, got ""`},
		"selector":        {constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}"), "labelSelector: must not be set"},
		"label keys":      {constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [x]}"), "matchLabelKeys: must not be set"},
		"soft minDomains": {constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}"), "minDomains: can only be used with"},
		"policy":          {constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Maybe}"), `nodeTaintsPolicy: expected Honor or Ignore, got "Maybe"`},
		"double": {constraint("{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}"),
			"defaultConstraints[1]: has the topologyKey and whenUnsatisfiable of defaultConstraints[0]"},
	} {
		if _, err := convert.ReadSchedulerConfig([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for _, ok := range []string{"", "{}", `{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]}}`} {
		if _, err := convert.ReadSchedulerConfig([]byte(ok)); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
}
