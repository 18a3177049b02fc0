package resolve

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
)

// ProfilePath is where the instance profiles of a cluster are kept.
func ProfilePath(region, cluster string) string { return "/karpenter/" + region + "/" + cluster + "/" }

// profileName is the same for the same class and role, so that a lost answer makes no second profile.
func (r *Resolver) profileName(class *awsv1.EC2NodeClass) string {
	sum := sha256.Sum256([]byte(r.cfg.Region + "\n" + class.Name + "\n" + string(class.UID) + "\n" + class.Spec.Role))
	suffix := "_" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10)
	const limit = 128
	return r.cfg.Cluster[:min(len(r.cfg.Cluster), limit-len(suffix))] + suffix
}

func (c *one) profile(ctx context.Context) {
	if p := c.class.Spec.InstanceProfile; p != nil {
		c.Status.InstanceProfile = *p
		c.set(keys.ConditionInstanceProfileReady, true, "", "")
		return
	}
	name := c.r.profileName(c.class)
	if have := c.Status.InstanceProfile; have != "" {
		// One that somebody else made for the class is kept as long as its role is right.
		if ok, err := c.r.holds(ctx, have, c.class.Spec.Role); err == nil && ok {
			c.set(keys.ConditionInstanceProfileReady, true, "", "")
			return
		} else if err != nil && cloud.KindOf(err) != cloud.NotFound {
			c.failed(keys.ConditionInstanceProfileReady, err)
			return
		}
	}
	if err := c.r.ensureProfile(ctx, c.class, name); err != nil {
		if awserr.Is(err, "NoSuchEntity") {
			c.Status.InstanceProfile = ""
			c.set(keys.ConditionInstanceProfileReady, false, keys.ReasonInstanceProfileNotFound, "role %s: %v", c.class.Spec.Role, err)
			return
		}
		c.failed(keys.ConditionInstanceProfileReady, err)
		return
	}
	c.Status.InstanceProfile = name
	c.set(keys.ConditionInstanceProfileReady, true, "", "")
}

// roleName is a role without its path: what AddRoleToInstanceProfile takes.
func roleName(role string) string { return role[strings.LastIndex(role, "/")+1:] }

// holds says whether a profile is there and carries the role.
func (r *Resolver) holds(ctx context.Context, profile, role string) (bool, error) {
	out, err := r.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &profile})
	if err != nil {
		return false, awserr.Of("GetInstanceProfile", err)
	}
	if out.InstanceProfile == nil {
		return false, nil
	}
	for _, x := range out.InstanceProfile.Roles {
		if deref(x.RoleName) == roleName(role) {
			return true, nil
		}
	}
	return false, nil
}

// ensureProfile makes the profile with the role in it; each step may have been done before.
func (r *Resolver) ensureProfile(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	ok, err := r.holds(ctx, name, class.Spec.Role)
	if err == nil && ok {
		return nil
	}
	if err != nil && cloud.KindOf(err) != cloud.NotFound {
		return err
	}
	if err != nil {
		tags := maps.Clone(class.Spec.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		maps.Copy(tags, map[string]string{
			keys.ClusterOwnedTag + r.cfg.Cluster: "owned", keys.ClusterTag: r.cfg.Cluster, keys.NodeClassLabel: class.Name, keys.Region: r.cfg.Region,
		})
		path := ProfilePath(r.cfg.Region, r.cfg.Cluster) + string(class.UID) + "/"
		in := &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Path: &path}
		for _, k := range sortedKeys(tags) {
			k, v := k, tags[k]
			in.Tags = append(in.Tags, types.Tag{Key: &k, Value: &v})
		}
		if _, err := r.iam.CreateInstanceProfile(ctx, in); err != nil && !awserr.Is(err, "EntityAlreadyExists") {
			return awserr.Of("CreateInstanceProfile", err)
		}
	}
	role := roleName(class.Spec.Role)
	_, err = r.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	if err != nil && !awserr.Is(err, "EntityAlreadyExists") {
		if !awserr.Is(err, "LimitExceeded") {
			return awserr.Of("AddRoleToInstanceProfile", err)
		}
		// A profile holds one role; the lost answer of an earlier try may have put it there.
		if ok, again := r.holds(ctx, name, class.Spec.Role); again != nil || !ok {
			return awserr.Of("AddRoleToInstanceProfile", err)
		}
	}
	return nil
}

// profileGrace is how long a profile that nobody names is left alone: a class may be about to name it.
const profileGrace = time.Hour

// CollectProfiles deletes the cluster's profiles that nobody uses any more and answers their names. used are the names in
// the status of classes and on claims.
func (r *Resolver) CollectProfiles(ctx context.Context, used []string, now time.Time) ([]string, error) {
	path := ProfilePath(r.cfg.Region, r.cfg.Cluster)
	var gone []string
	for p := iam.NewListInstanceProfilesPaginator(r.iam, &iam.ListInstanceProfilesInput{PathPrefix: &path}); p.HasMorePages(); {
		out, err := p.NextPage(ctx)
		if err != nil {
			return gone, awserr.Of("ListInstanceProfiles", err)
		}
		for _, x := range out.InstanceProfiles {
			name := deref(x.InstanceProfileName)
			// The path is checked again: deleting what is another cluster's would cut its nodes off.
			if !strings.HasPrefix(deref(x.Path), path) || slices.Contains(used, name) || x.CreateDate != nil && now.Sub(*x.CreateDate) < profileGrace {
				continue
			}
			if err := r.deleteProfile(ctx, x); err != nil {
				return gone, err
			}
			gone = append(gone, name)
		}
	}
	return gone, nil
}

// DropProfile deletes the profile that was made for a class which ends; one that is not its own is left alone.
func (r *Resolver) DropProfile(ctx context.Context, class *awsv1.EC2NodeClass) error {
	name := class.Status.InstanceProfile
	out, err := r.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch {
	case awserr.Is(err, "NoSuchEntity"):
		return nil
	case err != nil:
		return awserr.Of("GetInstanceProfile", err)
	case out.InstanceProfile == nil || deref(out.InstanceProfile.Path) != ProfilePath(r.cfg.Region, r.cfg.Cluster)+string(class.UID)+"/":
		return nil
	}
	return r.deleteProfile(ctx, *out.InstanceProfile)
}

func (r *Resolver) deleteProfile(ctx context.Context, x types.InstanceProfile) error {
	for _, role := range x.Roles {
		_, err := r.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: x.InstanceProfileName, RoleName: role.RoleName})
		if err != nil && !awserr.Is(err, "NoSuchEntity") {
			return fmt.Errorf("instance profile %s: %w", deref(x.InstanceProfileName), awserr.Of("RemoveRoleFromInstanceProfile", err))
		}
	}
	if _, err := r.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: x.InstanceProfileName}); err != nil && !awserr.Is(err, "NoSuchEntity") {
		return fmt.Errorf("instance profile %s: %w", deref(x.InstanceProfileName), awserr.Of("DeleteInstanceProfile", err))
	}
	return nil
}
