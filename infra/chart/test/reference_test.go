package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

var update = flag.Bool("update", false, "write docs/reference/rbac.md and docs/reference/chart.md")

// right is a rule of a role with its reason, in the order of the template.
type right struct {
	role, rule, reason string
}

// texts renders the chart and gives its files as they are, comments included.
func texts(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	full, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true, Revision: 1}, capabilities("v1.37.2"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, full)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rights are all rules of all roles of a rendered chart. Their reasons are the comments above them.
func rights(t *testing.T, values map[string]any) []right {
	t.Helper()
	files := texts(t, values)
	var out []right
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		docs := yaml.NewDecoder(strings.NewReader(files[name]))
		for {
			var doc yaml.Node
			if err := docs.Decode(&doc); err != nil {
				break // the end; whether it is YAML is looked at by render
			}
			out = append(out, rightsOf(t, &doc)...)
		}
	}
	return out
}

func rightsOf(t *testing.T, doc *yaml.Node) []right {
	t.Helper()
	if len(doc.Content) == 0 {
		return nil
	}
	kind := field(doc.Content[0], "kind")
	if kind == nil || kind.Value != "ClusterRole" && kind.Value != "Role" {
		return nil
	}
	meta := field(doc.Content[0], "metadata")
	role := kind.Value + " `" + field(meta, "name").Value + "`"
	if ns := field(meta, "namespace"); ns != nil {
		role += " in namespace `" + ns.Value + "`"
	}
	list := field(doc.Content[0], "rules")
	var out []right
	for i, n := range list.Content {
		// The comment above the first rule is one of the list's.
		comment := n.HeadComment
		if i == 0 && comment == "" {
			comment = list.HeadComment
		}
		out = append(out, right{role, ruleText(t, n), reason(comment)})
	}
	return out
}

// reason is the text of a comment, on one line.
func reason(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		words = append(words, strings.Fields(strings.TrimLeft(line, "# "))...)
	}
	return strings.Join(words, " ")
}

