package ec2front

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"time"
)

// writer writes an answer. Elements that are empty are left out, as EC2 does with most.
type writer struct{ bytes.Buffer }

func (w *writer) in(name string, f func()) {
	w.WriteString("<" + name + ">")
	f()
	w.WriteString("</" + name + ">")
}

// el writes an element with a text, or nothing where the text is empty.
func (w *writer) el(name, text string) {
	if text != "" {
		w.full(name, text)
	}
}

// full writes an element also where its text is empty.
func (w *writer) full(name, text string) {
	w.WriteString("<" + name + ">")
	_ = xml.EscapeText(w, []byte(text)) // a buffer takes everything
	w.WriteString("</" + name + ">")
}

func (w *writer) num(name string, n int)     { w.full(name, strconv.Itoa(n)) }
func (w *writer) bool(name string, b bool)   { w.full(name, strconv.FormatBool(b)) }
func (w *writer) usd(name string, f float64) { w.full(name, strconv.FormatFloat(f, 'f', -1, 64)) }

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.full(name, stamp(t))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// set writes a list of structures.
func set[T any](w *writer, name string, list []T, f func(T)) {
	w.in(name, func() {
		for _, x := range list {
			w.in("item", func() { f(x) })
		}
	})
}

// texts writes a list of values.
func (w *writer) texts(name string, list ...string) {
	w.in(name, func() {
		for _, x := range list {
			w.full("item", x)
		}
	})
}

func (w *writer) tags(tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	set(w, "tagSet", slices.Sorted(maps.Keys(tags)), func(k string) {
		w.full("key", k)
		w.full("value", tags[k])
	})
}
