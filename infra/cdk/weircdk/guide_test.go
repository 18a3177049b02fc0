package weircdk

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// The guide's commands name options, values and files that there are.
func TestGuide(t *testing.T) {
	t.Parallel()
	text := func(path string) string {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	guide, chart, configuration := text("docs/install.md"), text("docs/reference/chart.md"), text("docs/reference/configuration.md")
	var context, outputs []string
	for _, k := range Keys() {
		context = append(context, k.Name)
	}
	for name := range standard(t).Outputs {
		outputs = append(outputs, name)
	}
	named := func(pattern string, least int) []string {
		var out []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(guide, -1) {
			out = append(out, m[1])
		}
		if len(out) < least {
			t.Errorf("only %v are like %s, expected %d: does the test still read the guide?", out, pattern, least)
		}
		return out
	}
	for _, k := range named(`-c ([A-Za-z]+)\b`, 8) {
		if !slices.Contains(context, k) {
			t.Errorf("-c %s is no context of the app", k)
		}
	}
	for _, o := range append(named(`OutputKey=='([A-Za-z]+)'`, 1), named("output\\s+`([A-Za-z]+)`", 2)...) {
		if !slices.Contains(outputs, o) {
			t.Errorf("%s is no output of the stack", o)
		}
	}
	for _, v := range named(`--set ([A-Za-z.]+)`, 6) {
		field, ofConfig := strings.CutPrefix(v, "config.")
		if ofConfig && !strings.Contains(configuration, "| `"+field+"` |") || !ofConfig && !strings.Contains(chart, "| `"+strings.TrimSuffix(v, ".")+"` |") {
			t.Errorf("--set %s sets no value of the chart", v)
		}
	}
	for _, p := range append(named(`[ (]((?:integration|infra)/[A-Za-z0-9_./-]*[A-Za-z0-9])`, 5), named(`\]\((?:\.\./)?([a-z][A-Za-z0-9_./-]+\.md)`, 4)...) {
		_, err := os.Stat(filepath.Join(root, p))
		if _, err2 := os.Stat(filepath.Join(root, "docs", p)); err != nil && err2 != nil {
			t.Errorf("there is no %s", p)
		}
	}
	makefile := text("Makefile")
	for _, line := range named(`(?m)^    make ([a-z -]+?)(?: *#.*)?$`, 3) {
		for _, target := range strings.Fields(line) {
			if !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("make %s is no target", target)
			}
		}
	}
}
