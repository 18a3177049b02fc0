package v1

import (
	"fmt"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// Hash returns the value of the annotation karpenter.sh/nodepool-hash: a fingerprint of the part of the template whose
// change makes nodes drift, requirements excepted. It is the same number that Karpenter computes for version "v3"
// (keys.NodePoolHashV3), so that nodes bought by either do not drift when the other takes over. Call Default first on
// objects that did not pass an API server.
func (p *NodePool) Hash() (string, error) {
	template := p.Spec.Template
	if template.Spec.ExpireAfter.IsNever() {
		// In version v3 "Never" is the zero value and so left out, text and all.
		template.Spec.ExpireAfter = NillableDuration{}
	}
	sum, err := hashstructure.Hash(template, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true,
	})
	if err != nil {
		return "", fmt.Errorf("hashing the template of nodepool %s: %w", p.Name, err)
	}
	return strconv.FormatUint(sum, 10), nil
}
