package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStandsStill: once a process was told to stop, none of its threads runs any more.
func TestStandsStill(t *testing.T) {
	t.Parallel()
	live, err := Process(program(t, "none")).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer live.Stop()
	c := live.(*child)
	for range 300 {
		if err := c.Signal(true); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%d threads, %v", len(threads), err)
		}
		for _, path := range threads {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(b); !strings.Contains(text, ") T ") {
				t.Fatalf("a thread goes on: %.60s", text)
			}
		}
		if err := c.Signal(false); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill()
	<-c.ended
	if err := c.Signal(true); err == nil {
		t.Error("a process that is gone was stopped")
	}
}
