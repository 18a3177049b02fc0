package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/cloud/aws/launchtemplate"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/model"
)

// EC2 is the calls of EC2 that finding takes.
type EC2 interface {
	ec2.DescribeSubnetsAPIClient
	ec2.DescribeSecurityGroupsAPIClient
	ec2.DescribeImagesAPIClient
	ec2.DescribeCapacityReservationsAPIClient
	DescribePlacementGroups(context.Context, *ec2.DescribePlacementGroupsInput, ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error)
}

// SSM is where AWS publishes the ids of its images.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// IAM is the calls of IAM around instance profiles.
type IAM interface {
	GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	CreateInstanceProfile(context.Context, *iam.CreateInstanceProfileInput, ...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *iam.DeleteInstanceProfileInput, ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *iam.AddRoleToInstanceProfileInput, ...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *iam.RemoveRoleFromInstanceProfileInput, ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error)
	iam.ListInstanceProfilesAPIClient
}

// Config is the same for all classes.
type Config struct {
	Cluster string
	Region  string
	// Version is the cluster's Kubernetes version, such as 1.33.
	Version func() string
	// Reservations says whether capacity reservations are used (gate ReservedCapacity).
	Reservations bool
	// Facts are those of the cluster that user data is tried with; zero = stand-ins.
	Facts userdata.Cluster
}

// Resolver finds what classes stand for. It keeps nothing between calls but the parameters that it read.
type Resolver struct {
	cfg Config
	ec2 EC2
	ssm SSM
	iam IAM
}

// New makes a resolver.
func New(cfg Config, e EC2, s SSM, i IAM) *Resolver {
	return &Resolver{cfg: cfg, ec2: e, ssm: s, iam: i}
}

// Result is what a class stands for now.
type Result struct {
	Status    awsv1.EC2NodeClassStatus
	Free      map[string]int // what is left, by id: addresses of subnets, instances of capacity reservations, of those that were read
	Placement string         // the placement group of the selector as model.PlacementGroup writes it, empty = none
	Again     time.Duration  // until the class should be looked at again
	Err       error          // what could not be asked; the status holds what was known before
}

// Intervals after which a class is looked at again.
const (
	again      = 5 * time.Minute
	againSoon  = time.Minute // something is missing
	maxResults = 500
)

// Resolve finds everything of a class. Its status is the starting point: what cannot be asked stays.
func (r *Resolver) Resolve(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) Result {
	c := &one{r: r, class: class, now: now, Result: Result{
		Status: *class.Status.DeepCopy(), Free: map[string]int{}, Again: again, Placement: class.Annotations[model.AnnotationPlacementGroup]}}
	c.subnets(ctx)
	c.groups(ctx)
	c.images(ctx)
	c.profile(ctx)
	c.reservations(ctx)
	c.placement(ctx)
	c.validate()
	c.ready()
	return c.Result
}

// one is the work on one class.
type one struct {
	Result
	r     *Resolver
	class *awsv1.EC2NodeClass
	now   time.Time
}

func (c *one) set(kind string, ok bool, reason, format string, args ...any) {
	status := metav1.ConditionTrue
	if !ok {
		status = metav1.ConditionFalse
		c.Again = min(c.Again, againSoon)
	}
	if reason == "" {
		reason = kind
	}
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...), ObservedGeneration: c.class.Generation,
		LastTransitionTime: metav1.NewTime(c.now),
	})
}

// failed notes that a question got no answer: a condition that was True stays, as long as the class is the same.
func (c *one) failed(kind string, err error) {
	c.Err = errors.Join(c.Err, err)
	c.Again = min(c.Again, againSoon)
	if have := meta.FindStatusCondition(c.Status.Conditions, kind); have != nil && have.Status == metav1.ConditionTrue && have.ObservedGeneration == c.class.Generation &&
		cloud.KindOf(err) != cloud.Auth {
		return
	}
	reason := "AwaitingAnswer"
	if cloud.KindOf(err) == cloud.Auth {
		reason = "Unauthorized"
	}
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: err.Error(), ObservedGeneration: c.class.Generation, LastTransitionTime: metav1.NewTime(c.now),
	})
}

