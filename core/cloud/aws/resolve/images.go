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
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
)

// variant is the machines that an image is for.
type variant string

const (
	anyVariant variant = ""
	standard   variant = "standard" // neither GPU nor accelerator
	nvidia     variant = "nvidia"
	neuron     variant = "neuron"
	windows    variant = "windows" // followed by the build
)

// Published is a parameter of SSM under which AWS publishes an image, and the machines it is for.
type Published struct {
	Parameter string
	variants  []variant
}

// unsupported is an alias that the cluster's version has no images for.
type unsupported struct{ message string }

func (u *unsupported) Error() string { return u.message }

// Parameters lists where the images of an alias are published for a Kubernetes version such as 1.33.
func Parameters(a awsv1.Alias, kubernetes string) ([]Published, error) {
	v, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return nil, fmt.Errorf("the cluster's version %q: %w", kubernetes, err)
	}
	k := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	latest := a.Version == awsv1.VersionLatest
	switch a.Family {
	case awsv1.FamilyAL2023:
		image := func(arch, kind string) Published {
			name := "recommended"
			if !latest {
				name = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, kind, k, a.Version)
			}
			return Published{fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", k, arch, kind, name), []variant{variant(kind)}}
		}
		return []Published{image("x86_64", "standard"), image("arm64", "standard"), image("x86_64", "nvidia"), image("arm64", "nvidia"), image("x86_64", "neuron")}, nil
	case awsv1.FamilyAL2:
		if v.AtLeast(version.MustParseGeneric("1.33")) {
			return nil, &unsupported{"AL2 images end with Kubernetes 1.32, the cluster has " + k}
		}
		image := func(folder, prefix string, variants ...variant) Published {
			name := "recommended"
			if !latest {
				name = prefix + "-" + k + "-" + a.Version
			}
			return Published{fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", k, folder, name), variants}
		}
		return []Published{image("", "amazon-eks-node", standard), image("-arm64", "amazon-eks-arm64-node", standard), image("-gpu", "amazon-eks-gpu-node", neuron, nvidia)}, nil
	case awsv1.FamilyBottlerocket:
		image := func(kind, arch string, variants ...variant) Published {
			return Published{fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", k, kind, arch, a.Version), variants}
		}
		return []Published{image("", "x86_64", standard, neuron), image("", "arm64", standard), image("-nvidia", "x86_64", nvidia), image("-nvidia", "arm64", nvidia)}, nil
	}
	year := strings.TrimPrefix(a.Family, "Windows")
	if year == "2025" && v.LessThan(version.MustParseGeneric("1.35")) {
		return nil, &unsupported{"Windows Server 2025 images begin with Kubernetes 1.35, the cluster has " + k}
	}
	build, ok := builds[year]
	if !ok {
		return nil, fmt.Errorf("alias of family %s: no images are published for it", a.Family)
	}
	return []Published{{fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, k), []variant{windows + variant(build)}}}, nil
}

var builds = map[string]string{"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}

// requirements is what a node must have for the image.
func (v variant) requirements(arch string) []corev1.NodeSelectorRequirement {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	op := func(key string, o corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: o}
	}
	out := []corev1.NodeSelectorRequirement{in(keys.Arch, arch)}
	switch {
	case v == standard:
		out = append(out, op(keys.InstanceAcceleratorCount, corev1.NodeSelectorOpDoesNotExist), op(keys.InstanceGPUCount, corev1.NodeSelectorOpDoesNotExist))
	case v == nvidia:
		out = append(out, op(keys.InstanceGPUCount, corev1.NodeSelectorOpExists))
	case v == neuron:
		out = append(out, op(keys.InstanceAcceleratorCount, corev1.NodeSelectorOpExists))
	case strings.HasPrefix(string(v), string(windows)):
		out = append(out, in(keys.OS, "windows"), in(keys.WindowsBuild, strings.TrimPrefix(string(v), string(windows))))
	}
	return out
}

// parameter reads an image id; empty where there is none.
func (r *Resolver) parameter(ctx context.Context, name string) (string, error) {
	out, err := r.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	switch {
	case awserr.Is(err, "ParameterNotFound", "ParameterVersionNotFound"):
		return "", nil
	case err != nil:
		return "", awserr.Of("GetParameter", err)
	case out.Parameter == nil || !strings.HasPrefix(deref(out.Parameter.Value), "ami-"):
		return "", nil
	}
	return *out.Parameter.Value, nil
}

// question is one call of DescribeImages, and what the images it finds are for.
type question struct {
	owners   []string
	filters  []types.Filter
	variants map[string][]variant // by image id; nil = any machine of the image's architecture
}

