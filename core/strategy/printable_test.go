package strategy

import (
	"strings"
	"testing"
	"unicode"
)

// TestWordsAreShownPlain: what a strategy writes, answers and complains of has no control
// characters by the time that logs, statuses and verdicts have it, and errors have a bound.
func TestWordsAreShownPlain(t *testing.T) {
	t.Parallel()
	h, logs := watched(t, fakeSpec(t, "fake", "escapes"))
	p := price(t, h)
	if p.Outcome != "ok" {
		t.Fatalf("outcome %s", p.Outcome)
	}
	until(t, "the line", func() bool { return logs.FilterMessageSnippet("written").Len() == 1 })
	if line := logs.FilterMessageSnippet("written").All()[0].Message; line != "over written \ufffd[2J" {
		t.Errorf("logged %q", line)
	}
	for _, o := range p.Offerings {
		if strings.ContainsFunc(o.Veto, unicode.IsControl) {
			t.Errorf("veto %q", o.Veto)
		}
	}
	h, logs = watched(t, fakeSpec(t, "fake", "escapes at length"))
	if p := price(t, h); p.Outcome == "ok" {
		t.Error("an error was taken for an answer")
	}
	last := statusOf(h, "fake").LastCallError
	if last == "" || len(last) > MaxError || strings.ContainsFunc(last, unicode.IsControl) {
		t.Errorf("%d bytes: %.60q", len(last), last)
	}
	for _, e := range logs.All() {
		if text, ok := e.ContextMap()["error"].(string); ok && (len(text) > MaxError || strings.ContainsFunc(text, unicode.IsControl)) {
			t.Errorf("%s: an error of %d bytes: %.60q", e.Message, len(text), text)
		}
	}
}