// drop removes a condition that the class has no use for.
func (c *one) drop(kind string) { meta.RemoveStatusCondition(&c.Status.Conditions, kind) }

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// byTags is the filters of a term's tags; the value * stands for any.
func byTags(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, k := range sortedKeys(tags) {
		if tags[k] == "*" {
			out = append(out, filter("tag-key", k))
		} else {
			out = append(out, filter("tag:"+k, tags[k]))
		}
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func (c *one) subnets(ctx context.Context) {
	var ids []string
	var questions [][]types.Filter
	for _, t := range c.class.Spec.SubnetSelectorTerms {
		if t.ID != "" {
			ids = append(ids, t.ID)
		} else {
			questions = append(questions, byTags(t.Tags))
		}
	}
	if len(ids) > 0 {
		questions = append(questions, []types.Filter{filter("subnet-id", ids...)})
	}
	found := map[string]types.Subnet{}
	for _, q := range questions {
		n := int32(maxResults)
		for p := ec2.NewDescribeSubnetsPaginator(c.r.ec2, &ec2.DescribeSubnetsInput{Filters: q, MaxResults: &n}); p.HasMorePages(); {
			out, err := p.NextPage(ctx)
			if err != nil {
				c.failed(keys.ConditionSubnetsReady, awserr.Of("DescribeSubnets", err))
				return
			}
			for _, s := range out.Subnets {
				found[deref(s.SubnetId)] = s
			}
		}
	}
	c.Status.Subnets = nil
	for id, s := range found {
		c.Free[id] = int(deref(s.AvailableIpAddressCount))
		c.Status.Subnets = append(c.Status.Subnets, awsv1.Subnet{ID: id, Zone: deref(s.AvailabilityZone), ZoneID: deref(s.AvailabilityZoneId)})
	}
	slices.SortFunc(c.Status.Subnets, func(a, b awsv1.Subnet) int {
		return cmp.Or(cmp.Compare(c.Free[b.ID], c.Free[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	if len(found) == 0 {
		c.set(keys.ConditionSubnetsReady, false, keys.ReasonSubnetsNotFound, "spec.subnetSelectorTerms match no subnet in region %s", c.r.cfg.Region)
		return
	}
	c.set(keys.ConditionSubnetsReady, true, "", "")
}

func (c *one) groups(ctx context.Context) {
	var ids, names []string
	var questions [][]types.Filter
	for _, t := range c.class.Spec.SecurityGroupSelectorTerms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		default:
			questions = append(questions, byTags(t.Tags))
		}
	}
	if len(ids) > 0 {
		questions = append(questions, []types.Filter{filter("group-id", ids...)})
	}
	if len(names) > 0 {
		questions = append(questions, []types.Filter{filter("group-name", names...)})
	}
	found := map[string]string{}
	for _, q := range questions {
		n := int32(maxResults)
		for p := ec2.NewDescribeSecurityGroupsPaginator(c.r.ec2, &ec2.DescribeSecurityGroupsInput{Filters: q, MaxResults: &n}); p.HasMorePages(); {
			out, err := p.NextPage(ctx)
			if err != nil {
				c.failed(keys.ConditionSecurityGroupsReady, awserr.Of("DescribeSecurityGroups", err))
				return
			}
			for _, g := range out.SecurityGroups {
				found[deref(g.GroupId)] = deref(g.GroupName)
			}
		}
	}
	c.Status.SecurityGroups = nil
	for _, id := range sortedKeys(found) {
		c.Status.SecurityGroups = append(c.Status.SecurityGroups, awsv1.SecurityGroup{ID: id, Name: found[id]})
	}
	if len(found) == 0 {
		c.set(keys.ConditionSecurityGroupsReady, false, keys.ReasonSecurityGroupsNotFound, "spec.securityGroupSelectorTerms match no security group in region %s", c.r.cfg.Region)
		return
	}
	c.set(keys.ConditionSecurityGroupsReady, true, "", "")
}

// expiring is how long before the end of a capacity block it is no longer launched into.
const expiring = 40 * time.Minute

func (c *one) reservations(ctx context.Context) {
	if !c.r.cfg.Reservations {
		c.drop(keys.ConditionCapacityReservationsReady)
		c.Status.CapacityReservations = nil
		return
	}
	found := map[string]awsv1.CapacityReservation{}
	for _, t := range c.class.Spec.CapacityReservationSelectorTerms {
		in := &ec2.DescribeCapacityReservationsInput{Filters: append([]types.Filter{filter("state", "active")}, byTags(t.Tags)...)}
		switch {
		case t.ID != "":
			in.CapacityReservationIds = []string{t.ID}
			in.Filters = in.Filters[:1]
		default:
			if t.OwnerID != "" {
				in.Filters = append(in.Filters, filter("owner-id", t.OwnerID))
			}
			if t.InstanceMatchCriteria != "" {
				in.Filters = append(in.Filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
			}
		}
		for p := ec2.NewDescribeCapacityReservationsPaginator(c.r.ec2, in); p.HasMorePages(); {
			out, err := p.NextPage(ctx)
			if awserr.Is(err, "InvalidCapacityReservationId.NotFound") {
				break // one that is gone is none
			}
			if err != nil {
				c.failed(keys.ConditionCapacityReservationsReady, awserr.Of("DescribeCapacityReservations", err))
				return
			}
			for _, x := range out.CapacityReservations {
				found[deref(x.CapacityReservationId)] = c.reservation(x)
				c.Free[deref(x.CapacityReservationId)] = int(deref(x.AvailableInstanceCount))
			}
		}
	}
	c.Status.CapacityReservations = nil
	for _, x := range found {
		c.Status.CapacityReservations = append(c.Status.CapacityReservations, x)
	}
	slices.SortFunc(c.Status.CapacityReservations, func(a, b awsv1.CapacityReservation) int { return cmp.Compare(a.ID, b.ID) })
	c.set(keys.ConditionCapacityReservationsReady, true, "", "")
}

func (c *one) reservation(x types.CapacityReservation) awsv1.CapacityReservation {
	out := awsv1.CapacityReservation{
		ID: deref(x.CapacityReservationId), AvailabilityZone: deref(x.AvailabilityZone), InstanceType: deref(x.InstanceType), OwnerID: deref(x.OwnerId),
		InstanceMatchCriteria: string(x.InstanceMatchCriteria), ReservationType: cmp.Or(string(x.ReservationType), "default"), Interruptible: deref(x.Interruptible),
		State: "active",
	}
	if x.EndDate != nil {
		end := metav1.NewTime(*x.EndDate)
		out.EndTime = &end
		left := x.EndDate.Sub(c.now)
		if out.ReservationType == string(types.CapacityReservationTypeCapacityBlock) {
			left -= expiring
			if left <= 0 {
				out.State = "expiring"
			}
		}
		if left > 0 {
			c.Again = min(c.Again, max(left, time.Second))
		}
	}
	return out
}

func (c *one) placement(ctx context.Context) {
	s := c.class.Spec.PlacementGroupSelector
	if s == nil {
		c.Placement = ""
		c.set(keys.ConditionPlacementGroupReady, true, "", "")
		return
	}
	in := &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("state", "available")}}
	name := s.Name
	if s.ID != "" {
		in.GroupIds, name = []string{s.ID}, s.ID
	} else {
		in.GroupNames = []string{s.Name}
	}
	out, err := c.r.ec2.DescribePlacementGroups(ctx, in)
	switch {
	case err != nil && !awserr.Is(err, "InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed", "InvalidPlacementGroup.NotFound"):
		c.failed(keys.ConditionPlacementGroupReady, awserr.Of("DescribePlacementGroups", err))
		return
	case err != nil || len(out.PlacementGroups) == 0:
		c.set(keys.ConditionPlacementGroupReady, false, keys.ReasonPlacementGroupNotFound, "there is no available placement group %s in region %s", name, c.r.cfg.Region)
	case len(out.PlacementGroups) > 1:
		c.set(keys.ConditionPlacementGroupReady, false, keys.ReasonPlacementGroupFailed, "%s names %d placement groups", name, len(out.PlacementGroups))
	default:
		g := out.PlacementGroups[0]
		found := model.PlacementGroup{ID: deref(g.GroupId), Strategy: string(g.Strategy)}
		if g.Strategy == types.PlacementStrategyPartition {
			found.Partitions = int(deref(g.PartitionCount))
		}
		if _, err := model.ParsePlacementGroup(found.String()); err != nil {
			c.Placement = ""
			c.set(keys.ConditionPlacementGroupReady, false, keys.ReasonPlacementGroupFailed, "%v", err)
			return
		}
		c.Placement = found.String()
		c.set(keys.ConditionPlacementGroupReady, true, "", "")
		return
	}
	c.Placement = ""
}

// dependencies are the conditions that launches depend on.
var dependencies = []string{
	keys.ConditionAMIsReady, keys.ConditionSubnetsReady, keys.ConditionSecurityGroupsReady, keys.ConditionInstanceProfileReady,
	keys.ConditionPlacementGroupReady, keys.ConditionCapacityReservationsReady,
}

// unready lists the conditions of the list that are there and not True.
func (c *one) unready(kinds []string) []string {
	var out []string
	for _, kind := range kinds {
		if have := meta.FindStatusCondition(c.Status.Conditions, kind); have != nil && have.Status != metav1.ConditionTrue {
			out = append(out, kind+"="+string(have.Status))
		}
	}
	return out
}

func (c *one) validate() {
	if errs := c.class.Validate(); len(errs) > 0 {
		c.set(keys.ConditionValidationSucceeded, false, errs[0].Reason, "%s: %s", errs[0].Path, errs[0].Message)
		return
	}
	if reason, message := c.userData(); reason != "" {
		c.set(keys.ConditionValidationSucceeded, false, reason, "%s", message)
		return
	}
	if waiting := c.unready(dependencies); len(waiting) > 0 {
		c.set(keys.ConditionValidationSucceeded, false, keys.ReasonDependenciesNotReady, "%s", strings.Join(waiting, ", "))
		return
	}
	c.set(keys.ConditionValidationSucceeded, true, "", "")
}

// userData tries what instances would be started with: a class whose user data is not of its family would fail at every launch.
// What pools add, labels and taints, is not in it.
func (c *one) userData() (reason, message string) {
	facts := c.r.cfg.Facts
	if facts == (userdata.Cluster{}) {
		facts = userdata.Cluster{Name: c.r.cfg.Cluster, Endpoint: "https://cluster", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16"}
	}
	in := launchtemplate.Input{Class: c.class, Cluster: facts, Region: c.r.cfg.Region, CapacityType: model.OnDemand}
	var ami awsv1.AMI
	if len(c.Status.AMIs) > 0 {
		ami = c.Status.AMIs[0]
	}
	_, err := in.UserData(ami, launchtemplate.Type{MaxPods: triedPods})
	var e *cloud.Error
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &e):
		return e.Code, strings.TrimPrefix(e.Message, "EC2NodeClass "+c.class.Name+": ")
	}
	return keys.ReasonInvalidUserData, err.Error()
}

// triedPods stands for the pods of a type, of which nothing depends here but a few digits.
const triedPods = 110

func (c *one) ready() {
	all := append(slices.Clone(dependencies), keys.ConditionValidationSucceeded)
	bad := c.unready(all)
	switch {
	case len(bad) == 0:
		c.set(keys.ConditionReady, true, "", "")
	case slices.ContainsFunc(bad, func(s string) bool {
		return strings.HasSuffix(s, "=False") && !strings.HasPrefix(s, keys.ConditionValidationSucceeded)
	}) ||
		!slices.ContainsFunc(bad, func(s string) bool { return strings.HasSuffix(s, "=Unknown") }):
		c.set(keys.ConditionReady, false, keys.ReasonUnhealthyDependents, "%s", strings.Join(bad, ", "))
	default:
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: keys.ConditionReady, Status: metav1.ConditionUnknown, Reason: keys.ReasonReconcilingDependents, Message: strings.Join(bad, ", "),
			ObservedGeneration: c.class.Generation, LastTransitionTime: metav1.NewTime(c.now),
		})
	}
}

// Refuse says of a status that resolved that the class may not be launched from after all: a condition that
// the object has already keeps its time.
func Refuse(class *awsv1.EC2NodeClass, s *awsv1.EC2NodeClassStatus, reason, message string, now time.Time) {
	c := &one{class: class, now: now}
	c.Status = *s
	c.set(keys.ConditionValidationSucceeded, false, reason, "%s", message)
	c.ready()
	for i, x := range c.Status.Conditions {
		if was := meta.FindStatusCondition(class.Status.Conditions, x.Type); was != nil && was.Status == x.Status {
			c.Status.Conditions[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	*s = c.Status
}
