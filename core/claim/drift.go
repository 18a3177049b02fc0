package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/model"
)

// Reasons of the condition Drifted, in the order in which they are looked for.
const (
	DriftPool         = "NodePoolDrifted"
	DriftRequirements = "RequirementsDrifted"
	DriftClass        = "NodeClassDrift"
	DriftImage        = "AMIDrift"
	DriftGroups       = "SecurityGroupDrift"
	DriftSubnet       = "SubnetDrift"
	DriftReservation  = "CapacityReservationDrift"
	DriftPlacement    = "PlacementGroupDrift"
)

// DriftOfStatus says whether a reason is about what a class resolved to, rather than about what it says.
func DriftOfStatus(reason string) bool {
	switch reason {
	case DriftImage, DriftGroups, DriftSubnet, DriftReservation, DriftPlacement:
		return true
	}
	return false
}

// drifted compares the claim with its pool and its class. What cannot be known now leaves
// the condition as it is: a class that could not be resolved makes no node drift, and
// makes none that has drifted well.
func (s *step) drifted() {
	if s.o.Pool == nil {
		return // made by hand: never drifts
	}
	reason, message, judged := poolDrift(s.o.Claim, s.o.Pool)
	if reason == "" {
		var of []string
		reason, message, of = classDrift(s.o.Claim, s.o.Class, s.o.Machine)
		judged = append(judged, of...)
	}
	switch {
	case reason != "":
		s.set(model.Condition{Type: model.CondDrifted, Status: "True", Reason: reason, Message: message})
	case slices.Contains(judged, s.o.Claim.Condition(model.CondDrifted).Reason):
		s.clear(model.CondDrifted)
	}
}

// hashes compares the fingerprint that a claim carries with that of its pool or class. Hashes of
// two versions are those of two functions: nothing can be said until the claim's is rewritten.
func hashes(c *model.Claim, key, versionKey, hash, version string) (differ, sameVersion bool) {
	h, hv := c.Annotations[key], c.Annotations[versionKey]
	if h == "" || hv == "" || hash == "" || version == "" {
		return false, true // no fingerprint, no drift
	}
	return h != hash && hv == version, hv == version
}

func poolDrift(c *model.Claim, p *model.Pool) (reason, message string, judged []string) {
	judged = []string{DriftRequirements}
	differ, same := hashes(c, model.AnnotationPoolHash, model.AnnotationPoolHashVersion, p.Hash, p.HashVersion)
	if same {
		judged = append(judged, DriftPool)
	}
	if differ {
		return DriftPool, "", judged
	}
	if conflict := p.Requirements.LabelsSatisfy(c.Labels); conflict != nil {
		return DriftRequirements, conflict.String(), judged
	}
	return "", "", judged
}

// classDrift says in what the machine of a claim differs from what its class would buy now,
// and which reasons could be judged on what is known.
func classDrift(c *model.Claim, class *model.NodeClass, m *model.Machine) (reason, message string, judged []string) {
	if class == nil || !class.Settled {
		return "", "", nil
	}
	differ, same := hashes(c, model.AnnotationClassHash, model.AnnotationClassHashVersion, class.Hash, class.HashVersion)
	if same {
		judged = append(judged, DriftClass)
	}
	if differ {
		return DriftClass, fmt.Sprintf("EC2NodeClass %s was changed", class.Name), judged
	}
	image := c.ImageID
	if image == "" && m != nil {
		image = m.ImageID
	}
	if image != "" && len(class.Images) > 0 && c.Labels[model.LabelInstanceType] != "" && c.Labels[model.LabelArch] != "" {
		judged = append(judged, DriftImage)
		if message := imageDrift(c, class, image); message != "" {
			return DriftImage, message, judged
		}
	}
	if m == nil {
		return "", "", judged
	}
	if len(m.SecurityGroups) > 0 && len(class.SecurityGroups) > 0 {
		judged = append(judged, DriftGroups)
		if have := sorted(m.SecurityGroups); !slices.Equal(have, sorted(class.SecurityGroups)) {
			return DriftGroups, fmt.Sprintf("security groups are %s, EC2NodeClass %s has %s", strings.Join(have, ", "), class.Name, strings.Join(sorted(class.SecurityGroups), ", ")), judged
		}
	}
	if m.Subnet != "" && len(class.Subnets) > 0 {
		judged = append(judged, DriftSubnet)
		if !slices.Contains(class.Subnets, m.Subnet) {
			return DriftSubnet, fmt.Sprintf("subnet %s is not among those of EC2NodeClass %s", m.Subnet, class.Name), judged
		}
	}
	// AWS may have taken the instance out of a reservation that ended, so an older listing says nothing.
	if m.Fresh {
		judged = append(judged, DriftReservation)
		if c.Labels[model.LabelCapacityType] == model.Reserved && m.Reservation != "" &&
			!slices.ContainsFunc(class.Reservations, func(r model.Reservation) bool { return r.ID == m.Reservation }) {
			return DriftReservation, fmt.Sprintf("capacity reservation %s is not among those of EC2NodeClass %s", m.Reservation, class.Name), judged
		}
	}
	return placementDrift(c, class, m, judged)
}

// placementDrift compares the placement group that a machine runs in with the one that the class's selector names now: a group
// that was deleted and made again under its name is another. A class that names none tells nothing here; its hash does.
func placementDrift(c *model.Claim, class *model.NodeClass, m *model.Machine, judged []string) (reason, message string, of []string) {
	have := cmp.Or(c.Labels[model.LabelPlacementGroup], m.PlacementGroup)
	if class.PlacementGroup == nil || have == "" {
		return "", "", judged
	}
	judged = append(judged, DriftPlacement)
	if have != class.PlacementGroup.ID {
		return DriftPlacement, fmt.Sprintf("placement group is %s, EC2NodeClass %s has %s", have, class.Name, class.PlacementGroup.ID), judged
	}
	return "", "", judged
}

// imageDrift is empty where the image is one that the class would still start the machine's type from.
func imageDrift(c *model.Claim, class *model.NodeClass, image string) string {
	var fit []string
	for _, i := range class.Images {
		if i.Requirements.LabelsSatisfy(c.Labels) == nil {
			fit = append(fit, i.ID)
		}
	}
	switch {
	case slices.Contains(fit, image):
		return ""
	case len(fit) == 0:
		return fmt.Sprintf("EC2NodeClass %s has no image for %s any more", class.Name, c.Labels[model.LabelInstanceType])
	}
	return fmt.Sprintf("image is %s, EC2NodeClass %s has %s", image, class.Name, strings.Join(fit, ", "))
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}
