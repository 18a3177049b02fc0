package strategy

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// What a process says last is why it died: the trace of its panic, unless it went on after it.
func TestLastWords(t *testing.T) {
	t.Parallel()
	going := ""
	for i := range 30 {
		going += fmt.Sprintf("[INFO] problem %d is done\n", i)
	}
	const frames = `goroutine 7 gp=0xc000007c00 m=3 mp=0xc0000a0008 [running, locked to thread]:
main.(*carbon[...]).Price(0xc000012345, {0x7f, 0x1}, ...)
	/src/carbon.go:12 +0x1d
panic({0x5678?, 0x1234?})
	/go/src/runtime/panic.go:785 +0x132
created by main.main in goroutine 1
	/src/main.go:8 +0x25
`
	const signal = "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]\n"
	for _, tt := range []struct {
		name, text, want string
		errors           int // lines at level ERROR
	}{
		{"a panic", "[INFO] begins\npanic: a bug\n" + signal + "\n" + frames, "panic: a bug\n" + signal + frames, 9},
		{"a panic that was repanicked", "panic: a [recovered, repanicked]\n\tpanic: b\n\n" + frames, "panic: a [recovered, repanicked]\n\tpanic: b\n" + frames, 9},
		{"a fatal error", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [select (no cases)]:\nmain.main()\n\t/src/main.go:9 +0x1\n",
			"fatal error: all goroutines are asleep - deadlock!\ngoroutine 1 [select (no cases)]:\nmain.main()\n\t/src/main.go:9 +0x1\n", 4},
		{"a panic that is survived", "panic: handled, retrying\n" + going + "fatal: cannot read my data\n", "fatal: cannot read my data", 1},
		{"a trace that is survived", "panic: handled\n\n" + frames + going + "fatal: cannot read my data\n", "fatal: cannot read my data", 8},
		{"a panic that another line is in the middle of", "panic: a bug\n[INFO] another goroutine\n\n" + frames, "panic: a bug\n" + frames, 8},
		{"a second panic", "panic: handled\n" + going + "panic: a bug\n\n" + frames, "panic: a bug\n" + frames, 9},
		{"a long trace", "panic: a bug\n\n" + strings.Repeat(frames, 5), "panic: a bug\n" + strings.Repeat(frames, 2) + strings.Join(strings.SplitAfter(frames, "\n")[:5], ""), 36},
		{"no panic", going + "out of money", "out of money", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			core, seen := observer.New(zapcore.DebugLevel)
			l := newLineLog(zap.New(core))
			if _, err := l.Write([]byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			if got, want := l.close(), strings.TrimRight(tt.want, "\n"); got != want {
				t.Errorf("last words:\n%s\nwant:\n%s", got, want)
			}
			if n := seen.FilterLevelExact(zapcore.ErrorLevel).Len(); n != tt.errors {
				t.Errorf("%d lines are errors, want %d", n, tt.errors)
			}
		})
	}
}
