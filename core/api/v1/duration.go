package v1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Never is the text of a NillableDuration that has no end.
const Never = "Never"

// NillableDuration is a duration, or "Never". It keeps the text it was read from, so that an object that is read and written
// back is unchanged ("24h" does not become "24h0m0s"), which tools that compare objects with files rely on.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
type NillableDuration struct {
	// Duration is nil for "Never" and for the zero value.
	Duration *time.Duration
	// Raw is the text as read; empty when the value was made in Go. It takes no part in hashes.
	Raw string `json:"-" hash:"ignore"`
}

// After returns a NillableDuration of d.
func After(d time.Duration) NillableDuration { return NillableDuration{Duration: &d} }

// ParseNillableDuration reads "Never" or a Go duration.
func ParseNillableDuration(text string) (NillableDuration, error) {
	if text == Never {
		return NillableDuration{Raw: text}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return NillableDuration{}, fmt.Errorf("duration %q: expected %q or a duration such as 720h: %w", text, Never, err)
	}
	return NillableDuration{Duration: &d, Raw: text}, nil
}

// IsNever reports whether there is no end.
func (d NillableDuration) IsNever() bool { return d.Duration == nil }

// String returns the text as written, else the canonical one.
func (d NillableDuration) String() string {
	switch {
	case d.Raw != "":
		return d.Raw
	case d.Duration == nil:
		return Never
	default:
		return d.Duration.String()
	}
}

// MarshalJSON writes what was read.
func (d NillableDuration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string as ParseNillableDuration does.
func (d *NillableDuration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s: expected a string: %w", data, err)
	}
	parsed, err := ParseNillableDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// ToUnstructured gives converters the text without going through JSON.
func (d NillableDuration) ToUnstructured() any { return d.String() }
