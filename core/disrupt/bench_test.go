package disrupt_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// crowd is a cluster of so many nodes of three sizes, filled to about 40% of the CPU.
// With asks a tenth of the pods spread over zones or keep apart on nodes.
func crowd(nodes int, asks bool) *model.World {
	r := rand.New(rand.NewPCG(1, 2))
	w := world()
	types := []string{"m5.xlarge", "m5.2xlarge", "m5.4xlarge"}
	for i := range nodes {
		kind := types[r.IntN(len(types))]
		var opts []func(*model.Node)
		for used, j := int64(0), 0; used < kinds[kind].cores*400; j++ {
			milli := int64(50 + r.IntN(900))
			used += milli
			name := fmt.Sprintf("p%05d-%d", i, j)
			opts = append(opts, pod(name, milli, func(p *model.Pod) {
				p.Requests = resource.New(milli, int64(r.IntN(4*int(milli)))<<20, 1, 0)
				switch ask := r.IntN(20); {
				case asks && ask == 0:
					p.Topology = spread(model.LabelZone, name)
				case asks && ask == 1:
					p.Topology = apart(model.LabelHostname, name)
				}
			}))
		}
		node(fmt.Sprintf("n%05d", i), kind, append(opts, zone([]string{"a", "b"}[r.IntN(2)]))...)(w)
	}
	return w
}

func BenchmarkPlan(b *testing.B) {
	for _, nodes := range []int{100, 500, 2000} {
		for _, asks := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/asks=%t", nodes, asks), func(b *testing.B) {
				w := crowd(nodes, asks)
				p := plan(w)
				if err := verify(w, p); err != nil {
					b.Fatal(err)
				}
				if len(removed(p)) < nodes/4 {
					b.Fatalf("%d of %d nodes go", len(removed(p)), nodes)
				}
				b.ReportAllocs()
				for b.Loop() {
					disrupt.Plan(w, nil, nil, disrupt.Options{Waves: true})
				}
			})
		}
	}
}
