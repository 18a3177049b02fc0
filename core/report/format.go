package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// USD is an amount of dollars per hour; it is written with at most six decimals.
type USD float64

// MarshalJSON rounds to six decimals. What is no number is written as 0: a price
// that is not known is told beside, never by the number.
func (u USD) MarshalJSON() ([]byte, error) { return decimals(float64(u), 6), nil }

// Number is a number without a unit, written with at most six decimals.
type Number float64

// MarshalJSON rounds to six decimals.
func (n Number) MarshalJSON() ([]byte, error) { return decimals(float64(n), 6), nil }

func decimals(x float64, n int) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	scale := math.Pow10(n)
	x = math.Round(x*scale) / scale
	if x == 0 {
		x = 0 // no negative zero
	}
	return strconv.AppendFloat(nil, x, 'f', -1, 64)
}

// below rounds a bound down, so that rounding never lifts it above what it bounds.
func below(x float64) USD {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return 0
	}
	return USD(math.Floor(x*1e6+1e-6) / 1e6)
}

// Tabler is a report that can be shown as a table.
type Tabler interface{ WriteTable(w io.Writer) error }

// Formats that Write knows.
const (
	JSON  = "json"
	YAML  = "yaml"
	Table = "table"
)

// Write writes a report in one of the formats. Errors: an unknown format, and
// those of the writer.
func Write(w io.Writer, format string, report Tabler) error {
	switch format {
	case Table:
		return report.WriteTable(w)
	case JSON:
		return WriteJSON(w, report)
	case YAML:
		return WriteYAML(w, report)
	}
	return fmt.Errorf("unknown format %q, expected %s, %s or %s", format, JSON, YAML, Table)
}

// WriteJSON writes any value as indented JSON with a newline at the end.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteYAML writes any value as YAML with the fields in the order of its JSON.
func WriteYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := WriteJSON(&b, v); err != nil {
		return err
	}
	var doc yaml.Node // JSON is YAML; the node keeps the order that a map would lose
	if err := yaml.Unmarshal(b.Bytes(), &doc); err != nil {
		return fmt.Errorf("turning JSON into YAML: %w", err)
	}
	plain(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

// plain takes the JSON style off, so that the encoder quotes only what needs it.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
	if (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
}
