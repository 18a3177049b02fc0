package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/claim"
	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/launchtemplate"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
)

func newNodeClass(c *common) *cobra.Command {
	return group("nodeclass", "Show what an EC2NodeClass starts machines with",
		"nodeclass answers questions about an EC2NodeClass of the manifests.", newNodeClassRender(c))
}

const renderLong = `render writes the launch template of an EC2NodeClass for one instance type, and the user
data in it, as the scaler would send them.

What the class stands for is taken from its status, as kubectl get -o yaml shows it. What
the status does not say is named by flags: an image, security groups, an instance profile.
Facts of the cluster come from --config, from the environment or from flags. Labels and
taints are those of the NodePool.`

type renderOptions struct {
	inputs
	output
	nodeClass, pool, instanceType, capacityType, reservation string
	ami, profile                                             string
	groups                                                   []string
	cluster                                                  userdata.Cluster
}

func newNodeClassRender(c *common) *cobra.Command {
	o := &renderOptions{inputs: inputs{common: c}}
	cmd := &cobra.Command{
		Use:   "render [TYPE]",
		Short: "Show the launch template and the user data",
		Long:  renderLong,
		Example: `  kubectl get ec2nodeclasses,nodepools -o yaml | weir nodeclass render m6a.large -f - --config scaler.yaml
  weir nodeclass render m5.large -f class.yaml --ami ami-0abc --security-group sg-0abc --instance-profile nodes \
    --cluster-name demo --cluster-endpoint https://x --cluster-ca-bundle Y2E= --service-cidr 10.100.0.0/16`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return bad("weir nodeclass render: expected the name of one instance type, got %d words", len(args))
			}
			o.instanceType = strings.Join(args, "")
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	o.inputs.register(cmd)
	o.output.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.nodeClass, "nodeclass", "", "EC2NodeClass of the manifests; that of --nodepool, or the only one, if left out")
	f.StringVar(&o.pool, "nodepool", "", "NodePool of the manifests whose labels and taints the machines carry; the only one of the class if left out")
	f.StringVar(&o.capacityType, "capacity-type", model.OnDemand, "on-demand, spot or reserved")
	f.StringVar(&o.reservation, "reservation", "", "capacity reservation to buy from, with --capacity-type reserved")
	f.StringVar(&o.ami, "ami", "", "image, in place of those of the class's status")
	f.StringSliceVar(&o.groups, "security-group", nil, "security groups, in place of those of the class's status")
	f.StringVar(&o.profile, "instance-profile", "", "instance profile, in place of that of the class's status")
	f.StringVar(&o.cluster.Name, "cluster-name", "", "name of the cluster; what the configuration says if left out")
	f.StringVar(&o.cluster.Endpoint, "cluster-endpoint", "", "URL of the API server; what the configuration says if left out")
	f.StringVar(&o.cluster.CA, "cluster-ca-bundle", "", "certificates of the API server, base64; what the configuration says if left out")
	f.StringVar(&o.cluster.ServiceCIDR, "service-cidr", "", "addresses of the cluster's services, which AL2023 needs")
	f.StringVar(&o.cluster.DNS, "cluster-dns", "", "address of the cluster's DNS service; the kubelet's default if left out")
	return cmd
}

// rendered is the answer.
type rendered struct {
	Kind           string            `json:"kind"`
	NodeClass      string            `json:"nodeClass"`
	NodePool       string            `json:"nodePool"`
	InstanceType   string            `json:"instanceType"`
	CapacityType   string            `json:"capacityType"`
	Family         string            `json:"family"`
	Image          string            `json:"image"`
	MaxPods        int64             `json:"maxPods"`
	LaunchTemplate renderedTemplate  `json:"launchTemplate"`
	Subnets        map[string]string `json:"subnets"` // by zone: the first, as the scaler takes the one with most free addresses
	UserData       string            `json:"userData"`
	UserDataBytes  int               `json:"userDataBytes"`
	Warnings       []string          `json:"warnings"`
}

