package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/awsv1"
	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/catalogue"
)

// Draw is one random cluster.
type Draw struct {
	Seed      uint64
	Catalogue []byte   // instance types and offerings, in the format of the catalogue
	Zones     []string // where nodes are bought

	Classes    []*awsv1.EC2NodeClass
	Pools      []*apiv1.NodePool
	Claims     []*apiv1.NodeClaim
	Nodes      []*corev1.Node
	CSINodes   []*storagev1.CSINode
	DaemonSets []*appsv1.DaemonSet
	Volumes    []*corev1.PersistentVolume
	PVCs       []*corev1.PersistentVolumeClaim
	Running    []*corev1.Pod // with spec.nodeName
	Waiting    []*corev1.Pod // in the order in which they are made
}

// Zones of the region that draws are in.
var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// namespaces are there in every draw, with labels for namespace selectors.
var namespaces = []*corev1.Namespace{
	{ObjectMeta: metav1.ObjectMeta{Name: "alpha", Labels: map[string]string{"team": "red", "stage": "prod"}}},
	{ObjectMeta: metav1.ObjectMeta{Name: "beta", Labels: map[string]string{"team": "blue", "stage": "prod"}}},
	{ObjectMeta: metav1.ObjectMeta{Name: "gamma", Labels: map[string]string{"team": "red", "stage": "test"}}},
}

// generator draws one cluster.
type generator struct {
	*rand.Rand
	d     *Draw
	types []*catalogue.Type
	ports map[string]bool
}

// Generate draws the cluster of a seed. Equal seeds give equal clusters.
func Generate(seed uint64) (*Draw, error) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x0e1f)), d: &Draw{Seed: seed}, ports: map[string]bool{}}
	if err := g.market(); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	g.pools()
	g.existing()
	g.daemons()
	g.workloads()
	return g.d, nil
}

// one says yes with the given chance in percent.
func (g *generator) one(percent int) bool { return g.IntN(100) < percent }

// pick takes one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// some takes n different values, in their order.
func some[T any](g *generator, n int, values []T) []T {
	n = min(n, len(values))
	chosen := map[int]bool{}
	for _, i := range g.Perm(len(values))[:n] {
		chosen[i] = true
	}
	out := make([]T, 0, n)
	for i, v := range values {
		if chosen[i] {
			out = append(out, v)
		}
	}
	return out
}

// between is uniform, ends included.
func (g *generator) between(low, high int) int { return low + g.IntN(high-low+1) }

var (
	families = []string{"m5", "c5", "r5", "m6i", "c6i", "m7i", "t3", "m6g", "c7g", "m5d", "m4", "g4dn"}
	sizes    = []string{"large", "xlarge", "2xlarge", "4xlarge"}
)

// market draws instance types, a part of what is on offer, and the zones.
func (g *generator) market() error {
	g.d.Zones = zones
	if g.one(25) {
		g.d.Zones = some(g, 2, zones)
	}
	all := catalogue.Embedded()
	var names []string
	for _, f := range append([]string{"m5"}, some(g, g.between(1, 4), families[1:])...) {
		for _, s := range some(g, g.between(1, 3), sizes) {
			names = append(names, f+"."+s)
		}
	}
	var entries []catalogue.Type
	for _, name := range names {
		t := all.Get(name)
		if t == nil {
			continue
		}
		entry := *t
		if g.one(30) { // not everything is to be had everywhere
			entry.Offerings = []catalogue.Price{}
			for _, z := range g.d.Zones {
				for _, ct := range []string{"on-demand", "spot"} {
					if g.one(70) {
						usd, there := t.OnDemandUSD, !g.one(10)
						if ct == "spot" {
							usd = catalogue.SyntheticSpot(usd, name, z)
						}
						entry.Offerings = append(entry.Offerings, catalogue.Price{Zone: z, CapacityType: ct, USDPerHour: &usd, Available: &there})
					}
				}
			}
		}
		entries = append(entries, entry)
		g.types = append(g.types, t)
	}
	var err error
	g.d.Catalogue, err = marshalTypes(entries)
	return err
}

// marshalTypes writes a catalogue; types without offerings of their own leave them out.
func marshalTypes(entries []catalogue.Type) ([]byte, error) {
	var list []map[string]any
	for i := range entries {
		b, err := json.Marshal(&entries[i])
		if err != nil {
			return nil, err
		}
		m := map[string]any{}
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, err
		}
		if entries[i].Offerings == nil {
			delete(m, "offerings")
		}
		list = append(list, m)
	}
	return json.MarshalIndent(list, "", " ")
}

func quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}
