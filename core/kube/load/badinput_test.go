package load_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/provision"
)

// planned does what `weir simulate provision` does with a file.
func planned(t *testing.T, files ...string) (*model.Plan, error) {
	t.Helper()
	in, err := load.Files([]string{"-"}, strings.NewReader(strings.Join(files, "\n---\n")), load.Options{})
	if err != nil {
		return nil, err
	}
	w := in.World(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	for name, c := range w.NodeClasses {
		if w.Offerings == nil {
			w.Offerings = map[string][]*model.Offering{}
		}
		w.Offerings[name] = catalogue.Embedded().Offerings(c, nil, catalogue.Options{})
	}
	attach.World(w)
	return provision.Plan(w, nil), nil
}

// podWith is a pod with more in its spec, in flow style.
func podWith(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, labels: {app: x}}\nspec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]%s}\n", name, spec)
}

func many(n int, f func(i int) string) string {
	var parts []string
	for i := range n {
		parts = append(parts, f(i))
	}
	return strings.Join(parts, ", ")
}

// Bad and absurd input gets a verdict or an error that says what is wrong; the plan
// for everything else is made.
func TestBadInputGetsAVerdictOrAnError(t *testing.T) {
	t.Parallel()
	affinity := func(kind, terms string) string {
		return fmt.Sprintf(", affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [%s]}}", kind, terms)
	}
	nodeTerms := func(terms string) string {
		return fmt.Sprintf(", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}", terms)
	}
	spread := func(key, selector string) string {
		return fmt.Sprintf(", topologySpreadConstraints: [{maxSkew: 1, topologyKey: %s, whenUnsatisfiable: DoNotSchedule, labelSelector: %s}]", key, selector)
	}
	huge := strings.Repeat("k", 10<<20)
	for _, c := range []struct {
		name   string
		bad    string
		err    string // of the load, or
		filter model.Filter
		words  string // of the verdict; filter and words empty: the pod has a place
	}{
		{name: "requirements that contradict each other", bad: podWith("bad", ", nodeSelector: {topology.kubernetes.io/zone: us-east-1a}"+nodeTerms("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}]}")[0:]), filter: model.FilterRequirements, words: "contradict"},
		{name: "an empty node term", bad: podWith("bad", nodeTerms("{}")), filter: model.FilterRequirements, words: "matches no node"},
		{name: "no node terms", bad: podWith("bad", nodeTerms("")), err: "nodeSelectorTerms"},
		{name: "a bound that is no number", bad: podWith("bad", nodeTerms("{matchExpressions: [{key: example.com/size, operator: Gt, values: [large]}]}")), filter: model.FilterRequirements, words: "expected an integer"},
		{name: "a selector that matches nothing", bad: podWith("bad", affinity("podAffinity", "{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: nobody}}}")), filter: model.FilterAffinity, words: "affinity"},
		{name: "no selector at all", bad: podWith("bad", affinity("podAffinity", "{topologyKey: topology.kubernetes.io/zone}")), filter: model.FilterAffinity, words: "affinity"},
		{name: "anti-affinity to nobody", bad: podWith("bad", affinity("podAntiAffinity", "{topologyKey: topology.kubernetes.io/zone}"))},
		{name: "a spread that selects nothing", bad: podWith("bad", spread("topology.kubernetes.io/zone", "{matchLabels: {app: nobody}}"))},
		{name: "a spread over a key that nothing has", bad: podWith("bad", spread("example.com/rack", "{matchLabels: {app: x}}")), filter: model.FilterTopology, words: "example.com/rack"},
		{name: "an affinity over a key that nothing has", bad: podWith("bad", affinity("podAffinity", "{topologyKey: example.com/rack, labelSelector: {matchLabels: {app: x}}}")), filter: model.FilterTopology, words: "example.com/rack"},
		{name: "a negative request", bad: strings.Replace(podWith("bad", ""), "100m", "'-1'", 1), err: "greater than or equal to 0"},
		{name: "a request beyond any number", bad: strings.Replace(podWith("bad", ""), "100m", "9e30", 1), filter: model.FilterResources, words: "cpu"},
		{name: "requests that overflow together", bad: strings.Replace(podWith("bad", ""), "containers: [", "containers: [{name: d, resources: {requests: {memory: 8Ei, cpu: 9e15}}}, {name: e, resources: {requests: {memory: 8Ei, cpu: 9e15}}}, ", 1), filter: model.FilterResources},
		{name: "a quantity that is none", bad: strings.Replace(podWith("bad", ""), "100m", "lots", 1), err: "lots"},
		{name: "an unknown resource", bad: strings.Replace(podWith("bad", ""), "cpu: 100m", "example.com/unobtainium: 1", 1), filter: model.FilterResources, words: "example.com/unobtainium"},
		{name: "a StorageClass that does not exist", bad: podWith("bad", ", volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]") +
			"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: default}\nspec: {storageClassName: gone, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n", filter: model.FilterVolumes, words: "gone"},
		{name: "a volume claim that does not exist", bad: podWith("bad", ", volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}]"), filter: model.FilterVolumes, words: "gone"},
		{name: "a restricted label", bad: podWith("bad", ", nodeSelector: {karpenter.sh/made-up: x}"), filter: model.FilterRequirements, words: "restricted"},
		{name: "1,000 pod affinity terms", bad: podWith("bad", affinity("podAffinity", many(1000, func(i int) string {
			return fmt.Sprintf("{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: a%d}}}", i)
		}))), filter: model.FilterAffinity, words: "affinity"},
		{name: "1,000 anti-affinity terms", bad: podWith("bad", affinity("podAntiAffinity", many(1000, func(i int) string {
			return fmt.Sprintf("{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: a%d}}}", i)
		})))},
		{name: "1,000 node terms of which the last will do", bad: podWith("bad", nodeTerms(many(1000, func(i int) string {
			return fmt.Sprintf("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}", map[bool]string{true: "us-east-1a", false: fmt.Sprintf("z%d", i)}[i == 999])
		})))},
		{name: "10,000 values of one requirement", bad: podWith("bad", nodeTerms("{matchExpressions: [{key: topology.kubernetes.io/zone, operator: NotIn, values: ["+many(10000, func(i int) string { return fmt.Sprintf("z%d", i) })+"]}]}"))},
		{name: "a label key of 10 MB", bad: podWith("bad", ", nodeSelector: {? "+huge+" : x}"), err: "bytes left out"},
		{name: "a port that is none", bad: strings.Replace(podWith("bad", ""), "name: c,", "name: c, ports: [{containerPort: 80, hostPort: 99999}],", 1), err: "99999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := planned(t, class, pool, c.bad, podWith("good", ""))
			if err != nil {
				if c.err == "" || !strings.Contains(err.Error(), c.err) || len(err.Error()) > 2000 {
					t.Fatalf("%.300v, want an error with %q", err, c.err)
				}
				return
			}
			placed := map[string]bool{}
			for _, n := range plan.Launch {
				for _, p := range n.Pods {
					placed[p.Name] = true
				}
			}
			if !placed["good"] {
				t.Errorf("the other pod has no place: %+v", plan.Unplaced)
			}
			var reason *model.Reason
			for _, v := range plan.Unplaced {
				if v.Pod.Name == "bad" {
					reason = &v.Reasons[0]
				}
			}
			switch {
			case reason == nil && !placed["bad"]:
				t.Error("the pod is neither placed nor answered")
			case c.filter == "" && c.err == "" && reason != nil:
				t.Errorf("the pod has no place: %+.300v", *reason)
			case c.filter != "" && (reason == nil || reason.Filter != c.filter || !strings.Contains(reason.Message, c.words)):
				t.Errorf("reason %+.300v, want %s with %q", reason, c.filter, c.words)
			}
			for _, w := range plan.Warnings {
				if strings.Contains(w, "refused") {
					t.Errorf("warning: %s", w)
				}
			}
		})
	}
}

