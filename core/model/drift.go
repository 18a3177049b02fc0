package model

import "github.com/weir-project/weir/core/model/require"

// Annotations of a NodeClaim that say which state of its node class its machine was made from.
const (
	AnnotationClassHash        = AWSLabelDomain + "/ec2nodeclass-hash"         // also on the class
	AnnotationClassHashVersion = AWSLabelDomain + "/ec2nodeclass-hash-version" // also on the class; only hashes of one version are compared
	AnnotationInstanceProfile  = AWSLabelDomain + "/instance-profile-name"     // that the machine runs with
)

// Image is a machine image that a node class resolved to.
type Image struct {
	ID           string
	Requirements require.Set // of the instance types that it runs on
}

// Machine is what an instance really has, as the cloud listed it; empty fields are not known.
type Machine struct {
	ImageID        string
	Subnet         string
	SecurityGroups []string
	Reservation    string // that the instance runs in
	Profile        string // instance profile
	PlacementGroup string // id
	Partition      int    // of the placement group, 0 = none
	Fresh          bool   // listed after its node class took its present state
}

// Stamp is what a claim carries of the class that it is launched from, nil where the class has no hash.
func (c *NodeClass) Stamp() map[string]string {
	if c == nil || c.Hash == "" || c.HashVersion == "" {
		return nil
	}
	out := map[string]string{AnnotationClassHash: c.Hash, AnnotationClassHashVersion: c.HashVersion}
	if c.InstanceProfile != "" {
		out[AnnotationInstanceProfile] = c.InstanceProfile
	}
	return out
}
