package claim

import (
	"testing"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

func classed(hash, version string) func(*model.Claim) {
	return func(c *model.Claim) {
		c.Annotations[model.AnnotationClassHash], c.Annotations[model.AnnotationClassHashVersion] = hash, version
	}
}

// running is a claim of the test class, on the given image.
func running(image, arch string) func(*model.Claim) {
	return func(c *model.Claim) {
		c.ImageID = image
		c.Labels[model.LabelInstanceType], c.Labels[model.LabelArch], c.Labels[model.LabelCapacityType] = "m5.large", arch, model.OnDemand
	}
}

func label(k, v string) func(*model.Claim) { return func(c *model.Claim) { c.Labels[k] = v } }

// resolvedClass is settled, and of hash c1 under version weir-v1.
func resolvedClass(f ...func(*model.NodeClass)) *model.NodeClass {
	const gpus = "karpenter.k8s.aws/instance-gpu-count"
	c := &model.NodeClass{Name: "default", Hash: "c1", HashVersion: "weir-v1", Settled: true,
		Images: []model.Image{
			{ID: "ami-gpu", Requirements: require.NewSet(require.Must(model.LabelArch, "In", "amd64"), require.Must(gpus, "Exists"))},
			{ID: "ami-amd", Requirements: require.NewSet(require.Must(model.LabelArch, "In", "amd64"), require.Must(gpus, "DoesNotExist"))},
		},
		Subnets: []string{"subnet-a", "subnet-b"}, SecurityGroups: []string{"sg-1", "sg-2"},
		Reservations: []model.Reservation{{ID: "cr-1"}},
	}
	for _, g := range f {
		g(c)
	}
	return c
}

func unsettled(c *model.NodeClass) { c.Settled = false }

func inGroup(c *model.NodeClass) {
	c.PlacementGroup = &model.PlacementGroup{ID: "pg-1", Strategy: "spread"}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	pool := &model.Pool{Name: "p", ConsolidateAfter: model.Never, Hash: "1", HashVersion: "v3"}
	was := func(reason string) func(*model.Claim) {
		return func(c *model.Claim) {
			c.Conditions = append(c.Conditions, model.Condition{Type: model.CondDrifted, Status: "True", Reason: reason, Since: t0})
		}
	}
	machine := func(f func(*model.Machine)) *model.Machine {
		m := &model.Machine{ImageID: "ami-amd", Subnet: "subnet-a", SecurityGroups: []string{"sg-2", "sg-1"}, Profile: "p", Fresh: true}
		if f != nil {
			f(m)
		}
		return m
	}
	fits := running("ami-amd", "amd64")
	with := func(f ...func(*model.Claim)) []func(*model.Claim) { return f }
	for name, tt := range map[string]struct {
		claim   []func(*model.Claim)
		class   *model.NodeClass
		machine *model.Machine
		want    string // reason as it is written; "-" = taken away; empty = left alone
	}{
		"all as the class says":                                  {with(fits, classed("c1", "weir-v1")), resolvedClass(), machine(nil), ""},
		"the class was changed":                                  {with(fits, classed("c0", "weir-v1")), resolvedClass(), machine(nil), DriftClass},
		"the class was changed back":                             {with(fits, classed("c1", "weir-v1"), was(DriftClass)), resolvedClass(), machine(nil), "-"},
		"no hash on the claim":                                   {with(fits), resolvedClass(), machine(nil), ""},
		"no hash on the class":                                   {with(fits, classed("c0", "weir-v1")), resolvedClass(func(c *model.NodeClass) { c.Hash, c.HashVersion = "", "" }), machine(nil), ""},
		"B071: another version is another function":              {with(fits, classed("c0", "v6")), resolvedClass(), machine(nil), ""},
		"B071: what had drifted under another version stays so":  {with(fits, classed("c0", "v6"), was(DriftClass)), resolvedClass(), machine(nil), ""},
		"another image":                                          {with(running("ami-old", "amd64")), resolvedClass(), nil, DriftImage},
		"another image, seen at the instance only":               {with(running("", "amd64")), resolvedClass(), machine(func(m *model.Machine) { m.ImageID = "ami-old" }), DriftImage},
		"the image of other types":                               {with(running("ami-gpu", "amd64")), resolvedClass(), nil, DriftImage},
		"the image of types with GPUs":                           {with(running("ami-gpu", "amd64"), label("karpenter.k8s.aws/instance-gpu-count", "1")), resolvedClass(), nil, ""},
		"B074: no image is left for the architecture":            {with(running("ami-arm", "arm64")), resolvedClass(), nil, DriftImage},
		"the image is the right one again":                       {with(fits, was(DriftImage)), resolvedClass(), nil, "-"},
		"nobody knows what type the machine is":                  {with(running("ami-old", "")), resolvedClass(), nil, ""},
		"images of a class that could not be resolved":           {with(running("ami-old", "amd64")), resolvedClass(unsettled), machine(nil), ""},
		"such a class makes nothing well":                        {with(fits, was(DriftImage)), resolvedClass(unsettled), machine(nil), ""},
		"nor does it show a change":                              {with(fits, classed("c0", "weir-v1")), resolvedClass(unsettled), machine(nil), ""},
		"no class":                                               {with(running("ami-old", "amd64"), classed("c0", "weir-v1")), nil, machine(nil), ""},
		"a group more":                                           {with(fits), resolvedClass(), machine(func(m *model.Machine) { m.SecurityGroups = append(m.SecurityGroups, "sg-3") }), DriftGroups},
		"a group less":                                           {with(fits), resolvedClass(), machine(func(m *model.Machine) { m.SecurityGroups = []string{"sg-1"} }), DriftGroups},
		"groups that were not told":                              {with(fits, was(DriftGroups)), resolvedClass(), machine(func(m *model.Machine) { m.SecurityGroups = nil }), ""},
		"another subnet":                                         {with(fits), resolvedClass(), machine(func(m *model.Machine) { m.Subnet = "subnet-z" }), DriftSubnet},
		"not listed yet":                                         {with(fits, was(DriftSubnet)), resolvedClass(), nil, ""},
		"its own reservation":                                    {with(fits, label(model.LabelCapacityType, model.Reserved)), resolvedClass(), machine(func(m *model.Machine) { m.Reservation = "cr-1" }), ""},
		"a reservation that is not selected":                     {with(fits, label(model.LabelCapacityType, model.Reserved)), resolvedClass(), machine(func(m *model.Machine) { m.Reservation = "cr-2" }), DriftReservation},
		"the listing is older than the class":                    {with(fits, label(model.LabelCapacityType, model.Reserved)), resolvedClass(), machine(func(m *model.Machine) { m.Reservation, m.Fresh = "cr-2", false }), ""},
		"an on-demand instance that fell into a reservation":     {with(fits), resolvedClass(), machine(func(m *model.Machine) { m.Reservation = "cr-2" }), ""},
		"the pool comes first":                                   {with(running("ami-old", "amd64"), hashed("0", "v3"), classed("c0", "weir-v1")), resolvedClass(), machine(nil), DriftPool},
		"the class comes before the image":                       {with(running("ami-old", "amd64"), classed("c0", "weir-v1")), resolvedClass(), machine(nil), DriftClass},
		"the image comes before the groups, these before subnet": {with(running("ami-old", "amd64")), resolvedClass(), machine(func(m *model.Machine) { m.Subnet, m.SecurityGroups = "z", nil }), DriftImage},
		"its own placement group":                                {with(fits, label(model.LabelPlacementGroup, "pg-1")), resolvedClass(inGroup), machine(nil), ""},
		"another placement group":                                {with(fits, label(model.LabelPlacementGroup, "pg-0")), resolvedClass(inGroup), machine(nil), DriftPlacement},
		"another one, seen at the instance only":                 {with(fits), resolvedClass(inGroup), machine(func(m *model.Machine) { m.PlacementGroup = "pg-0" }), DriftPlacement},
		"in the group again":                                     {with(fits, label(model.LabelPlacementGroup, "pg-1"), was(DriftPlacement)), resolvedClass(inGroup), machine(nil), "-"},
		"a class without one tells by its hash":                  {with(fits, label(model.LabelPlacementGroup, "pg-0")), resolvedClass(), machine(nil), ""},
		"a group that could not be resolved":                     {with(fits, label(model.LabelPlacementGroup, "pg-0")), resolvedClass(inGroup, unsettled), machine(nil), ""},
		"the subnet comes before the placement group":            {with(fits, label(model.LabelPlacementGroup, "pg-0")), resolvedClass(inGroup), machine(func(m *model.Machine) { m.Subnet = "z" }), DriftSubnet},
		"a reason of Karpenter's that is not looked at here":     {with(fits, was(DriftPlacement)), resolvedClass(), machine(nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := made(append([]func(*model.Claim){initialized}, tt.claim...)...)
			r := Step(Observed{Claim: c, Pool: pool, Class: tt.class, Machine: tt.machine}, t0.Add(time.Hour))
			got := ""
			if p := r.Claim; p != nil {
				for _, x := range p.Conditions {
					if x.Type == model.CondDrifted && x.Status == "True" {
						got = x.Reason
						if x.Reason != DriftPool && x.Message == "" {
							t.Error("the condition does not say in what the machine differs")
						}
					}
				}
				for _, x := range p.RemoveConditions {
					if x == model.CondDrifted {
						got = "-"
					}
				}
			}
			if got != tt.want {
				t.Errorf("drifted: %q, want %q (patch %+v)", got, tt.want, r.Claim)
			}
		})
	}
}

// A claim that a person made never drifts.
func TestClaimsByHandDoNotDrift(t *testing.T) {
	t.Parallel()
	c := made(initialized, running("ami-old", "amd64"), classed("c0", "weir-v1"))
	if r := Step(Observed{Claim: c, Class: resolvedClass()}, t0.Add(time.Hour)); r.Claim != nil {
		t.Errorf("patched: %+v", r.Claim)
	}
}
