package validate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/api/validate"
	"github.com/weir-project/weir/core/api/validate/cases"
)

type defaulter interface{ Default() }

// The Go types must lose no field of any accepted object, and their Default must fill in what the definitions do.
func TestTypesAgreeWithDefinitions(t *testing.T) {
	t.Parallel()
	table, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table {
		if c.WantErr != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			object := decode(t, c.YAML)
			content, _ := judge(t, c, object)
			for _, input := range []map[string]any{object, content} {
				got := throughType(t, input)
				if diff := cmp.Diff(canonical(t, throughType(t, content)), canonical(t, got)); diff != "" {
					t.Errorf("Default() differs from the definition (-definition +Default):\n%s", diff)
				}
			}
			if diff := cmp.Diff(spec(t, content), spec(t, throughType(t, content))); diff != "" {
				t.Errorf("the type changes the object (-object +type):\n%s", diff)
			}
		})
	}
}

// throughType decodes the object into its Go type, defaults it and encodes it again.
func throughType(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	var into defaulter
	switch object["kind"] {
	case "NodePool":
		into = &v1.NodePool{}
	case "NodeClaim":
		into = &v1.NodeClaim{}
	case "EC2NodeClass":
		into = &awsv1.EC2NodeClass{}
	default:
		t.Fatalf("kind %v", object["kind"])
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	into.Default()
	if data, err = json.Marshal(into); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func canonical(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	out, errs, err := validate.Object(kind(object), object)
	if err != nil || validate.Has(errs, v1.Rejected) || validate.Has(errs, v1.UnknownField) {
		t.Fatalf("what the type writes is refused: %v, %v", err, errs)
	}
	return out
}

// spec returns the spec with quantities and plain durations in one spelling; all other text must come through as it was.
func spec(t *testing.T, object map[string]any) any {
	t.Helper()
	data, err := json.Marshal(object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	respell(t, out)
	return out
}

func respell(t *testing.T, object map[string]any) {
	t.Helper()
	for key, value := range object {
		switch value := value.(type) {
		case string:
			if key == "terminationGracePeriod" || key == "duration" {
				d, err := time.ParseDuration(value)
				if err != nil {
					t.Fatal(err)
				}
				object[key] = d.String()
			}
		case []any:
			for _, item := range value {
				if m, ok := item.(map[string]any); ok {
					respell(t, m)
				}
			}
		case map[string]any:
			if key == "limits" || key == "requests" {
				for name, q := range value {
					value[name] = fmt.Sprint(q)
				}
			}
			respell(t, value)
		}
	}
}
