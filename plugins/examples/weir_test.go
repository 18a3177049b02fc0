package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weir-project/weir/plugins/sdk/conformance"
)

// root is the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var built struct {
	sync.Once
	path string
	err  error
}

// weir is the operator's command: the one of WEIR_BIN, else it is built.
func weir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("WEIR_BIN"); dir != "" {
		return filepath.Join(dir, "weir")
	}
	built.Do(func() {
		dir, err := os.MkdirTemp("", "weir-examples-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "weir")
		cmd := exec.Command("go", "build", "-o", built.path, "./cmd/weir")
		cmd.Dir = root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building weir: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" {
		os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// kit runs `weir strategy test` and wants every check passed.
func kit(t *testing.T, name string, args ...string) {
	t.Helper()
	kitAtLeast(t, 20, name, args...)
}

// kitAtLeast is kit where fewer checks apply.
func kitAtLeast(t *testing.T, checks int, name string, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(weir(t), append([]string{"strategy", "test", "--latency-limit", "30s", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var report conformance.Report
	if decoding := json.Unmarshal(out.Bytes(), &report); decoding != nil {
		t.Fatalf("weir strategy test: %v, %s\n%s", err, errs.String(), out.String())
	}
	for _, c := range report.Failures() {
		t.Errorf("%s (%s): %q", c.Check, c.Rule, c.Reasons)
	}
	if err != nil || report.Strategy != name || len(report.Checks) < checks {
		t.Errorf("weir strategy test: %v, %s, %d checks of %q, want %q", err, errs.String(), len(report.Checks), report.Strategy, name)
	}
}

// build makes a program of an example.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", path, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return path
}

func TestKitOnExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"prefer-arm", "carbon", "commitments-first"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit(t, name, build(t, name))
		})
	}
}

// The template, copied out of the checkout and renamed, is a strategy of its own.
func TestTemplate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "night-owl")
	if err := os.CopyFS(dir, os.DirFS("template")); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	run("make", "rename", "TO=night-owl", "WEIR="+root(t))
	run("make", "build", "test")
	kit(t, "night-owl", filepath.Join(dir, "night-owl"))
}
