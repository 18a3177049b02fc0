package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const onePool = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@v20260304}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: x}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: x}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: pause, resources: {requests: {cpu: "1"}}}]}
`

// A path is run as a process, and its answer is the one that a built-in of the same
// name gives in process.
func TestStrategyByPath(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "first-fit")
	if out, err := exec.Command("go", "build", "-o", program, "../weir-strategy").CombinedOutput(); err != nil {
		t.Fatalf("building the strategy: %v\n%s", err, out)
	}
	input := filepath.Join(dir, "input.yaml")
	if err := os.WriteFile(input, []byte(onePool), 0o644); err != nil {
		t.Fatal(err)
	}
	answer := func(strategy string) map[string]any {
		var out, errs bytes.Buffer
		if code := run([]string{"simulate", "provision", "-f", input, "--strategy", strategy, "-o", "json"}, streams{strings.NewReader(""), &out, &errs}, nil); code != exitDone {
			t.Fatalf("--strategy %s: exit code %d: %s", strategy, code, errs.String())
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, w := range got["warnings"].([]any) {
			if strings.Contains(w.(string), "did not answer") {
				t.Errorf("--strategy %s: %s", strategy, w)
			}
		}
		return got
	}
	byPath, byName := answer(program), answer("first-fit")
	if byPath["strategy"] != "first-fit" {
		t.Errorf("the strategy is shown as %v", byPath["strategy"])
	}
	a, _ := json.Marshal(byPath["newNodes"])
	b, _ := json.Marshal(byName["newNodes"])
	if string(a) != string(b) {
		t.Errorf("by path:\n%s\nby name:\n%s", a, b)
	}

	sum, err := fileSum(program)
	if err != nil {
		t.Fatal(err)
	}
	cfg := write(t, "weir.yaml", "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\nbindings: {instanceSelection: mine}\nstrategies:\n  mine:\n    kind: instance-selection\n    path: "+
		program+"\n    sha256: "+sum+"\n    config:\n      feePerNod: 1\n", 0o644)
	want := cfg + ":10: strategies.mine.config.feePerNod: unknown field"
	if out, errs := command(t, exitBadInput, "simulate", "provision", "-f", input, "--config", cfg); out != "" || !strings.Contains(errs, want) {
		t.Errorf("settings that its schema refuses: %q, %q, want %s", out, errs, want)
	}
}

// A program that is no strategy is a failure that names it, not a silent fall-back.
func TestNotAStrategy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "impostor")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "input.yaml")
	if err := os.WriteFile(input, []byte(onePool), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := run([]string{"simulate", "provision", "-f", input, "--strategy", program}, streams{strings.NewReader(""), &out, &errs}, nil)
	if code != exitFailed || !strings.Contains(errs.String(), "impostor") || out.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
}
