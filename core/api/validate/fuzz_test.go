package validate_test

import (
	"testing"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/api/validate"
)

const claimText = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim}
spec:
  requirements:
  - {key: karpenter.sh/nodepool, operator: In, values: [default]}
  - {key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["4"]}
  resources: {requests: {cpu: "14"}}
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

// The command line checks each claim of a cluster before it plans, so this is paid some thousand times.
func BenchmarkObject(b *testing.B) {
	object := map[string]any{}
	if err := yamlInto(claimText, &object); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, errs, err := validate.Object(v1.NodeClaimKind, object); err != nil || len(errs) > 0 {
			b.Fatal(err, errs)
		}
	}
}

// Nonsense must get an answer, never a panic, and what is accepted must be accepted again.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		claimText, "{}", "metadata: []", "spec: null", "status: x", "metadata: {labels: {a: 1}}", "spec: {requirements: [{values: [null]}]}",
		"spec: {nodeClassRef: {group: 1}}", "metadata: {managedFields: [{time: x}]}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if yamlInto(text, &object) != nil || object == nil {
			return
		}
		object["apiVersion"], object["kind"] = "karpenter.sh/v1", "NodeClaim"
		content, errs, err := validate.Object(v1.NodeClaimKind, object)
		if err != nil || validate.Has(errs, v1.Rejected) {
			return
		}
		if _, errs, err = validate.Object(v1.NodeClaimKind, content); err != nil || len(errs) > 0 {
			t.Errorf("accepted once, then %v, %v", errs, err)
		}
		if _, _, err := validate.NodeClaim(object); err != nil {
			t.Error(err)
		}
	})
}
