package live

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/userfile"
)

// Flags holds the flags of a command after BindFlags.
type Flags struct {
	File   string // --config
	set    *pflag.FlagSet
	values map[string]*string
}

// BindFlags adds --config and a flag for every setting to a command.
func BindFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set, values: map[string]*string{}}
	set.StringVar(&f.File, "config", "", "configuration file, kind "+config.Kind)
	for _, s := range config.Settings() {
		usage := "accepted for compatibility; " + s.Note
		if s.Field != "" {
			usage = fmt.Sprintf("sets %s, %s (environment: %s)", s.Field, s.Expected, s.Env)
		}
		v := ""
		f.values[s.Flag] = &v
		fl := set.VarPF((*text)(&v), s.Flag, "", usage)
		if s.Bool() {
			fl.NoOptDefVal = "true"
		}
	}
	return f
}

// text is a flag value that core/config parses later, together with all others.
type text string

func (t *text) String() string     { return string(*t) }
func (t *text) Set(s string) error { *t = text(s); return nil }
func (t *text) Type() string       { return "value" }

// Given are the flags that were on the command line.
func (f *Flags) Given() map[string]string {
	out := map[string]string{}
	for name, v := range f.values {
		if f.set.Changed(name) {
			out[name] = *v
		}
	}
	return out
}

// Environment turns KEY=value lines, such as os.Environ gives, into a map.
func Environment(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, e := range environ {
		if k, v, ok := strings.Cut(e, "="); ok {
			out[k] = v
		}
	}
	return out
}

// Source is where a configuration comes from; it can be read again and again.
type Source struct {
	Role  config.Role
	Path  string // empty = no file
	Env   map[string]string
	Flags map[string]string
}

// Read loads the configuration. A file that cannot be read is a config.Errors too.
func (s Source) Read() (*config.Loaded, error) {
	data, err := s.bytes()
	if err != nil {
		return nil, err
	}
	return s.load(data)
}

func (s Source) bytes() ([]byte, error) {
	if s.Path == "" {
		return nil, nil
	}
	data, err := userfile.Read(s.Path, config.MaxFile)
	if err != nil {
		return nil, config.Errors{{Source: s.Path, Message: "cannot be read: " + userfile.Reason(err).Error()}}
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

func readFile(name string) ([]byte, error) {
	data, err := userfile.Read(name, config.MaxFile)
	if err != nil {
		return nil, userfile.Reason(err)
	}
	return data, nil
}

func (s Source) load(data []byte) (*config.Loaded, error) {
	return config.Load(config.Input{Role: s.Role, File: s.Path, Data: data, Env: s.Env, Flags: s.Flags, ReadFile: readFile})
}

// Change is what Watch saw: a new configuration, or why the old one stays.
type Change struct {
	Config *config.Loaded
	Fields []string // what is different
	Err    error
}

// Watch looks at the file every interval until the context ends and calls notify for
// each new content, from one goroutine: with a configuration that the running
// program may take, or with the error that makes it keep the old one. It compares
// contents, because a ConfigMap is replaced by a symbolic link under an unchanged
// name. Without a file it only waits for the end.
func (s Source) Watch(ctx context.Context, current *config.Loaded, interval time.Duration, notify func(Change)) {
	if s.Path == "" {
		<-ctx.Done()
		return
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	w := &watcher{source: s, current: current}
	for {
		w.look(notify)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

type watcher struct {
	source  Source
	current *config.Loaded
	seen    []byte // last content that was looked at
	beside  []byte // the same of the file of commitments
	failure string // last read error, told once
}

func (w *watcher) look(notify func(Change)) {
	data, err := w.source.bytes()
	if err != nil {
		if err.Error() != w.failure {
			w.failure = err.Error()
			notify(Change{Err: err})
		}
		return
	}
	w.failure = ""
	var beside []byte
	if name := w.current.Commitments.File; name != "" {
		beside, _ = readFile(name) // loading says what is wrong
	}
	if w.seen != nil && bytes.Equal(data, w.seen) && bytes.Equal(beside, w.beside) {
		return
	}
	w.seen, w.beside = data, beside
	next, err := w.source.load(data)
	if err == nil {
		err = config.CheckChange(w.current.Config, next.Config, w.source.Path)
	}
	if err != nil {
		notify(Change{Err: err})
		return
	}
	if fields := config.Changed(w.current.Config, next.Config); len(fields) > 0 {
		w.current = next
		notify(Change{Config: next, Fields: fields})
	}
}
