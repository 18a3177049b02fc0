package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fence finds fenced blocks of a page: language, text.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

var strategyGuide = filepath.Join("..", "..", "docs", "strategies.md")

// The guide for authors of strategies is a script: its sh blocks run one after the
// other, in an empty folder, and each must succeed.
func TestStrategyGuide(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// this test program is weir where it is called so; how fast a busy machine is says
	// nothing about the guide
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := "#!/bin/bash\nif [ \"$1 $2\" = \"strategy test\" ]; then set -- \"$@\" --latency-limit 1m; fi\nexec -a weir " + self + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "weir"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	script := []string{"set -euo pipefail"}
	script = append(script, blocks(t, strategyGuide, "sh")...)
	if len(script) < 8 {
		t.Fatalf("%d blocks found in %s", len(script)-1, strategyGuide)
	}
	cmd := exec.Command("bash", "-c", strings.Join(script, "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WEIR="+root, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"night-owl 0.1.0", "killed during a call", "strategy night-owl", "on-demand", "spot", "cost-optimal", "answers are the same", "plans         3 compared", "all 3 "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the guide's output has no %q:\n%s", want, out)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "night-owl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".old") {
			t.Errorf("make rename leaves %s", e.Name())
		}
	}
	for _, made := range []string{"report.json", "bench.html", "weir-strategies.lock"} {
		if info, err := os.Stat(filepath.Join(dir, "night-owl", made)); err != nil || info.Size() == 0 {
			t.Errorf("the guide makes %s: %v", made, err)
		}
	}
}

// Commands of the guide that need a cluster are not run, but every one of them exists
// and has the flags that it is given.
func TestStrategyGuideNamesCommands(t *testing.T) {
	t.Parallel()
	found := 0
	for _, b := range blocks(t, strategyGuide, "console") {
		for _, line := range strings.Split(strings.TrimSpace(b), "\n") {
			words := strings.Fields(line)
			if words[0] != "weir" {
				continue
			}
			found++
			cmd, rest, err := newRoot(streams{strings.NewReader(""), io.Discard, io.Discard}, nil, nil).Find(words[1:])
			if err != nil || cmd.HasAvailableSubCommands() {
				t.Errorf("%s: there is no such command: %v", line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if found == 0 {
		t.Errorf("no command found in the console blocks of %s", strategyGuide)
	}
}