func field(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// ruleText is a rule as two cells of a table: what, and which verbs.
func ruleText(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var r struct {
		APIGroups     []string `yaml:"apiGroups"`
		Resources     []string `yaml:"resources"`
		ResourceNames []string `yaml:"resourceNames"`
		URLs          []string `yaml:"nonResourceURLs"`
		Verbs         []string `yaml:"verbs"`
	}
	if err := n.Decode(&r); err != nil {
		t.Fatal(err)
	}
	what := "`" + strings.Join(append(r.Resources, r.URLs...), "`, `") + "`"
	if g := strings.Join(r.APIGroups, ", "); g != "" {
		what += " of " + g
	}
	if len(r.ResourceNames) > 0 {
		what += ", only `" + strings.Join(r.ResourceNames, "`, `") + "`"
	}
	return what + " | " + strings.Join(r.Verbs, ", ")
}

// spreadDefaults is a scheduler's configuration, which makes the scaler look at more kinds.
const spreadDefaults = "podTopologySpread: {defaultConstraints: [{maxSkew: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}"

// asked are the values that bring rights.
func asked() map[string]any {
	return map[string]any{"interruption": map[string]any{"enabled": true}, "config": map[string]any{"schedulerConfig": spreadDefaults},
		"admin": map[string]any{"operators": []any{"team:operators"}}}
}

func everyRight() map[string]any { return onEC2(asked()) }

// without is everyRight but for what one value brings.
func without(value string) map[string]any {
	values := asked()
	switch value {
	case "config.schedulerConfig":
		delete(values, "config")
	case "admin.enabled":
		values["admin"] = map[string]any{"enabled": false}
	default:
		delete(values, value)
	}
	return onEC2(values)
}

// TestEveryRightHasItsReason: also that the reader of comments sees one that is missing.
func TestEveryRightHasItsReason(t *testing.T) {
	t.Parallel()
	all := rights(t, everyRight())
	if len(all) < 30 {
		t.Fatalf("only %d rules were found", len(all))
	}
	for _, r := range all {
		if len(strings.Fields(r.reason)) < 5 {
			t.Errorf("%s: rule %s has no reason above it, or one too short: %q", r.role, r.rule, r.reason)
		}
	}
	var bare yaml.Node
	text := "kind: Role\nmetadata: {name: x}\nrules:\n  # one\n  - {resources: [a], verbs: [get]}\n  - {resources: [b], verbs: [get]}\n"
	if err := yaml.Unmarshal([]byte(text), &bare); err != nil {
		t.Fatal(err)
	}
	want := []right{{"Role `x`", "`a` | get", "one"}, {"Role `x`", "`b` | get", ""}}
	if diff := cmp.Diff(want, rightsOf(t, &bare), cmp.AllowUnexported(right{})); diff != "" {
		t.Errorf("reasons of rules (-expected +is):\n%s", diff)
	}
}

const rbacHead = `# Rights in the cluster

Generated from infra/chart by ` + "`make generate`" + `; do not edit.

What the chart allows whom, and why; there is nothing else. A test runs the scaler through buying, draining and giving back with
exactly these rights and a real API server's authorizer: no call is forbidden. Names are those of release ` + "`" + release + "`" + ` in
namespace ` + "`" + namespace + "`" + ` with Karpenter's lease in ` + "`kube-system`" + `.
`

func rbacPage(t *testing.T) string {
	t.Helper()
	// What other values bring is found by leaving them out.
	when := map[string]string{}
	for _, x := range []struct {
		values map[string]any
		note   string
	}{
		{without("interruption"), "with `interruption.enabled=true`"},
		{without("config.schedulerConfig"), "with `config.schedulerConfig`"},
		{with(asked()), "with `cloud.kind=aws`"},
		{without("admin.enabled"), "unless `admin.enabled=false`"},
		{without("admin"), "with groups in `admin.viewers` or `admin.operators`"},
	} {
		have := map[string]bool{}
		for _, r := range rights(t, x.values) {
			have[r.role+r.rule] = true
		}
		for _, r := range rights(t, everyRight()) {
			if !have[r.role+r.rule] {
				when[r.role+r.rule] = x.note
			}
		}
	}
	var b strings.Builder
	b.WriteString(rbacHead)
	last := ""
	for _, r := range rights(t, everyRight()) {
		if r.role != last {
			last = r.role
			who := "The scaler, by its service account."
			switch {
			case strings.Contains(r.role, "interruption"):
				who = "The interruption functions, by the group `interruption.group` of their role."
			case strings.Contains(r.role, "strategy-operator"):
				who = "The groups in `admin.operators`."
			case strings.Contains(r.role, "strategy-viewer"), strings.Contains(r.role, "-reach"):
				who = "The groups in `admin.viewers` and `admin.operators`."
			}
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| what | verbs | reason | when |\n|---|---|---|---|\n", r.role, who)
		}
		note := when[r.role+r.rule]
		if note == "" {
			note = "always"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.rule, r.reason, note)
	}
	return b.String()
}

const chartHead = `# Values of the chart

Generated from infra/chart/values.yaml by ` + "`make generate`" + `; do not edit.

A name that is not known is an error, and so are values that do not go together. What the configuration file says beyond these is
set in ` + "`config`" + `, by the names of [configuration.md](configuration.md); a change of it takes effect without a restart where that page says
"yes", and replaces the pods where it says "no".

| value | default | meaning |
|---|---|---|
`

// setting is a leaf of values.yaml.
type setting struct{ path, value, meaning string }

// settings are the leaves of values.yaml; an object of free form (in the schema) is one.
func settings(t *testing.T, n *yaml.Node, prefix string, schema map[string]any) []setting {
	t.Helper()
	known, _ := schema["properties"].(map[string]any)
	var out []setting
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		path := prefix + k.Value
		sub, ok := known[k.Value].(map[string]any)
		if !ok {
			t.Errorf("values.yaml has %s, the schema does not", path)
		}
		fixed := v.Kind == yaml.MappingNode && sub["additionalProperties"] == false && k.Value != "resources"
		if fixed {
			out = append(out, settings(t, v, path+".", sub)...)
			continue
		}
		var plain any
		if err := v.Decode(&plain); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, setting{path, string(text), reason(k.HeadComment)})
	}
	for name := range known {
		if field(n, name) == nil && name != "global" {
			t.Errorf("the schema has %s%s, values.yaml does not", prefix, name)
		}
	}
	return out
}

func chartPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	schemaText, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(chartHead)
	for _, s := range settings(t, doc.Content[0], "", schema) {
		if s.meaning == "" {
			t.Errorf("values.yaml: no comment above %s", s.path)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", s.path, s.value, strings.ReplaceAll(s.meaning, "|", "\\|"))
	}
	return b.String()
}

// TestReferencePages holds docs/reference to the chart; with -update it writes it.
func TestReferencePages(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"rbac.md": rbacPage(t), "chart.md": chartPage(t)} {
		path := filepath.Join("..", "..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("docs/reference/%s is out of date: make generate writes it (-expected +is):\n%s", name, diff)
		}
	}
}