// renderedTemplate is a launch template as it is sent, user data in base64 included.
type renderedTemplate struct {
	Name string            `json:"name"`
	Data json.RawMessage   `json:"data"`
	Tags map[string]string `json:"tags"`
}

func (o *renderOptions) run() error {
	if err := o.check(); err != nil {
		return err
	}
	switch o.capacityType {
	case model.OnDemand, model.Spot, model.Reserved:
	default:
		return bad("--capacity-type: expected on-demand, spot or reserved, got %q", o.capacityType)
	}
	if (o.reservation != "") != (o.capacityType == model.Reserved) {
		return bad("--reservation: expected the id of a capacity reservation together with --capacity-type reserved, and only then")
	}
	if len(o.files) == 0 {
		return bad("-f: expected at least one file, folder or - (standard input)")
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	table, err := o.market(cfg)
	if err != nil {
		return err
	}
	in, err := load.Files(o.files, o.in, load.Options{})
	if err != nil {
		return badInput{err}
	}
	pool, class, err := subject(in, o.pool, o.nodeClass)
	if err != nil {
		return err
	}
	if class == nil {
		return bad("-f: expected an EC2NodeClass, the input has none")
	}
	object, err := o.resolved(in.Classes[class.Name])
	if err != nil {
		return err
	}
	if pool == nil {
		pool = onlyPool(in, class.Name)
	}
	r, err := o.render(cfg, table, pool, class, object)
	if err != nil {
		return err
	}
	r.Warnings = append(slices.Concat([]string{}, cfg.Warnings, in.Warnings), r.Warnings...)
	return o.answer(o.format, r)
}

// onlyPool is the pool of a class that has one alone.
func onlyPool(in *load.Input, class string) *model.Pool {
	var found *model.Pool
	for _, p := range in.Pools {
		if p.NodeClass.Name == class {
			if found != nil {
				return nil
			}
			found = p
		}
	}
	return found
}

// resolved is the class with what flags say in place of its status. It must be one that the controller would launch from.
func (o *renderOptions) resolved(c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	for _, problem := range c.Validate() {
		return nil, bad("EC2NodeClass %s: %w", c.Name, problem)
	}
	c = c.DeepCopy()
	if o.ami != "" {
		c.Status.AMIs = []awsv1.AMI{{ID: o.ami, Requirements: []corev1.NodeSelectorRequirement{}}}
	}
	if len(o.groups) > 0 {
		c.Status.SecurityGroups = nil
		for _, id := range o.groups {
			c.Status.SecurityGroups = append(c.Status.SecurityGroups, awsv1.SecurityGroup{ID: id})
		}
	}
	if o.profile != "" {
		c.Status.InstanceProfile = o.profile
		if c.Spec.InstanceProfile != nil {
			c.Spec.InstanceProfile = &o.profile
		}
	}
	var missing []string
	if len(c.Status.AMIs) == 0 {
		missing = append(missing, "no image (status.amis, or --ami)")
	}
	if len(c.Status.SecurityGroups) == 0 {
		missing = append(missing, "no security group (status.securityGroups, or --security-group)")
	}
	if c.Status.InstanceProfile == "" && c.Spec.InstanceProfile == nil {
		missing = append(missing, "no instance profile (status.instanceProfile, or --instance-profile)")
	}
	if len(missing) > 0 {
		return nil, bad("EC2NodeClass %s: it is not resolved in the input: %s", c.Name, strings.Join(missing, ", "))
	}
	return c, nil
}

// facts are what is known of the cluster; those that the family needs must be there.
func (o *renderOptions) facts(cfg *config.Loaded, family string) (userdata.Cluster, error) {
	c := o.cluster
	for _, f := range []struct {
		field *string
		value string
	}{{&c.Name, cfg.Cluster}, {&c.Endpoint, cfg.ClusterEndpoint}, {&c.CA, cfg.ClusterCABundle}} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	if _, err := base64.StdEncoding.DecodeString(c.CA); err != nil {
		return c, bad("--cluster-ca-bundle: expected certificates in base64: %w", err)
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Scheme == "" || u.Host == "") {
		return c, bad("--cluster-endpoint: expected an absolute URL, got %q", c.Endpoint)
	}
	if _, err := netip.ParsePrefix(c.ServiceCIDR); c.ServiceCIDR != "" && err != nil {
		return c, bad("--service-cidr: expected addresses such as 10.100.0.0/16, got %q", c.ServiceCIDR)
	}
	if _, err := netip.ParseAddr(c.DNS); c.DNS != "" && err != nil {
		return c, bad("--cluster-dns: expected an address such as 10.100.0.10, got %q", c.DNS)
	}
	var missing []string
	for _, f := range []struct {
		flag, value string
		needed      bool
	}{
		{"--cluster-name", c.Name, true}, {"--cluster-endpoint", c.Endpoint, family != awsv1.FamilyCustom},
		{"--cluster-ca-bundle", c.CA, family != awsv1.FamilyCustom}, {"--service-cidr", c.ServiceCIDR, family == awsv1.FamilyAL2023},
	} {
		if f.needed && f.value == "" {
			missing = append(missing, f.flag)
		}
	}
	if len(missing) > 0 {
		return c, bad("facts of the cluster that images of family %s need are not known: name %s", family, strings.Join(missing, ", "))
	}
	return c, nil
}

// machine is the type to show: the one that was named, else the cheapest that the pool may buy and the class has an image for.
func (o *renderOptions) machine(offers []*model.Offering, pool *model.Pool, object *awsv1.EC2NodeClass) (*model.InstanceType, error) {
	var best *model.Offering
	var names []string
	seen := map[string]bool{}
	for _, x := range offers {
		if !seen[x.Type.Name] {
			seen[x.Type.Name] = true
			names = append(names, x.Type.Name)
		}
		if o.instanceType != "" {
			if x.Type.Name == o.instanceType {
				return x.Type, nil
			}
			continue
		}
		_, bootable := launchtemplate.ImageFor(object, x.Type.Labels)
		if x.Available && bootable && x.CapacityType == o.capacityType && (pool == nil || allows(pool, x)) && (best == nil || x.USDPerHour < best.USDPerHour) {
			best = x
		}
	}
	switch {
	case o.instanceType != "":
		return nil, bad("weir nodeclass render: the catalogue has no instance type %q%s", o.instanceType, didYouMean(o.instanceType, names, ""))
	case best == nil:
		return nil, bad("weir nodeclass render: no instance type can be bought as %s with EC2NodeClass %s, name one", o.capacityType, object.Name)
	}
	return best.Type, nil
}

func (o *renderOptions) render(cfg *config.Loaded, table *catalogue.Table, pool *model.Pool, class *model.NodeClass, object *awsv1.EC2NodeClass) (*rendered, error) {
	family := object.Spec.Family()
	cluster, err := o.facts(cfg, family)
	if err != nil {
		return nil, err
	}
	options := marketOptions(cfg)
	options.ReservationCounts = o.left
	t, err := o.machine(table.Offerings(class, zonesOf(cfg, class), options), pool, object)
	if err != nil {
		return nil, err
	}
	ami, ok := launchtemplate.ImageFor(object, t.Labels)
	if !ok {
		return nil, bad("EC2NodeClass %s has no image for instance type %s: %s", object.Name, t.Name, imagesOf(object))
	}
	in := launchtemplate.Input{
		Class: object, Cluster: cluster, Region: cfg.Region, CapacityType: o.capacityType, Reservations: cfg.FeatureGates.ReservedCapacity,
		Labels: map[string]string{model.LabelNodeClass: object.Name}, Taints: []model.Taint{claim.Unregistered}, Tags: launchtemplate.ClusterTags(cluster.Name, "", object.Name),
	}
	r := &rendered{Kind: "NodeClassRender", NodeClass: object.Name, InstanceType: t.Name, CapacityType: o.capacityType, Family: family, Image: ami.ID,
		MaxPods: t.Capacity.Get("pods"), Subnets: map[string]string{}}
	if pool != nil {
		r.NodePool = pool.Name
		in.Tags = launchtemplate.ClusterTags(cluster.Name, pool.Name, object.Name)
		in.Labels = poolLabels(pool)
		in.Taints = slices.Concat(pool.Taints, pool.StartupTaints, in.Taints)
	} else {
		r.Warnings = append(r.Warnings, "no NodePool is named: labels and taints of one are left out")
	}
	kind := launchtemplate.Type{Labels: t.Labels, MaxPods: int32(r.MaxPods)}
	made, warnings, err := launchtemplate.New(&in, ami, kind, reservationOf(object, o.reservation))
	if err != nil {
		return nil, refused(err)
	}
	text, err := in.UserData(ami, kind)
	if err != nil {
		return nil, refused(err)
	}
	data, err := launchtemplate.Compact(made.Data)
	if err != nil {
		return nil, err
	}
	for _, s := range object.Status.Subnets {
		if _, has := r.Subnets[s.Zone]; !has {
			r.Subnets[s.Zone] = s.ID
		}
	}
	r.Warnings = append(r.Warnings, warnings...)
	r.LaunchTemplate = renderedTemplate{Name: made.Name, Data: data, Tags: made.Tags}
	r.UserData, r.UserDataBytes = string(text.Text), len(text.Text)
	return r, nil
}

// refused is bad input, without the words that only the controller's log needs.
func refused(err error) error {
	if e := (*cloud.Error)(nil); errors.As(err, &e) {
		return bad("%s", e.Message)
	}
	return badInput{err}
}

// poolLabels are those that every claim of a pool has.
func poolLabels(p *model.Pool) map[string]string {
	out := map[string]string{}
	for _, r := range p.Requirements.All() {
		if v := r.Values; r.Finite() && len(v) == 1 && !model.WellKnown(r.Key) {
			out[r.Key] = v[0]
		}
	}
	maps.Copy(out, p.Labels)
	out[model.LabelPool], out[model.LabelNodeClass] = p.Name, p.NodeClass.Name
	return out
}

// imagesOf says which machines the images of a class are for.
func imagesOf(c *awsv1.EC2NodeClass) string {
	var out []string
	for _, a := range c.Status.AMIs {
		var reqs []string
		for _, r := range a.Requirements {
			reqs = append(reqs, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		out = append(out, a.ID+" is for "+strings.Join(reqs, " and "))
	}
	return strings.Join(out, "; ")
}

// WriteTable shows the template as YAML, and the user data as the instance gets it.
func (r *rendered) WriteTable(w io.Writer) error {
	var data map[string]any
	if err := json.Unmarshal(r.LaunchTemplate.Data, &data); err != nil {
		return err
	}
	delete(data, "UserData") // shown below in the clear
	template, err := yaml.Marshal(data)
	if err != nil {
		return err
	}
	var b strings.Builder
	line := func(title, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-16s %s\n", title, value)
		}
	}
	line("EC2NodeClass", r.NodeClass)
	line("NodePool", r.NodePool)
	line("Instance type", r.InstanceType+", "+r.CapacityType+", at most "+fmt.Sprint(r.MaxPods)+" pods")
	line("Image", r.Image+" ("+r.Family+")")
	var subnets []string
	for zone, id := range r.Subnets {
		subnets = append(subnets, zone+" "+id)
	}
	sort.Strings(subnets)
	line("Subnets", strings.Join(subnets, ", "))
	line("Launch template", r.LaunchTemplate.Name)
	fmt.Fprintf(&b, "\n# launch template\n%s\n# user data, %d of %d bytes\n%s", template, r.UserDataBytes, userdata.Limit, r.UserData)
	if !strings.HasSuffix(r.UserData, "\n") {
		b.WriteString("\n")
	}
	if len(r.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, s := range r.Warnings {
		b.WriteString("warning: " + s + "\n")
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// reservationOf is the reservation of that id as the class's status knows it.
func reservationOf(c *awsv1.EC2NodeClass, id string) launchtemplate.Reservation {
	out := launchtemplate.Reservation{ID: id}
	for _, r := range c.Status.CapacityReservations {
		if r.ID == id {
			out.Type, out.Interruptible = r.ReservationType, r.Interruptible
		}
	}
	return out
}
