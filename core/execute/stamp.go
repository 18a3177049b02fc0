package execute

import (
	"maps"
	"time"

	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// A claim is stamped with hashes of its pool and its class and with the instance profile
// of its machine. Drift is what a machine differs in from what would be bought now.

// machine is what a sweep saw of an instance.
type machine struct {
	model.Machine
	at time.Time // the listing was asked for
}

// classSeen is a state of a class, and since when it is known.
type classSeen struct {
	class *model.NodeClass
	at    time.Time
}

// machineOf is what is known of a claim's instance, nil where it has not been listed.
func (x *Executor) machineOf(c *model.Claim) *model.Machine {
	class := x.m.NodeClass(c.NodeClass.Name)
	seen := x.classAt[c.NodeClass.Name]
	if class != nil && seen.class != class {
		seen = classSeen{class: class, at: x.now}
		x.classAt[c.NodeClass.Name] = seen
	}
	l, ok := x.listed[model.InstanceID(c.ProviderID)]
	if !ok {
		return nil
	}
	m := l.Machine
	m.Fresh = class != nil && l.at.After(seen.at)
	return &m
}

// list keeps what a sweep saw of the instances, and looks again at their claims: AWS may have
// moved an instance, and the listing may be the first that is newer than the class.
func (x *Executor) list(instances []cloud.Instance, claims []*model.Claim, asked time.Time) {
	listed := make(map[string]machine, len(instances))
	for _, i := range instances {
		listed[i.ID] = machine{at: asked, Machine: model.Machine{ImageID: i.ImageID, Subnet: i.Subnet,
			SecurityGroups: i.SecurityGroups, Reservation: i.Reservation, Profile: i.Profile,
			PlacementGroup: i.PlacementGroup, Partition: i.Partition}}
	}
	x.listed = listed
	for _, c := range claims {
		if _, ok := listed[model.InstanceID(c.ProviderID)]; ok && c.ProviderID != "" {
			if t := x.tracks[c.Name]; t != nil {
				t.due(x.now)
			}
		}
	}
}

// stamp brings the annotations of a claim up to date. A hash of another version is another
// controller's: version and hash are replaced, so that taking over rolls nothing, save for the
// hash of a claim that has drifted, which so stays drifted. A claim that has no hash gets none,
// for nobody knows what its machine was made from.
func (x *Executor) stamp(c *model.Claim, o claim.Observed, r *claim.Result) {
	a := map[string]string{}
	rewrite := func(keep bool, hash, version, key, versionKey string) {
		if hash == "" || c.Annotations[key] == "" || c.Annotations[versionKey] == version {
			return
		}
		a[versionKey] = version
		if !keep {
			a[key] = hash
		}
	}
	drifted := c.Is(model.CondDrifted)
	if p := o.Pool; p != nil {
		rewrite(drifted, p.Hash, p.HashVersion, model.AnnotationPoolHash, model.AnnotationPoolHashVersion)
	}
	if k := o.Class; k != nil && k.HashVersion != "" {
		// Where image or network are the reason, the class itself had not changed: that is looked at before.
		rewrite(drifted && !claim.DriftOfStatus(c.Condition(model.CondDrifted).Reason), k.Hash, k.HashVersion, model.AnnotationClassHash, model.AnnotationClassHashVersion)
	}
	if m := o.Machine; m != nil && m.Profile != "" && c.Annotations[model.AnnotationInstanceProfile] == "" {
		a[model.AnnotationInstanceProfile] = m.Profile
	}
	if len(a) == 0 {
		return
	}
	patch := model.ClaimPatch{Name: c.Name, UID: c.UID}
	if r.Claim != nil {
		patch = *r.Claim
	}
	maps.Copy(a, patch.Annotations)
	patch.Annotations = a
	r.Claim = &patch
}

// stampKeys are the annotations that a node has from its claim and that a claim made anew
// for it takes back.
var stampKeys = []string{model.AnnotationPoolHash, model.AnnotationPoolHashVersion,
	model.AnnotationClassHash, model.AnnotationClassHashVersion, model.AnnotationInstanceProfile}
