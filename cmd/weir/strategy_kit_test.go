package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/plugins/sdk/conformance"
)

// weir runs the program in this process.
func weir(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, streams{strings.NewReader(""), &out, &errs}, nil)
	return code, out.String(), errs.String()
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStrategyTest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "weir-strategy")
	if out, err := exec.Command("go", "build", "-o", program, "../weir-strategy").CombinedOutput(); err != nil {
		t.Fatalf("building the strategy: %v\n%s", err, out)
	}
	settings := write(t, "settings.yaml", "floor: 3\n", 0o644)
	problem := write(t, "calls.jsonl", `{"catalogue":{"hash":"a","types":[{"Name":"m7i.large"}],"offerings":[{"t":0,"zone":"us-east-1a","capacityType":"spot"}]}}
{"call":{"kind":"consolidation","level":"score","catalogue":"a","input":{"Pools":[{"Name":"default","Offerings":[0]}],"Moves":[{"Pool":0,"Reason":"Drifted"}]}}}
`, 0o644)
	code, out, errs := weir("strategy", "test", program, "--config", settings, "--problems", problem, "--latency-limit", "1m", "-o", "json", "--", "savings")
	if code != exitDone {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	var got conformance.Report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Strategy != "savings" || !got.Passed || len(got.Latency) != 1 || got.Latency[0].MaxSeconds <= 0 {
		t.Errorf("the report is about %s, passed %v, latency %+v", got.Strategy, got.Passed, got.Latency)
	}
	seen := map[string]conformance.Outcome{}
	for _, c := range got.Checks {
		seen[c.Check] = c.Outcome
	}
	for _, check := range []string{"start", "config", "golden", "cancelled", "restart", "shutdown"} {
		if seen[check] != conformance.Passed {
			t.Errorf("check %s: %q, want pass", check, seen[check])
		}
	}

	bad := write(t, "settings.yaml", "floor: -1\n", 0o644)
	code, out, errs = weir("strategy", "test", program, "--config", bad, "--latency-limit", "1m", "--", "savings")
	if code != exitFailed || !strings.Contains(out, "config (fail): Configure: configuration: floor") || !strings.Contains(errs, "1 of 22 checks failed") {
		t.Errorf("with wrong settings: exit code %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

// What is no strategy fails its first check; what cannot be tested at all is bad input.
func TestStrategyTestRefuses(t *testing.T) {
	t.Parallel()
	impostor := write(t, "impostor", "#!/bin/sh\necho trouble >&2\nexit 3\n", 0o755)
	plain := write(t, "plain", "text", 0o644)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{impostor}, exitFailed, "it printed no handshake; it said: trouble"},
		{[]string{"--socket", "/no/such.sock"}, exitFailed, "no such socket"},
		{nil, exitBadInput, "expected the path of an executable"},
		{[]string{"/no/such/file"}, exitBadInput, "/no/such/file: expected an executable file: no such file"},
		{[]string{plain}, exitBadInput, "expected an executable file"},
		{[]string{impostor, "--socket", "x"}, exitBadInput, "expected no PATH beside it"},
		{[]string{impostor, "--config", plain}, exitBadInput, "expected an object of settings"},
		{[]string{impostor, "--config", "/no/such"}, exitBadInput, "--config: /no/such: no such file"},
		{[]string{impostor, "--config", "/dev/zero"}, exitBadInput, "--config: /dev/zero: is a device"},
		{[]string{impostor, "--config", write(t, "large.yaml", "a: "+strings.Repeat("x", 1<<20), 0o644)}, exitBadInput, "is larger than the 1 MiB"},
		{[]string{impostor, "--config", write(t, "two.yaml", "floor: 1\n---\nfloor: 2\n", 0o644)}, exitBadInput, "line 2 begins a second document, expected one"},
		{[]string{t.TempDir()}, exitBadInput, "expected an executable file"},
		{[]string{impostor, "--problems", "/dev/zero"}, exitBadInput, "/dev/zero: is a device"},
		{[]string{impostor, "--problems", plain}, exitBadInput, "value 1"},
		{[]string{impostor, "--problems", "/no/such"}, exitBadInput, "--problems: /no/such: no such file"},
		{[]string{impostor, "--problems", t.TempDir()}, exitBadInput, "expected recorded calls, found none"},
		{[]string{impostor, "--latency-limit", "-1s"}, exitBadInput, "above zero"},
		{[]string{impostor, "-o", "xml"}, exitBadInput, "expected json, yaml or table"},
	} {
		code, out, errs := weir(append([]string{"strategy", "test"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("weir strategy test %q: exit code %d, stdout %q, stderr %q; want code %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
