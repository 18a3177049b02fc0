package awsv1

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/weir-project/weir/core/api/keys"
	v1 "github.com/weir-project/weir/core/api/v1"
)

var clusterTag = regexp.MustCompile(`^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$`)

// Validate returns what makes the class unusable although the API server stores it: tags and kubelet settings. What needs
// AWS to be asked (images, permissions) is not looked at. What the API server refuses is found by core/api/validate.
func (c *EC2NodeClass) Validate() []v1.FieldError {
	var errs []v1.FieldError
	for _, key := range slices.Sorted(maps.Keys(c.Spec.Tags)) {
		switch {
		case key == keys.ClusterTag, key == keys.NodePool, key == keys.NodeClaimTag, key == keys.NodeClassLabel, clusterTag.MatchString(key):
			errs = append(errs, v1.FieldError{
				Class: v1.Invalid, Path: fmt.Sprintf("spec.tags[%s]", key), Reason: keys.ReasonTagValidationFailed,
				Message: "the tag is set by the system and may not be given",
			})
		}
	}
	_, kubelet := c.Spec.KubeletConfig()
	return append(errs, kubelet...)
}
