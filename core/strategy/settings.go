package strategy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/weir-project/weir/plugins/sdk"
)

// maxSettingsErrors is how many faults of a configuration are told at once.
const maxSettingsErrors = 10

// CheckSettings holds a strategy's configuration against the JSON Schema of its manifest,
// before the strategy sees it. Every fault names its field and what was expected, as
// *sdk.ConfigError; a schema that is none is an error as well. No schema allows everything.
func CheckSettings(schema string, config json.RawMessage) error {
	if schema == "" {
		return nil
	}
	if len(bytes.TrimSpace(config)) == 0 {
		config = json.RawMessage("{}")
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		return fmt.Errorf("the strategy's config schema cannot be used: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
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
	var out []error
	english := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(out) < maxSettingsErrors {
			out = append(out, &sdk.ConfigError{Field: strings.Join(e.InstanceLocation, "."), Message: e.ErrorKind.LocalizedString(english)})
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(bad)
	return errors.Join(out...)
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
