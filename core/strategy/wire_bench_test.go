package strategy

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/model"
	mt "github.com/weir-project/weir/core/model/modeltest"
	"github.com/weir-project/weir/core/provision"
)

// crowd is 50,000 pods of 500 kinds over the whole catalogue.
func crowd() *model.World {
	class := &model.NodeClass{Name: mt.Class, Family: "AL2023"}
	w := &model.World{Now: mt.Now.Add(time.Hour), Pools: []*model.Pool{mt.Pool("p")}, NodeClasses: map[string]*model.NodeClass{mt.Class: class},
		Offerings: map[string][]*model.Offering{mt.Class: embedded().Offerings(class, nil, catalogue.Options{})}}
	for k := range 500 {
		w.Pods = append(w.Pods, mt.Pods(100, fmt.Sprintf("k%03d", k), int64(100+37*(k%50)), int64(256+101*(k/10)))...)
	}
	return w
}

// BenchmarkWire plans for 50,000 pods with a strategy in this process and with the same in
// a process of its own, one after the other in each round, and reports how many times as
// long the second takes: all of the plan (x-plan), and what the strategy's part comes to (ms).
// The catalogue crosses before the clock starts: it is sent once.
func BenchmarkWire(b *testing.B) {
	for name, behaviour := range map[string][]string{"price": {"builtin", "cost-optimal"}, "plan": {"plans", "well"}} {
		b.Run(name, func(b *testing.B) {
			w := crowd()
			outside := testHost(b, bound(fakeSpec(b, "outside", behaviour...)))
			settle(b, outside)
			inside := testHost(b, Config{InstanceSelection: "cost-optimal"})
			if name == "plan" {
				same := &planFake{fake: &fake{args: []string{"well"}}}
				if err := same.Configure(nil); err != nil {
					b.Fatal(err)
				}
				inside.current.slots["cost-optimal"].local = same
			}
			once := func(h *Host) (all, asked time.Duration) {
				began := time.Now()
				prices, err := h.Price(b.Context(), w)
				if err != nil {
					b.Fatal(err)
				}
				if name == "plan" {
					prices = h.Draft(b.Context(), w, prices)
					if len(prices.Drafts) == 0 {
						b.Fatal("nothing was drafted")
					}
				}
				asked = time.Since(began)
				if p := provision.Plan(w, prices); len(p.Launch) == 0 || p.Outcome != "ok" {
					b.Fatalf("%d nodes, outcome %s", len(p.Launch), p.Outcome)
				}
				return time.Since(began), asked
			}
			once(inside)
			once(outside)
			var in, out, inAsked, outAsked time.Duration
			for b.Loop() {
				all, asked := once(inside)
				in, inAsked = in+all, inAsked+asked
				all, asked = once(outside)
				out, outAsked = out+all, outAsked+asked
			}
			b.ReportMetric(float64(out)/float64(in), "x-plan")
			b.ReportMetric(float64(inAsked.Milliseconds())/float64(b.N), "ms-inside")
			b.ReportMetric(float64(outAsked.Milliseconds())/float64(b.N), "ms-outside")
			b.ReportMetric(0, "ns/op")
		})
	}
}
