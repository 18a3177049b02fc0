package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ConfigError is a fault of a configuration that names its field.
type ConfigError struct{ Field, Message string }

// Error implements error.
func (e *ConfigError) Error() string {
	if e.Field == "" {
		return "configuration: " + e.Message
	}
	return "configuration: " + e.Field + ": " + e.Message
}

// Decode reads a configuration into a pointer to a struct that holds the defaults.
// Unknown fields and wrong types are errors of type *ConfigError; an empty
// configuration leaves the defaults.
func Decode(config json.RawMessage, into any) error {
	if len(bytes.TrimSpace(config)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return &ConfigError{Field: wrong.Field, Message: fmt.Sprintf("got %s, want %s", wrong.Value, wrong.Type)}
		}
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return &ConfigError{Field: strings.Trim(field, `"`), Message: "unknown field"}
		}
		return &ConfigError{Message: err.Error()}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &ConfigError{Message: "more than one JSON value"}
	}
	return nil
}
