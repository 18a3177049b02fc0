package report

import (
	"io"
	"strconv"
	"time"
)

// Event is what one interruption event would do to one instance.
type Event struct {
	ID            string `json:"id"`
	Type          string `json:"type"`
	Instance      string `json:"instance"`
	Node          string `json:"node"`
	Action        string `json:"action"`
	Deadline      string `json:"deadline"` // RFC 3339, or empty
	MarksOffering bool   `json:"marksOffering"`
	Reason        string `json:"reason"`
}

// Deadline writes an instant the way the formats do, empty for none.
func Deadline(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// InterruptionVerdict is the answer of interrupt explain.
type InterruptionVerdict struct {
	Kind   string  `json:"kind"`
	Events []Event `json:"events"`
}

// Interruption is the report of verdicts on events.
func Interruption(events []Event) *InterruptionVerdict {
	if events == nil {
		events = []Event{}
	}
	return &InterruptionVerdict{Kind: "InterruptionVerdict", Events: events}
}

// WriteTable writes one line for each event.
func (v *InterruptionVerdict) WriteTable(w io.Writer) error {
	t := newTable(w, "EVENT", "TYPE", "INSTANCE", "NODE", "ACTION", "DEADLINE", "MARKS OFFERING", "REASON")
	for _, e := range v.Events {
		t.row(e.ID, e.Type, dash(e.Instance), dash(e.Node), e.Action, dash(e.Deadline), strconv.FormatBool(e.MarksOffering), e.Reason)
	}
	return t.flush()
}
