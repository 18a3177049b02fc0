package live_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/config/live"
)

const head = "apiVersion: config.weir.dev/v1alpha1\nkind: ScalerConfiguration\ncluster: c\n"

func write(t *testing.T, path, text string) {
	t.Helper()
	// Replaced by rename, as the kubelet and careful editors do.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	set := pflag.NewFlagSet("x", pflag.ContinueOnError)
	f := live.BindFlags(set)
	if err := set.Parse([]string{"--config=a.yaml", "--enable-profiling", "--log-level", "debug", "--disable-leader-election=false"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"enable-profiling": "true", "log-level": "debug", "disable-leader-election": "false"}
	if diff := cmp.Diff(want, f.Given()); diff != "" || f.File != "a.yaml" {
		t.Errorf("file %q, given (-want +got):\n%s", f.File, diff)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	want := map[string]string{"A": "b=c", "E": ""}
	if diff := cmp.Diff(want, live.Environment([]string{"A=b=c", "E=", "nonsense"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.yaml")
	_, err := live.Source{Role: config.Scaler, Path: path}.Read()
	if err == nil || err.Error() != path+": cannot be read: no such file or directory" {
		t.Errorf("error %v", err)
	}
	for bad, want := range map[string]string{"/dev/zero": "is a device or a socket, expected a file", t.TempDir(): "is a folder, expected a file"} {
		if _, err := (live.Source{Role: config.Scaler, Path: bad}).Read(); err == nil || err.Error() != bad+": cannot be read: "+want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	write(t, empty, "")
	if _, err := (live.Source{Role: config.Scaler, Path: empty}).Read(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error %v", err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, head)
	s := live.Source{Role: config.Scaler, Path: path, Flags: map[string]string{"log-level": "error"}}
	current, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan live.Change), make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, current, time.Millisecond, func(c live.Change) {
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		})
	}()
	next := func() live.Change {
		select {
		case c := <-changes:
			return c
		case <-time.After(time.Minute):
			t.Fatal("no change was seen")
			return live.Change{}
		}
	}

	write(t, path, head+"bindings: {instanceSelection: first-fit}\n")
	if c := next(); c.Err != nil || c.Config.Bindings.InstanceSelection != "first-fit" || c.Config.Log.Level != "error" {
		t.Errorf("good change: %+v", c)
	}
	write(t, path, head+"bindigs: {}\n")
	if c := next(); c.Err == nil || !strings.Contains(c.Err.Error(), `did you mean "bindings"?`) || c.Config != nil {
		t.Errorf("bad change: %+v", c)
	}
	write(t, path, head+"replicas: 2\nledger: {kind: dynamodb, table: abc}\n")
	if c := next(); c.Err == nil || !strings.Contains(c.Err.Error(), "cannot be changed while running") {
		t.Errorf("change that needs a restart: %+v", c)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c := next(); c.Err == nil || !strings.Contains(c.Err.Error(), "cannot be read") {
		t.Errorf("file gone: %+v", c)
	}
	write(t, path, head+"batch: {idle: 2s}\n")
	c := next()
	if c.Err != nil {
		t.Fatal(c.Err)
	}
	if diff := cmp.Diff([]string{"bindings.instanceSelection", "batch.idle"}, c.Fields); diff != "" {
		t.Errorf("changed since the last good one (-want +got):\n%s", diff)
	}
	cancel()
	<-ended
}

// TestWatchFileOfCommitments: a change of it is a change of the configuration, and a
// fault in it keeps what was there.
func TestWatchFileOfCommitments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, beside := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "paid.yaml")
	paid := func(count string) string {
		return "apiVersion: config.weir.dev/v1alpha1\nkind: Commitments\nreservedInstances:\n- {instanceType: m5.large, count: " + count + "}\n"
	}
	write(t, path, head+"commitments: {file: "+beside+"}\n")
	write(t, beside, paid("3"))
	s := live.Source{Role: config.Scaler, Path: path}
	current, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got := current.PlanningSettings().Commitments; len(got) != 1 || got[0].Nodes != 3 || got[0].Source != beside {
		t.Fatalf("commitments %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan live.Change), make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, current, time.Millisecond, func(c live.Change) {
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	write(t, beside, paid("many"))
	if c := <-changes; c.Err == nil || !strings.Contains(c.Err.Error(), beside+":4: commitments.reservedInstances[0].count: is \"many\", expected a whole number") {
		t.Errorf("change %+v", c)
	}
	write(t, beside, paid("5"))
	if c := <-changes; c.Err != nil || c.Config.Commitments.ReservedInstances[0].Count != 5 || !cmp.Equal(c.Fields, []string{"commitments.reservedInstances"}) {
		t.Errorf("change %+v", c)
	}
}
