// Command gen finishes the CustomResourceDefinitions that controller-gen wrote: it adds the rules that markers on our types
// cannot express, because they sit on types of Kubernetes (taints, conditions) or on the values of a map (labels).
//
// In: a folder of CustomResourceDefinitions. Out: the same files, rewritten. A rule whose place is not found is an error, so
// that a renamed field cannot silently lose its validation.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	labelValue    = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	qualifiedName = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
)

// rule sets keywords of the schema at a path. A step "[]" goes to the items of a list, "{}" to the values of a map.
type rule struct {
	path string
	set  map[string]any
}

func taintRules(list string) []rule {
	return []rule{
		{list + ".[].key", map[string]any{"minLength": 1, "pattern": qualifiedName}},
		{list + ".[].value", map[string]any{"pattern": qualifiedName}},
		{list + ".[].effect", map[string]any{"enum": []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}}},
	}
}

func rules() map[string][]rule {
	pool := []rule{{"spec.template.metadata.labels.{}", map[string]any{"maxLength": 63, "pattern": labelValue}}}
	pool = append(pool, taintRules("spec.template.spec.taints")...)
	pool = append(pool, taintRules("spec.template.spec.startupTaints")...)
	// A claim's conditions may come without reason and message: providers write such ones.
	claim := []rule{
		{"status.conditions.[]", map[string]any{"required": []string{"lastTransitionTime", "status", "type"}}},
		{"status.conditions.[].reason", map[string]any{"minLength": nil, "pattern": `^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$`}},
	}
	claim = append(claim, taintRules("spec.taints")...)
	claim = append(claim, taintRules("spec.startupTaints")...)
	return map[string][]rule{"karpenter.sh_nodepools.yaml": pool, "karpenter.sh_nodeclaims.yaml": claim}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIR")
		os.Exit(2)
	}
	for name, list := range rules() {
		if err := rewrite(filepath.Join(os.Args[1], name), list); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func rewrite(file string, list []rule) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	root, err := rootSchema(crd)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, r := range list {
		if err := apply(root, r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), out...), 0o644)
}

func rootSchema(crd map[string]any) (map[string]any, error) {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) != 1 {
		return nil, fmt.Errorf("expected one version, found %d", len(versions))
	}
	version, _ := versions[0].(map[string]any)
	schema, _ := version["schema"].(map[string]any)
	root, ok := schema["openAPIV3Schema"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no schema")
	}
	return root, nil
}

func apply(node map[string]any, r rule) error {
	for _, step := range strings.Split(r.path, ".") {
		var next any
		switch step {
		case "[]":
			next = node["items"]
		case "{}":
			next = node["additionalProperties"]
		default:
			properties, _ := node["properties"].(map[string]any)
			next = properties[step]
		}
		child, ok := next.(map[string]any)
		if !ok {
			return fmt.Errorf("path %s: no schema at %q", r.path, step)
		}
		node = child
	}
	for key, value := range r.set {
		if value == nil {
			delete(node, key)
		} else {
			node[key] = value
		}
	}
	return nil
}
