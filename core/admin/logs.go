package admin

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// Bounds of what is kept.
const (
	keptLines      = 1000 // of a strategy
	keptStrategies = 64
)

// Logs keeps the last lines that the host wrote about each strategy, what the strategy
// itself printed among them. It is safe for concurrent use.
type Logs struct {
	mu     sync.Mutex // guards byName
	byName map[string]*ring
}

// NewLogs makes an empty one.
func NewLogs() *Logs { return &Logs{byName: map[string]*ring{}} }

type ring struct {
	lines []Line // in order from first, modulo their number
	next  int64  // Seq of the next line
}

func (l *Logs) add(name string, line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byName[name]
	if r == nil {
		if len(l.byName) >= keptStrategies {
			return // names come from the configuration; this many there are not
		}
		r = &ring{}
		l.byName[name] = r
	}
	line.Seq = r.next
	r.next++
	if len(r.lines) < keptLines {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[line.Seq%keptLines] = line
}

// Of is the lines of a strategy from the one numbered after on, of these the last limit,
// and the number that the next one will have.
func (l *Logs) Of(name string, after int64, limit int) (lines []Line, next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byName[name]
	if r == nil {
		return nil, 0
	}
	from := max(after, r.next-int64(len(r.lines)), r.next-int64(limit), 0)
	for seq := from; seq < r.next; seq++ {
		lines = append(lines, r.lines[seq%keptLines])
	}
	return lines, r.next
}

// Core is a part of a logger that keeps what a logger named strategy says about the one
// in its field strategy, whatever the level.
func (l *Logs) Core() zapcore.Core { return &keeper{logs: l} }

type keeper struct {
	logs     *Logs
	strategy string
	fields   []zapcore.Field
}

var _ zapcore.Core = (*keeper)(nil)

// loggerName is that of the strategy host.
const loggerName = "strategy"

// ownFields are in every line of the program, or in the line's place, and tell nothing here.
var ownFields = map[string]bool{loggerName: true, "version": true}

func (k *keeper) Enabled(zapcore.Level) bool { return true }

func (k *keeper) With(fields []zapcore.Field) zapcore.Core {
	out := &keeper{logs: k.logs, strategy: k.strategy, fields: k.fields[:len(k.fields):len(k.fields)]}
	for _, f := range fields {
		if f.Key == loggerName && f.Type == zapcore.StringType {
			out.strategy = f.String
		}
		out.fields = append(out.fields, f)
	}
	return out
}

func (k *keeper) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.LoggerName != loggerName && !strings.HasPrefix(e.LoggerName, loggerName+".") {
		return ce
	}
	return ce.AddCore(e, k)
}

func (k *keeper) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := k.With(fields).(*keeper)
	if all.strategy == "" {
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range all.fields {
		if !ownFields[f.Key] {
			f.AddTo(enc)
		}
	}
	for key, v := range enc.Fields {
		if d, ok := v.(time.Duration); ok {
			enc.Fields[key] = d.String()
		}
	}
	line := Line{Time: e.Time.UTC(), Level: e.Level.String(), Message: e.Message}
	if len(enc.Fields) > 0 {
		line.Fields = enc.Fields
	}
	k.logs.add(all.strategy, line)
	return nil
}

func (k *keeper) Sync() error { return nil }
