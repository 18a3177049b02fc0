package headroom

import (
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		held uint64
		want int
	}{{0, 400}, {1, 400}, {32 << 20, 400}, {64 << 20, 200}, {100 << 20, 128}, {128 << 20, 100}, {1 << 40, 100}} {
		if got := percent(tt.held); got != tt.want {
			t.Errorf("%d bytes: %d%%, want %d%%", tt.held, got, tt.want)
		}
	}
}

func TestMake(t *testing.T) {
	t.Setenv("GOGC", "")
	old := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	set := Make()
	if now := debug.SetGCPercent(50); set < 100 || now != set {
		t.Errorf("set %d%%, the collector has %d%%", set, now)
	}
	t.Setenv("GOGC", "70")
	if set := Make(); set != 0 {
		t.Errorf("GOGC is the user's, and %d%% was set", set)
	}
	if now := debug.SetGCPercent(50); now != 50 {
		t.Errorf("GOGC is the user's, and the collector has %d%%", now)
	}
}
