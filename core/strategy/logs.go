package strategy

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

	"github.com/weir-project/weir/plugins/sdk"
)

const (
	maxLine   = 4 << 10 // bytes of a line that go to the log
	keepLines = 20      // last lines kept for the message about a death
)

// lineLog writes a process's output to our log, line by line, with the name of the
// strategy, at most so many lines a second.
type lineLog struct {
	log *zap.Logger

	mu      sync.Mutex // guards what follows
	limit   *rate.Limiter
	partial []byte
	skip    bool // the rest of a line that was cut
	dropped int
	last    []string // lines; while panics, those from its first on
	panics  bool     // the last line was of a Go trace
	trace   []string // of the last panic, as far as it came before another line
}

// Lines of Go's runtime: what a trace begins with, how it goes on, and how it goes on after
// a line that another goroutine wrote meanwhile.
var (
	traceBegins = regexp.MustCompile(`^(panic|fatal error): `)
	traceGoesOn = regexp.MustCompile(`^(\t|goroutine \d+ .*\[.*\]:$|created by |\[signal |\[originating |runtime: |runtime stack:|\.\.\.\d*.* frames elided|exit status \d|PC=|[a-z0-9]+ +0x[0-9a-f]+$|(panic|[^\s(]+\.\S+)\(.*\)$)`)
	traceAgain  = regexp.MustCompile(`^goroutine \d+ .*\[.*\]:$`)
)

// newLineLog lets through bursts of 100 lines and 20 lines a second.
func newLineLog(log *zap.Logger) *lineLog {
	return &lineLog{log: log, limit: rate.NewLimiter(20, 100)}
}

// Write implements io.Writer and never fails.
func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part, b = b[:end], b[end+1:]
		} else {
			b = nil
		}
		if room := maxLine - len(l.partial); !l.skip && len(part) > room {
			part, l.skip = part[:room], true
			l.partial = append(l.partial, part...)
		} else if !l.skip {
			l.partial = append(l.partial, part...)
		}
		if end >= 0 {
			l.line(string(l.partial))
			l.partial, l.skip = l.partial[:0], false
		}
	}
	return n, nil
}

func (l *lineLog) line(text string) {
	text = strings.TrimRight(text, "\r")
	if text == "" {
		return
	}
	switch {
	case traceBegins.MatchString(text) && !l.panics:
		l.panics, l.last = true, nil // from here on the lines say why it died
	case l.panics && !traceBegins.MatchString(text) && !traceGoesOn.MatchString(text):
		l.panics, l.trace, l.last = false, l.last, nil // it lives
	case !l.panics && l.trace != nil && traceAgain.MatchString(text):
		l.panics, l.last = true, l.trace
	}
	if !l.panics || len(l.last) < keepLines {
		l.last = append(l.last, text)
		l.last = l.last[max(0, len(l.last)-keepLines):]
	}
	if !l.limit.Allow() {
		l.dropped++
		return
	}
	l.report()
	level, message := l.level(text)
	if entry := l.log.Check(level, sdk.Printable(message, maxLine)); entry != nil {
		entry.Write()
	}
}

func (l *lineLog) report() {
	if l.dropped > 0 {
		l.log.Warn("the strategy writes too much, lines were left out", zap.Int("lines", l.dropped))
		l.dropped = 0
	}
}

func (l *lineLog) level(text string) (zapcore.Level, string) {
	if l.panics {
		return zapcore.ErrorLevel, text
	}
	for prefix, level := range map[string]zapcore.Level{"[TRACE] ": zapcore.DebugLevel, "[DEBUG] ": zapcore.DebugLevel, "[INFO] ": zapcore.InfoLevel,
		"[WARN] ": zapcore.WarnLevel, "[ERROR] ": zapcore.ErrorLevel} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return level, rest
		}
	}
	var entry struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
	}
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &entry) == nil && entry.Message != "" {
		if level, err := zapcore.ParseLevel(entry.Level); err == nil && level <= zapcore.ErrorLevel {
			return level, entry.Message
		}
	}
	return zapcore.InfoLevel, text
}

// close reports lines that were left out and says what the process said last: its
// panic, if there was one, else its last line.
func (l *lineLog) close() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.line(string(l.partial))
		l.partial = nil
	}
	l.report()
	switch {
	case len(l.last) == 0:
		return ""
	case l.panics:
		return strings.Join(l.last, "\n")
	}
	return l.last[len(l.last)-1]
}
