package cases

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var files embed.FS

// Case is one object and what becomes of it.
type Case struct {
	// Name is unique in the table: file/case.
	Name string
	// YAML is the object; Old, when not empty, is the stored object that it replaces.
	YAML string
	Old  string
	// WantPath and WantErr are parts of the API server's answer; with an empty WantErr it accepts the object.
	WantPath string
	WantErr  string
	// WantUnknown is the field that the API server does not know and refuses under strict validation.
	WantUnknown string
	// WantInvalid is part of what the controller says to an accepted object; empty when it can use it.
	WantInvalid string
	// WantDefaults maps paths (dots between keys) to the JSON value that the accepted object has there.
	WantDefaults map[string]string
}

type file struct {
	Base  json.RawMessage `json:"base"`
	Cases []struct {
		Name     string            `json:"name"`
		Patch    json.RawMessage   `json:"patch"`
		Old      json.RawMessage   `json:"old"`
		Path     string            `json:"path"`
		Want     string            `json:"want"`
		Unknown  string            `json:"unknown"`
		Invalid  string            `json:"invalid"`
		Defaults map[string]string `json:"defaults"`
	} `json:"cases"`
}

// All returns the table in the order of the files.
func All() ([]Case, error) {
	names, err := fs.Glob(files, "testdata/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Case
	seen := map[string]bool{}
	for _, name := range names {
		cases, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, c := range cases {
			if seen[c.Name] {
				return nil, fmt.Errorf("%s: two cases are called %q", name, c.Name)
			}
			seen[c.Name] = true
			out = append(out, c)
		}
	}
	return out, nil
}

func read(name string) ([]Case, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(path.Base(name), ".yaml")
	out := make([]Case, 0, len(f.Cases))
	for _, c := range f.Cases {
		object, err := patched(f.Base, c.Patch)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		old := ""
		if c.Old != nil {
			if old, err = patched(f.Base, c.Old); err != nil {
				return nil, fmt.Errorf("case %q: old: %w", c.Name, err)
			}
		}
		out = append(out, Case{
			Name: stem + "/" + c.Name, YAML: object, Old: old, WantPath: c.Path, WantErr: c.Want,
			WantUnknown: c.Unknown, WantInvalid: c.Invalid, WantDefaults: c.Defaults,
		})
	}
	return out, nil
}

func patched(base, patch json.RawMessage) (string, error) {
	if len(patch) > 0 {
		merged, err := jsonpatch.MergePatch(base, patch)
		if err != nil {
			return "", err
		}
		base = merged
	}
	text, err := yaml.JSONToYAML(base)
	return string(text), err
}
