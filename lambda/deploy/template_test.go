package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/weir-project/weir/lambda/deploy/custom"
	"github.com/weir-project/weir/lambda/deploy/image"
	"github.com/weir-project/weir/lambda/deploy/release"
)

// What the CDK app's templates say of the release is understood, and the chart takes its
// values. The files are snapshots, which tests of infra/cdk hold the app to.
func TestTemplatesAreUnderstood(t *testing.T) {
	t.Parallel()
	chart, err := loader.Load(filepath.Join("..", "..", "infra", "chart"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"required", "everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "infra", "cdk", "weircdk", "testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var template struct {
				Resources map[string]struct {
					Type       string
					Properties map[string]any
				}
			}
			if err := json.Unmarshal(text, &template); err != nil {
				t.Fatal(err)
			}
			found := 0
			for id, r := range template.Resources {
				if r.Type != "Custom::WeirRelease" {
					continue
				}
				found++
				given := map[string]any{}
				for name, v := range r.Properties {
					given[name] = resolved(v)
				}
				p, err := custom.ReadProperties(given)
				if err != nil {
					t.Fatalf("%s: %v", id, err)
				}
				if err := release.Check(chart, values(p, image.Reference{Repository: "registry.example/weir", Tag: "v1"}), p.Namespace, releaseName); err != nil {
					t.Errorf("%s: values %v: %v", id, p.Values, err)
				}
			}
			if found != 1 {
				t.Errorf("%d releases, expected 1", found)
			}
		})
	}
}

// resolved is a value of a template as CloudFormation hands it over, near enough.
func resolved(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		s, _ := v.(string)
		return s
	}
	if ref, ok := m["Ref"].(string); ok {
		known := map[string]string{"AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com"}
		if s, ok := known[ref]; ok {
			return s
		}
		return strings.ToLower(ref)
	}
	if parts, ok := m["Fn::Join"].([]any); ok {
		var out []string
		for _, p := range parts[1].([]any) {
			out = append(out, resolved(p))
		}
		return strings.Join(out, parts[0].(string))
	}
	if parts, ok := m["Fn::Select"].([]any); ok { // of an ARN that is split
		return strings.Split("arn:aws:ecr:eu-west-1:123456789012:repository/weir", ":")[int(parts[0].(float64))]
	}
	if parts, ok := m["Fn::GetAtt"].([]any); ok {
		return "arn:aws:service:eu-west-1:123456789012:" + strings.ToLower(parts[0].(string))
	}
	return ""
}
