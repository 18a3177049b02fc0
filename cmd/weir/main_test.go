package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// The scripts are pages of commands with their answers; see testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			for _, kv := range os.Environ() {
				if strings.HasPrefix(kv, "GOCOVERDIR=") {
					e.Vars = append(e.Vars, kv)
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"bigfile": bigFile,
			"program": program,
			"sums":    sums,
		},
	})
}

// exits runs a command and compares its exit code: exits CODE weir ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command [args]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		got = -1
		if code, ok := err.(interface{ ExitCode() int }); ok {
			got = code.ExitCode()
		}
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// program makes an executable strategy that is one of the built-in ones: program PATH NAME.
// It is the file NAME in the folder PATH.
func program(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: program path name")
	}
	text, err := builtProgram()
	ts.Check(err)
	// its name at the end, so that no two are the same
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), args[1]), slices.Concat(text, []byte(args[1])), 0o755))
}

// builtProgram is weir-strategy, built once.
var builtProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "weir-strategy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weir-strategy")
	if out, err := exec.Command("go", "build", "-o", path, "../weir-strategy").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building cmd/weir-strategy: %w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// sums puts the SHA-256 of a program into a file in place of SUM: sums PROGRAM FILE.
func sums(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sums program file")
	}
	sum, err := fileSum(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.ReplaceAll(ts.ReadFile(args[1]), "SUM", sum)), 0o644))
}

// bigFile writes a file of so many MiB: bigfile NAME MIB [text], pods that wait or one endless text.
func bigFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bigfile name MiB [text]")
	}
	mib, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	if len(args) == 3 {
		b.WriteString(strings.Repeat(args[2], (mib<<20)/len(args[2])))
	} else {
		for i := 0; b.Len() < mib<<20; i++ {
			b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c" + strconv.Itoa(i) + "}\ndata: {x: \"" + strings.Repeat("y", 64<<10) + "\"}\n---\n")
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}
