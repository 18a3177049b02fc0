package strategy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/plugins/sdk"
)

// maxSettingsErrors is how many faults of a configuration are told at once.
const maxSettingsErrors = 10

// CheckSettings holds a strategy's configuration against the JSON Schema of its manifest,
// before the strategy sees it. Every fault names its field and what was expected, as
// *sdk.ConfigError, in the order of the fields, ten at most; a schema that is none is an error as well. No schema allows everything.
func CheckSettings(schema string, settings json.RawMessage) error {
	if schema == "" {
		return nil
	}
	if len(bytes.TrimSpace(settings)) == 0 {
		settings = json.RawMessage("{}")
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		return fmt.Errorf("the strategy's config schema cannot be used: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	if err != nil {
		return &sdk.ConfigError{Message: err.Error()}
	}
	var bad *jsonschema.ValidationError
	switch err := compiled.Validate(value); {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return &sdk.ConfigError{Message: err.Error()}
	}
	faults := settingsFaults(schema, bad)
	var out []error
	for i, f := range faults {
		if i == maxSettingsErrors {
			out = append(out, &sdk.ConfigError{Message: fmt.Sprintf("and %d faults more", len(faults)-i)})
			break
		}
		out = append(out, f)
	}
	return errors.Join(out...)
}

// settingsFaults is every fault, by field: the library tells them in no order.
func settingsFaults(schema string, bad *jsonschema.ValidationError) []*sdk.ConfigError {
	var out []*sdk.ConfigError
	english := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) > 0 {
			return
		}
		more, unknown := e.ErrorKind.(*kind.AdditionalProperties)
		if !unknown {
			out = append(out, &sdk.ConfigError{Field: strings.Join(e.InstanceLocation, "."), Message: e.ErrorKind.LocalizedString(english)})
			return
		}
		known := knownSettings(schema, e.SchemaURL)
		for _, name := range more.Properties {
			out = append(out, &sdk.ConfigError{Field: strings.Join(append(slices.Clone(e.InstanceLocation), name), "."), Message: unknownSetting(name, known)})
		}
	}
	walk(bad)
	slices.SortFunc(out, func(a, b *sdk.ConfigError) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(out, func(a, b *sdk.ConfigError) bool { return *a == *b })
}

// unknownSetting says that there is no such setting, and which there are.
func unknownSetting(name string, known []string) string {
	text := "unknown field"
	if near := config.Nearest(name, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	if len(known) > 0 {
		text += "; known here: " + strings.Join(known, ", ")
	}
	return text
}

// knownSettings is the fields that a part of a schema has, by the URL of the part.
func knownSettings(schema, part string) []string {
	var at any
	if err := json.Unmarshal([]byte(schema), &at); err != nil {
		return nil // it was read before
	}
	_, pointer, _ := strings.Cut(part, "#")
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" {
			continue
		}
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch x := at.(type) {
		case map[string]any:
			at = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			at = x[i]
		default:
			return nil
		}
	}
	object, _ := at.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return sortedNames(properties)
}

// compileSchema reads a schema that stands for itself: what it refers to elsewhere is not
// fetched.
func compileSchema(schema string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	const name = "config.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// nowhere is a loader of schemas that has none.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, which is not looked up", url)
}