func (c *one) images(ctx context.Context) {
	questions, missing, err := c.questions(ctx)
	if u := (*unsupported)(nil); errors.As(err, &u) {
		c.Status.AMIs = nil
		c.set(keys.ConditionAMIsReady, false, keys.ReasonUnsupportedAlias, "%s", u.message)
		return
	}
	if err != nil {
		c.failed(keys.ConditionAMIsReady, err)
		return
	}
	best := map[string]image{}
	for _, q := range questions {
		deprecated, n := true, int32(1000)
		in := &ec2.DescribeImagesInput{Owners: q.owners, Filters: append(q.filters, filter("state", string(types.ImageStateAvailable))), IncludeDeprecated: &deprecated, MaxResults: &n}
		for p := ec2.NewDescribeImagesPaginator(c.r.ec2, in); p.HasMorePages(); {
			out, err := p.NextPage(ctx)
			if err != nil {
				c.failed(keys.ConditionAMIsReady, awserr.Of("DescribeImages", err))
				return
			}
			for _, x := range out.Images {
				c.consider(best, x, q)
			}
		}
	}
	c.Status.AMIs = nil
	list := make([]image, 0, len(best))
	for _, x := range best {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b image) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.ID, b.ID), cmp.Compare(a.key, b.key))
	})
	for _, x := range list {
		c.Status.AMIs = append(c.Status.AMIs, x.AMI)
	}
	if len(list) == 0 {
		if missing == "" {
			missing = "spec.amiSelectorTerms match no available image of architecture x86_64 or arm64"
		}
		c.set(keys.ConditionAMIsReady, false, keys.ReasonAMINotFound, "%s", missing)
		return
	}
	c.set(keys.ConditionAMIsReady, true, "", "")
}

// image is a candidate for one set of requirements.
type image struct {
	awsv1.AMI
	created time.Time
	key     string
}

// consider keeps, for each set of requirements, the best image: not deprecated, then the newest, then the last by name.
func (c *one) consider(best map[string]image, x types.Image, q question) {
	arch := map[types.ArchitectureValues]string{types.ArchitectureValuesX8664: "amd64", types.ArchitectureValuesArm64: "arm64"}[x.Architecture]
	if arch == "" || x.State != "" && x.State != types.ImageStateAvailable {
		return
	}
	variants := []variant{anyVariant}
	if q.variants != nil {
		variants = q.variants[deref(x.ImageId)]
	}
	created, err := time.Parse(time.RFC3339, deref(x.CreationDate))
	if err != nil {
		created = time.Time{} // one that does not say when it was made is the oldest
	}
	deprecated := false
	if at, err := time.Parse(time.RFC3339, deref(x.DeprecationTime)); err == nil {
		deprecated = !at.After(c.now)
	}
	for _, v := range variants {
		one := image{AMI: awsv1.AMI{ID: deref(x.ImageId), Name: deref(x.Name), Deprecated: deprecated, Requirements: v.requirements(arch)}, created: created, key: string(v) + "/" + arch}
		have, ok := best[one.key]
		if ok && !one.before(have) {
			continue
		}
		best[one.key] = one
	}
}

func (a image) before(b image) bool {
	if a.Deprecated != b.Deprecated {
		return b.Deprecated
	}
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.Name, b.Name)) > 0
}

// questions turns the terms into calls. missing says what an alias or parameter does not lead to.
func (c *one) questions(ctx context.Context) (out []question, missing string, err error) {
	if alias, ok, err := c.class.Spec.Alias(); err != nil {
		return nil, err.Error(), nil
	} else if ok {
		return c.published(ctx, alias)
	}
	var ids []string
	for _, t := range c.class.Spec.AMISelectorTerms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.SSMParameter != "":
			id, err := c.r.parameter(ctx, t.SSMParameter)
			if err != nil {
				return nil, "", err
			}
			if id == "" {
				missing = fmt.Sprintf("parameter %s is not there or its value is no image id", t.SSMParameter)
				continue
			}
			ids = append(ids, id)
		default:
			q := question{filters: byTags(t.Tags)}
			if t.Name != "" {
				q.filters = append(q.filters, filter("name", t.Name))
			}
			switch {
			case t.Owner != "":
				q.owners = []string{t.Owner}
			case t.Name != "":
				q.owners = []string{"self", "amazon"}
			}
			out = append(out, q)
		}
	}
	if len(ids) > 0 {
		out = append(out, question{filters: []types.Filter{filter("image-id", ids...)}})
	}
	return out, missing, nil
}

func (c *one) published(ctx context.Context, a awsv1.Alias) (out []question, missing string, err error) {
	list, err := Parameters(a, c.r.cfg.Version())
	if err != nil {
		return nil, "", err
	}
	q := question{variants: map[string][]variant{}}
	var ids []string
	for _, p := range list {
		id, err := c.r.parameter(ctx, p.Parameter)
		if err != nil {
			return nil, "", err
		}
		if id == "" {
			continue
		}
		if q.variants[id] == nil {
			ids = append(ids, id)
		}
		q.variants[id] = append(q.variants[id], p.variants...)
	}
	if len(ids) == 0 {
		return nil, fmt.Sprintf("alias of family %s: no image of version %s is published for Kubernetes %s in region %s, looked at %s and others",
			a.Family, a.Version, c.r.cfg.Version(), c.r.cfg.Region, list[0].Parameter), nil
	}
	q.filters = []types.Filter{filter("image-id", ids...)}
	return []question{q}, "", nil
}
