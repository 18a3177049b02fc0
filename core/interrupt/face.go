package interrupt

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Face is a notice as the annotation weir.dev/interruption of a NodeClaim shows it.
type Face struct {
	Kind     model.NoticeKind `json:"kind"`
	Action   Action           `json:"action"`
	Deadline time.Time        `json:"deadline,omitzero"`
	EventID  string           `json:"eventId,omitempty"`
}

// FaceOf is the face of a notice and what is done about it.
func FaceOf(n model.Notice, a Action) Face {
	f := Face{Kind: n.Kind, Action: a, EventID: n.EventID}
	if at, ok := Until(n); ok {
		f.Deadline = at.UTC().Truncate(time.Second)
	}
	return f
}

// Text is the value of the annotation.
func (f Face) Text() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("interrupt: a face of plain fields does not encode: %v", err)) // broken invariant
	}
	return string(b)
}

// ReadFace reads the annotation of a claim; ok is false where there is none.
func ReadFace(annotations map[string]string) (f Face, ok bool, err error) {
	v, ok := annotations[model.AnnotationInterruption]
	if !ok || v == "" {
		return Face{}, false, nil
	}
	if err := json.Unmarshal([]byte(v), &f); err != nil {
		return Face{}, false, fmt.Errorf("annotation %s: %w", model.AnnotationInterruption, err)
	}
	return f, true, nil
}

// Merge joins what a claim shows already with a further notice: the stronger action
// and the earliest deadline stand. changed is false where the claim shows enough.
func (f Face) Merge(next Face) (merged Face, changed bool) {
	merged = f
	if rank[next.Action] > rank[f.Action] {
		merged.Action, merged.Kind, merged.EventID, changed = next.Action, next.Kind, next.EventID, true
	}
	if !next.Deadline.IsZero() && (f.Deadline.IsZero() || next.Deadline.Before(f.Deadline)) {
		merged.Deadline, changed = next.Deadline, true
	}
	return merged, changed
}