// Much input is answered, too: the work grows with it, not with its square.
func TestMuchInputIsAnswered(t *testing.T) {
	t.Parallel()
	repeat := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i) + "---\n")
		}
		return b.String()
	}
	for _, c := range []struct {
		name   string
		input  string
		placed int
	}{
		{"10,000 pools", repeat(10000, func(i int) string { return strings.Replace(pool, "name: p}", fmt.Sprintf("name: p%d}", i), 1) }) + podWith("a", ""), 1},
		{"pods with 1,000 distinct selectors", repeat(1000, func(i int) string {
			return strings.Replace(podWith(fmt.Sprintf("p%d", i), fmt.Sprintf(", topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a%d}}}]", i)),
				"app: x", fmt.Sprintf("app: a%d", i), 1)
		}) + pool, 1000},
		{"20,000 pods that shun each other", strings.Replace(strings.Replace(deployment, "replicas: 3", "replicas: 20000", 1), "    spec:\n", "    spec:\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}\n", 1) + "\n---\n" + pool, 20000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := planned(t, class, c.input)
			if err != nil {
				t.Fatalf("%.300v", err)
			}
			n := 0
			for _, x := range plan.Launch {
				n += len(x.Pods)
			}
			if n != c.placed || len(plan.Unplaced) > 0 {
				t.Errorf("%d pods placed, %d not; want %d", n, len(plan.Unplaced), c.placed)
			}
		})
	}
}
