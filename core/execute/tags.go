package execute

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// An instance gets the tags that name its node and its claim once the node has joined:
// v1's tagging. Two annotations of the claim say that it was done.

// The tags, and the annotations that say that they are there.
const (
	TagName             = "Name"
	annotationTagged    = "karpenter.k8s.aws/tagged"
	annotationTaggedOld = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
)

// TagInstances sets tags of instances, those only that they lack. Value: the ids that are done with, a []string, also with Err.
type TagInstances struct{ Tags map[string]map[string]string }

// Kind implements Do.
func (TagInstances) Kind() string { return "TagInstances" }

const (
	tagBatch = 10
	tagPause = time.Second // for each instance of a batch: EC2 counts the calls together with those of launches
)

// tagging is what is to be tagged.
type tagging struct {
	names map[string]string // instance id -> claim
	done  map[string]bool   // instance ids whose claims do not say so yet
	at    time.Time         // not before
	last  string            // instance id that the batch before ended with
}

// tag sees to the tags of a claim's instance, and adds to the patch of its step what its annotations should say.
func (x *Executor) tag(c *model.Claim, patch **model.ClaimPatch) {
	if c.Deleting != nil || c.ProviderID == "" || c.NodeName == "" || !c.Is(model.CondRegistered) {
		return
	}
	id := model.InstanceID(c.ProviderID)
	if c.Annotations[annotationTagged] == "true" && c.Annotations[annotationTaggedOld] == "true" {
		delete(x.tags.done, id)
		delete(x.tags.names, id)
		return
	}
	if !x.tags.done[id] {
		x.tags.names[id] = c.Name
		return
	}
	p := model.ClaimPatch{Name: c.Name, UID: c.UID}
	if *patch != nil {
		p = **patch
	}
	a := map[string]string{annotationTagged: "true", annotationTaggedOld: "true"}
	maps.Copy(a, p.Annotations)
	p.Annotations = a
	*patch = &p
}

// stepTags starts the next batch. Batches go round, so that instances that cannot be tagged keep nobody from it.
func (x *Executor) stepTags() {
	if len(x.tags.names) == 0 {
		return
	}
	if x.now.Before(x.tags.at) {
		x.wake(x.tags.at)
		return
	}
	batch := map[string]map[string]string{}
	ids := slices.Sorted(maps.Keys(x.tags.names))
	next, found := slices.BinarySearch(ids, x.tags.last)
	if found {
		next++
	}
	last := ""
	for _, id := range slices.Concat(ids[next:], ids[:next]) {
		c := x.m.Claim(x.tags.names[id])
		if c == nil || c.Deleting != nil || model.InstanceID(c.ProviderID) != id || c.NodeName == "" {
			delete(x.tags.names, id)
			continue
		}
		if len(batch) < tagBatch {
			batch[id] = map[string]string{TagName: c.NodeName, TagClaim: c.Name, TagCluster: x.cfg.Cluster}
			last = id
		}
	}
	if len(batch) > 0 && x.do("tags", TagInstances{Tags: batch}) {
		x.tags.last = last
		x.tags.at = x.now.Add(time.Duration(len(batch)) * tagPause)
	}
}

func (x *Executor) taggedInstances(r Result) {
	ids, _ := r.Value.([]string)
	for _, id := range ids {
		name := x.tags.names[id]
		delete(x.tags.names, id)
		if x.tracks[name] != nil { // its claim may be gone by now
			x.tags.done[id] = true
			x.recheck(name, 0)
		}
	}
}

// untag forgets an instance whose claim is gone.
func (x *Executor) untag(id string) {
	delete(x.tags.names, id)
	delete(x.tags.done, id)
}

// tagInstances sets what is missing. An instance that is gone needs none, and one that EC2 refuses
// to tag keeps no other from its tags.
func tagInstances(ctx context.Context, p Ports, d TagInstances) ([]string, error) {
	ids := slices.Sorted(maps.Keys(d.Tags))
	there, err := p.Cloud.Describe(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading tags: %w", err)
	}
	have := map[string]map[string]string{}
	for _, i := range there {
		have[i.ID] = i.Tags
	}
	var done []string
	var errs []error
	for _, id := range ids {
		missing := map[string]string{}
		for k, v := range d.Tags[id] {
			if _, ok := have[id][k]; !ok {
				missing[k] = v
			}
		}
		if _, ok := have[id]; ok && len(missing) > 0 {
			if err := p.Cloud.Tag(ctx, id, missing); err != nil && cloud.KindOf(err) != cloud.NotFound {
				errs = append(errs, fmt.Errorf("instance %s: %w", id, err))
				continue
			}
		}
		done = append(done, id)
	}
	return done, errors.Join(errs...)
}
