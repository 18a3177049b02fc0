package permit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/model"
)

// EC2 is the calls that are tried, always with DryRun.
type EC2 interface {
	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput, ...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	CreateFleet(context.Context, *ec2.CreateFleetInput, ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
}

// Verdict is what dry runs said of a class. Reason is empty where it may be launched from, else that of the condition.
type Verdict struct{ Reason, Message string }

const (
	// Keep is how long a yes holds for a class that stays the same.
	Keep = 30 * time.Minute
	// KeepNo is how long a no does: somebody may be about to mend it.
	KeepNo = time.Minute
)

type answer struct {
	sum   [32]byte
	until time.Time
	Verdict
}

// Checker tries launches of one cluster's classes. It is safe for concurrent use.
type Checker struct {
	ec2     EC2
	cluster string

	mu      sync.Mutex // guards answers
	answers map[string]answer
}

// New makes a checker that knows nothing yet.
func New(e EC2, cluster string) *Checker {
	return &Checker{ec2: e, cluster: cluster, answers: map[string]answer{}}
}

// Check says whether the class may be launched from, and until when that holds. Where EC2 is throttled or away it answers the
// error, and what it said of the same class before; of one that it said nothing of, that it may.
func (c *Checker) Check(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) (Verdict, time.Time, error) {
	sum, err := sumOf(class)
	if err != nil {
		return Verdict{}, now, err
	}
	c.mu.Lock()
	old, known := c.answers[class.Name]
	c.mu.Unlock()
	known = known && old.sum == sum
	if known && now.Before(old.until) {
		return old.Verdict, old.until, nil
	}
	v, err := c.try(ctx, class)
	if err != nil {
		if !known {
			old = answer{}
		}
		return old.Verdict, now, fmt.Errorf("trying whether EC2NodeClass %s may be launched from: %w", class.Name, err)
	}
	until := now.Add(Keep)
	if v.Reason != "" {
		until = now.Add(KeepNo)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[class.Name] = answer{sum, until, v}
	return v, until, nil
}

// sumOf is the same for a class that would be tried alike.
func sumOf(class *awsv1.EC2NodeClass) ([32]byte, error) {
	s := class.Status.DeepCopy()
	s.Conditions = nil
	text, err := json.Marshal(struct {
		UID, Name string
		Spec      awsv1.EC2NodeClassSpec
		Status    *awsv1.EC2NodeClassStatus
	}{string(class.UID), class.Name, class.Spec, s})
	if err != nil {
		return [32]byte{}, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	return sha256.Sum256(text), nil
}

// try asks EC2. Only a plain no counts: other errors of a dry run are about what it names, which a launch may name otherwise.
func (c *Checker) try(ctx context.Context, class *awsv1.EC2NodeClass) (Verdict, error) {
	tags := c.tags(class)
	name := "weir-dry-run"
	_, err := c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		DryRun: sdk.Bool(true), LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: image(class)},
		TagSpecifications: tagged(tags, types.ResourceTypeLaunchTemplate),
	})
	if v, err := verdict("CreateLaunchTemplate", keys.ReasonLaunchTemplateAuthFailed, err); err != nil || v.Reason != "" {
		return v, err
	}
	_, err = c.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		DryRun: sdk.Bool(true), Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: sdk.String("$Latest")},
			Overrides:                   overrides(class),
		}},
		TagSpecifications: tagged(tags, types.ResourceTypeFleet, types.ResourceTypeInstance, types.ResourceTypeVolume),
	})
	if v, err := verdict("CreateFleet", keys.ReasonCreateFleetAuthFailed, err); err != nil || v.Reason != "" {
		return v, err
	}
	return c.run(ctx, class, tags)
}

// run tries the subnets until one is fine: one that is full, say, must not speak for the others.
func (c *Checker) run(ctx context.Context, class *awsv1.EC2NodeClass, tags map[string]string) (Verdict, error) {
	in := &ec2.RunInstancesInput{
		DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ImageId: image(class), InstanceType: size(class),
		TagSpecifications: tagged(tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	for _, g := range class.Status.SecurityGroups {
		in.SecurityGroupIds = append(in.SecurityGroupIds, g.ID)
	}
	if p := class.Status.InstanceProfile; p != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: &p}
	}
	var worst Verdict
	for _, s := range class.Status.Subnets {
		in.SubnetId = &s.ID
		_, err := c.ec2.RunInstances(ctx, in)
		if awserr.Is(err, dryRun) {
			return Verdict{}, nil
		}
		v, err := verdict("RunInstances", keys.ReasonRunInstancesAuthFailed, err)
		if err != nil {
			return v, err
		}
		if worst.Reason == "" {
			worst = v
		}
	}
	return worst, nil
}

const dryRun = "DryRunOperation"

// verdict reads the answer of a dry run.
func verdict(op, reason string, err error) (Verdict, error) {
	if err == nil {
		return Verdict{}, fmt.Errorf("%s: a dry run was answered as if it were none", op)
	}
	sorted := awserr.Of(op, err)
	var e *cloud.Error
	switch {
	case awserr.Is(err, dryRun):
		return Verdict{}, nil
	case !errors.As(sorted, &e):
		return Verdict{}, sorted
	case awserr.Is(err, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException"):
		return Verdict{reason, e.Error()}, nil
	case strings.Contains(e.Message, "Invalid IAM Instance Profile name"):
		return Verdict{keys.ReasonInstanceProfileNotFound, e.Error()}, nil
	case e.Kind == cloud.Throttled, e.Kind == cloud.Internal, e.Kind == cloud.Auth:
		return Verdict{}, sorted // says nothing about the rights of the role
	}
	return Verdict{}, nil
}

// tags are those without which policies allow no launch.
func (c *Checker) tags(class *awsv1.EC2NodeClass) map[string]string {
	out := maps.Clone(class.Spec.Tags)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, map[string]string{
		keys.ClusterTag: c.cluster, "kubernetes.io/cluster/" + c.cluster: "owned", keys.NodeClassLabel: class.Name, model.LabelPool: "weir-dry-run",
	})
	return out
}

func tagged(tags map[string]string, kinds ...types.ResourceType) []types.TagSpecification {
	var list []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	var out []types.TagSpecification
	for _, kind := range kinds {
		out = append(out, types.TagSpecification{ResourceType: kind, Tags: list})
	}
	return out
}

func image(class *awsv1.EC2NodeClass) *string {
	if len(class.Status.AMIs) == 0 {
		return nil
	}
	return &class.Status.AMIs[0].ID
}

// size is a type that the image runs on.
func size(class *awsv1.EC2NodeClass) types.InstanceType {
	if len(class.Status.AMIs) > 0 {
		for _, r := range class.Status.AMIs[0].Requirements {
			if r.Key == model.LabelArch && slices.Contains(r.Values, "arm64") {
				return types.InstanceTypeM6gLarge
			}
		}
	}
	return types.InstanceTypeM5Large
}

func overrides(class *awsv1.EC2NodeClass) []types.FleetLaunchTemplateOverridesRequest {
	if len(class.Status.Subnets) == 0 {
		return nil
	}
	first := slices.MinFunc(class.Status.Subnets, func(a, b awsv1.Subnet) int { return cmp.Compare(a.ID, b.ID) })
	return []types.FleetLaunchTemplateOverridesRequest{{InstanceType: size(class), SubnetId: &first.ID}}
}
