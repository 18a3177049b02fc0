package validate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/api/validate"
	"github.com/weir-project/weir/core/api/validate/cases"
)

func TestTable(t *testing.T) {
	t.Parallel()
	table, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(table) < 40 {
		t.Fatalf("the table has %d cases", len(table))
	}
	for _, c := range table {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			object := decode(t, c.YAML)
			content, errs := judge(t, c, object)
			want(t, errs, v1.Rejected, c.WantPath, c.WantErr)
			want(t, errs, v1.UnknownField, c.WantUnknown, unknownText(c.WantUnknown))
			if validate.Has(errs, v1.Rejected) {
				return
			}
			want(t, typedErrors(t, object), v1.Invalid, "", c.WantInvalid)
			for path, value := range c.WantDefaults {
				if got := at(t, content, path); got != value {
					t.Errorf("%s is %s, want %s", path, got, value)
				}
			}
			again, errs := judge(t, c, content)
			if len(errs) > 0 {
				t.Errorf("what was accepted is refused the second time: %v", errs)
			}
			if diff := cmp.Diff(content, again); diff != "" {
				t.Errorf("defaulting twice changes the object (-once +twice):\n%s", diff)
			}
		})
	}
}

func judge(t *testing.T, c cases.Case, object map[string]any) (map[string]any, []v1.FieldError) {
	t.Helper()
	gvk := kind(object)
	if c.Old == "" {
		content, errs, err := validate.Object(gvk, object)
		if err != nil {
			t.Fatal(err)
		}
		return content, errs
	}
	old, errs, err := validate.Object(gvk, decode(t, c.Old))
	if err != nil || len(errs) > 0 {
		t.Fatalf("the old object is refused: %v, %v", err, errs)
	}
	content, errs, err := validate.Update(gvk, object, old)
	if err != nil {
		t.Fatal(err)
	}
	return content, errs
}

// want checks that the errors of one class are none, or contain the path and text in one of them.
func want(t *testing.T, errs []v1.FieldError, class v1.Class, path, text string) {
	t.Helper()
	var found []string
	for _, e := range errs {
		if e.Class == class {
			found = append(found, e.Error())
		}
	}
	if text == "" {
		if len(found) > 0 {
			t.Errorf("%s with %q, want none", class, found)
		}
		return
	}
	prefix := ""
	if path != "" {
		prefix = path + ": "
	}
	for _, f := range found {
		if strings.HasPrefix(f, prefix) && strings.Contains(f, text) {
			return
		}
	}
	t.Errorf("%s with %q, want one at %q with %q", class, found, path, text)
}

func unknownText(path string) string {
	if path == "" {
		return ""
	}
	return "unknown field"
}

func typedErrors(t *testing.T, object map[string]any) []v1.FieldError {
	t.Helper()
	var errs []v1.FieldError
	var err error
	switch object["kind"] {
	case "NodePool":
		_, errs, err = validate.NodePool(object)
	case "NodeClaim":
		_, errs, err = validate.NodeClaim(object)
	case "EC2NodeClass":
		_, errs, err = validate.EC2NodeClass(object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

func kind(object map[string]any) schema.GroupVersionKind {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	return schema.FromAPIVersionAndKind(version, name)
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yamlInto(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func yamlInto(text string, object *map[string]any) error { return yaml.Unmarshal([]byte(text), object) }

// at returns the JSON of the value at a path of map keys.
func at(t *testing.T, object map[string]any, path string) string {
	t.Helper()
	var value any = object
	for _, step := range strings.Split(path, ".") {
		m, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%s: nothing at %s", path, step)
		}
		value = m[step]
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestKindThatIsNotOurs(t *testing.T) {
	t.Parallel()
	_, _, err := validate.Object(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, map[string]any{})
	if !errors.Is(err, validate.ErrUnknownKind) {
		t.Errorf("error %v, want %v", err, validate.ErrUnknownKind)
	}
}
