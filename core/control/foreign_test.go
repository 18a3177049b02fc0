package control_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/model"
)

// B115: a claim of another provider's class shares the definitions with ours. Nothing is done about it or its instance: no tags,
// no patch, no end.
func TestClaimsOfAnotherProviderAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := foreign(t, rightImage, rightImage)
	s.API.PutClass(kept(t, nil))
	const tagged = "karpenter.k8s.aws/tagged"
	id, err := s.EC2.AddForeign("m5.large", "us-east-1a", map[string]string{"team": "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default-k0", "default-k1"} {
		c := *s.API.Claims[name]
		c.Annotations = maps.Clone(c.Annotations)
		delete(c.Annotations, tagged)
		if name == "default-k1" {
			n := *s.API.Nodes[c.NodeName]
			c.ProviderID = model.ProviderID("us-east-1a", id)
			c.NodeClass = model.NodeClassRef{Group: "other.example", Kind: "OtherClass", Name: "default"}
			n.ProviderID = c.ProviderID
			s.API.PutNode(&n)
		}
		s.API.PutClaim(&c)
	}
	before := maps.Clone(s.API.Claims["default-k1"].Annotations)
	if !s.Until(10*time.Minute, func() bool { return s.API.Claims["default-k0"].Annotations[tagged] == "true" }) {
		t.Fatal("our own claim is not said to be tagged")
	}
	s.Run(10 * time.Minute)
	theirs := s.API.Claims["default-k1"]
	if theirs == nil || theirs.Deleting != nil {
		t.Fatalf("the claim is to end: %+v", theirs)
	}
	if diff := cmp.Diff(before, theirs.Annotations); diff != "" {
		t.Errorf("annotations (-before +after):\n%s", diff)
	}
	m, ok := s.EC2.Machine(id)
	if !ok || !m.EndingAt.IsZero() {
		t.Errorf("its machine is ended: %+v", m)
	}
	if diff := cmp.Diff(map[string]string{"team": "b"}, m.Tags); diff != "" {
		t.Errorf("tags (-before +after):\n%s", diff)
	}
}
