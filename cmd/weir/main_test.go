package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
