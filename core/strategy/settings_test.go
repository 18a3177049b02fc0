package strategy

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weir-project/weir/plugins/builtin"
	"github.com/weir-project/weir/plugins/sdk"
)

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "additionalProperties": false, "properties": {"fee": {"type": "number", "minimum": 0, "maximum": 10},
		"parts": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}}`
	const closed = `{"type": "object", "additionalProperties": false, "properties": {"fee": {"type": "number"}, "parts": {"additionalProperties": {"$ref": "#/$defs/a~1b%20c"}}},
		"$defs": {"a/b c": {"type": "object", "additionalProperties": false, "properties": {"max/min": {}}}}}`
	for name, c := range map[string]struct {
		schema, config string
		want           []string // in the error; none = it is fine
	}{
		"no schema":            {"", `{"anything": 1}`, nil},
		"nothing set":          {schema, "", nil},
		"all well":             {schema, `{"fee": 3, "parts": [{"name": "a"}]}`, nil},
		"above the maximum":    {schema, `{"fee": 30}`, []string{"fee: maximum: got 30, want 10"}},
		"a wrong type":         {schema, `{"fee": "3"}`, []string{"fee: got string, want number"}},
		"an unknown field":     {schema, `{"feee": 3}`, []string{`configuration: feee: unknown field, did you mean "fee"?; known here: fee, parts`}},
		"unknown and unlike":   {closed, `{"parts": {"b": {"x": 1}}}`, []string{"configuration: parts.b.x: unknown field; known here: max/min"}},
		"in order":             {closed, `{"z": 1, "fee": "x", "a": 1}`, []string{"configuration: a: unknown field; known here: fee, parts\nconfiguration: fee: got string, want number\nconfiguration: z: unknown field"}},
		"more than are told":   {closed, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`, []string{"configuration: j: unknown", "configuration: and 2 faults more"}},
		"deep down":            {schema, `{"parts": [{"name": "a"}, {}]}`, []string{"parts.1: missing property 'name'"}},
		"two faults":           {schema, `{"fee": -1, "parts": 3}`, []string{"fee: minimum: got -1, want 0", "parts: got number, want array"}},
		"not JSON":             {schema, `{"fee": `, []string{"configuration"}},
		"a schema that is not": {`{"type": 7}`, `{}`, []string{"config schema cannot be used"}},
		"a schema from afar":   {`{"$ref": "https://example.com/schema.json"}`, `{}`, []string{"which is not looked up"}},
		"a file as a schema":   {`{"$ref": "file:///etc/passwd"}`, `{}`, []string{"which is not looked up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckSettings(c.schema, json.RawMessage(c.config))
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// Every built-in publishes a schema, which allows its defaults and nothing unknown.
func TestBuiltinsPublishSchemas(t *testing.T) {
	t.Parallel()
	for _, name := range builtin.Names() {
		s, err := builtin.New(name)
		if err != nil {
			t.Fatal(err)
		}
		schema := s.Describe().ConfigSchema
		if schema == "" {
			t.Errorf("%s has no schema", name)
		}
		if err := CheckSettings(schema, nil); err != nil {
			t.Errorf("%s, nothing set: %v", name, err)
		}
		var field *sdk.ConfigError
		if err := CheckSettings(schema, json.RawMessage(`{"noSuchSetting": 1}`)); !errors.As(err, &field) {
			t.Errorf("%s, a setting that there is not: %v", name, err)
		}
	}
}

// A configuration that the schema refuses is not applied, and what runs goes on: for a
// built-in Apply says so, for a process the host does, before the process sees it.
func TestBadSettingsKeepTheOldOnes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inside := Config{Strategies: []Spec{{Name: "cost-optimal", Config: json.RawMessage(`{"feePerNode": 0.5}`)}}, InstanceSelection: "cost-optimal"}
	outside := inside
	outside.Strategies = []Spec{{Name: "other", Path: self, Args: []string{"serve", "builtin", "cost-optimal"}, Config: inside.Strategies[0].Config}}
	outside.InstanceSelection = "other"
	for name, good := range map[string]Config{"built-in": inside, "process": outside} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, good)
			settle(t, h)
			bad := good
			spec := good.Strategies[0]
			spec.Config = json.RawMessage(`{"feePerNode": 5000}`)
			bad.Strategies = []Spec{spec}
			err := h.Apply(bad)
			if err == nil {
				err = h.Settled(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), "feePerNode: maximum: got 5,000, want 1,000") {
				t.Errorf("the fault is told as: %v", err)
			}
			prices, err := h.Price(t.Context(), testWorld())
			if err != nil {
				t.Fatal(err)
			}
			if pp := prices.ByPool["default"]; pp.Outcome != string(OK) || pp.FeePerNode < 0.5 || pp.FeePerNode > 0.6 {
				t.Errorf("outcome %s, fee %v, want what was there before", pp.Outcome, pp.FeePerNode)
			}
		})
	}
}
