package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/weir-project/weir/core/simulate"
)

// teller writes what happens, as the simulator does.
type teller struct {
	mu    sync.Mutex
	w     io.Writer
	style simulate.Style
	start time.Time

	groups []group // of the last moments
}

type group struct {
	simulate.Happening
	verb string // of pods: what is said of their number
	last time.Time
}

func newTeller(f *os.File) *teller {
	color := isatty.IsTerminal(f.Fd()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &teller{w: f, style: simulate.Style{Color: color}, start: time.Now()}
}

func (t *teller) tell(h simulate.Happening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(true)
	t.write(h)
}

func (t *teller) write(h simulate.Happening) {
	if h.At.IsZero() {
		h.At = time.Now()
	}
	_ = simulate.WriteHappening(t.w, h, t.start, t.style) // there is nobody to tell if the terminal is gone
}

func (t *teller) title(s string)     { t.tell(simulate.Happening{Kind: "step", Text: s}) }
func (t *teller) say(kind, s string) { t.tell(simulate.Happening{Kind: kind, Text: s}) }

// pod counts a pod; pods of which the same is said within a moment become one line.
func (t *teller) pod(subject, verb, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for i := range t.groups {
		g := &t.groups[i]
		if g.Subject == subject && g.verb == verb && g.Why == why {
			g.Count++
			g.last = now
			return
		}
	}
	t.groups = append(t.groups, group{Happening: simulate.Happening{At: now, Kind: "pods", Subject: subject, Count: 1, Why: why}, verb: verb, last: now})
}

// quiet is how long nothing more must be said of pods before it is written.
const quiet = 400 * time.Millisecond

func (t *teller) flush(all bool) {
	var keep []group
	for _, g := range t.groups {
		if !all && time.Since(g.last) < quiet {
			keep = append(keep, g)
			continue
		}
		noun := "pods"
		if g.Count == 1 {
			noun = "pod"
		}
		g.Text = fmt.Sprintf("%d %s %s", g.Count, noun, g.verb)
		t.write(g.Happening)
	}
	t.groups = keep
}

func (t *teller) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(false)
}
