package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the multi-call binary too: "up" re-executes it
// once per component, so no other build is needed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "up", etcdName, apiserverName, controllerManagerName, schedulerName:
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

func TestRunUsage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"no command":      {nil, exitUsage, "", "usage: devcluster up"},
		"unknown command": {[]string{"down"}, exitUsage, "", `unknown command "down"`},
		"help":            {[]string{"help"}, exitOK, "usage: devcluster up", ""},
		"version":         {[]string{"version"}, exitOK, "v", ""},
		"help of up":      {[]string{"up", "-h"}, exitOK, "", "-node-monitor-grace-period"},
		"wrong flag":      {[]string{"up", "--nope"}, exitUsage, "", "-nope"},
		"stray argument":  {[]string{"up", "now"}, exitUsage, "", `unexpected argument "now"`},
		"etcd needs dir":  {[]string{etcdName}, exitFailed, "", "--dir is required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.Contains(stdout.String(), tc.stdout) {
				t.Errorf("stdout %q does not contain %q", &stdout, tc.stdout)
			}
			if !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("stderr %q does not contain %q", &stderr, tc.stderr)
			}
		})
	}
}

func TestParseUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string // part of the error, empty: none
	}{
		"defaults":             {nil, ""},
		"all":                  {[]string{"--dir", "d", "--port", "7443", "--node-monitor-grace-period", "8s", "--with-parent", "--restart"}, ""},
		"port too large":       {[]string{"--port", "70000"}, "--port 70000"},
		"no time":              {[]string{"--timeout", "0s"}, "--timeout"},
		"grace too short":      {[]string{"--node-monitor-grace-period", "1ms"}, "--node-monitor-grace-period"},
		"extra for etcd":       {[]string{"--extra-arg", "etcd=--x"}, "want component=--flag=value"},
		"extra without dashes": {[]string{"--extra-arg", "kube-scheduler=v=4"}, "want component=--flag=value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseUp(tc.args, os.Stderr)
			if tc.want == "" && err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("error %v, want one that contains %q", err, tc.want)
			}
		})
	}
}

func TestExtraArgsComeLast(t *testing.T) {
	t.Parallel()
	o, err := parseUp([]string{"--extra-arg", "kube-scheduler=--v=4", "--extra-arg", "kube-scheduler=--leader-elect=true"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	args := (&cluster{extraArgs: o.extraArgs}).schedulerArgs()
	if got, want := strings.Join(args[len(args)-2:], " "), "--v=4 --leader-elect=true"; got != want {
		t.Errorf("last arguments %q, want %q: a later flag wins over ours", got, want)
	}
}

func TestMonitorPeriodFollowsGrace(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]string{
		2 * time.Second:  "--node-monitor-period=500ms",
		40 * time.Second: "--node-monitor-period=5s",
	} {
		c := &cluster{nodeMonitorGrace: grace}
		if args := strings.Join(c.controllerManagerArgs(), " "); !strings.Contains(args, want) {
			t.Errorf("grace %v: no %s in %s", grace, want, args)
		}
	}
}

func TestLockDirIsExclusive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	unlock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "in use by another devcluster") {
		t.Errorf("second lock: error %v, want: in use", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

func TestTailOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content string
		lines   int
		want    string
	}{
		"empty":        {"", 3, ""},
		"fewer":        {"a\nb\n", 3, "a\nb\n"},
		"exactly":      {"a\nb\nc\n", 3, "a\nb\nc\n"},
		"more":         {"a\nb\nc\nd\n", 2, "c\nd\n"},
		"no line end":  {"a\nb", 1, "b\n"},
		"empty lines":  {"a\n\n\n", 2, "\n\n"},
		"longer limit": {strings.Repeat("x", 2*logTailBytes) + "\nend\n", 1, "end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := tailOf(path, tc.lines)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if p < lowestPort || p > highestPort || seen[p] {
			t.Errorf("port %d twice or out of range in %v", p, ports)
		}
		seen[p] = true
	}
}
