package release

import (
	"bytes"
	"strings"
	"testing"
)

// TestGuard: what machines hang on must not be in a release unless Helm is told to keep it.
func TestGuard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		manifest string
		refused  string
	}{
		"pod":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", ""},
		"pool":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n", "NodePool p"},
		"claim":      {"apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nmetadata: {name: c}\n", "NodeClaim c"},
		"class":      {"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: d}\n", "EC2NodeClass d"},
		"definition": {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: e}\n", "CustomResourceDefinition e"},
		"namespace":  {"apiVersion: v1\nkind: Namespace\nmetadata: {name: place}\n", "Namespace place"},
		"node":       {"apiVersion: v1\nkind: Node\nmetadata: {name: machine}\n", "Node machine"},
		"kept":       {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p, annotations: {helm.sh/resource-policy: keep}}\n", ""},
		"no YAML":    {"a: b: c", "what the chart renders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := guard{}.Run(bytes.NewBufferString(tc.manifest))
			switch {
			case tc.refused == "" && (err != nil || out.String() != tc.manifest):
				t.Errorf("%v, %v; expected it as it is", out, err)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("error %v, expected it to say %q", err, tc.refused)
			}
		})
	}
}
