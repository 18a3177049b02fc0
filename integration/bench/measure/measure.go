package measure

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/disrupt"
	"github.com/weir-project/weir/core/headroom"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/provision"
)

// Answer is what was measured of a case.
type Answer struct {
	Pods, Unplaced int
	Nodes          int // bought, or left in the end
	USD, Bound     float64
	Load           float64   // seconds, reading and decoding
	Solve          []float64 // seconds, from decoded objects to the plan, one for each run
	CPU            []float64 // seconds of processor time likewise, garbage collection included; 0 where it cannot be known
	Allocs, Bytes  uint64    // of one solve
	PeakHeap       uint64    // bytes, loading and the first solve
	Problems       []string  // of the plan; none where all is well

	// Of clusters.
	NodesBefore int
	USDBefore   float64
	Commands    int
	Waves       int
}

// Seconds is the median of the runs.
func (a *Answer) Seconds() float64 { return median(a.Solve) }

// CPUSeconds is the median of the runs.
func (a *Answer) CPUSeconds() float64 { return median(a.CPU) }

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

// Ratio is the price in relation to the bound, 0 where there is none.
func (a *Answer) Ratio() float64 {
	if a.Bound == 0 {
		return 0
	}
	return a.USD / a.Bound
}

// Run answers a question in this process.
func Run(ctx context.Context, q *Question) (*Answer, error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := q.Write(dir); err != nil {
		return nil, err
	}
	cfg, err := Settings()
	if err != nil {
		return nil, err
	}
	runtime.GC() // what drawing left behind is not the planner's
	heap := WatchHeap()
	began := time.Now()
	catalogue.Embedded() // is decoded once; the command does that before it reads
	in, err := Read(dir)
	if err != nil {
		return nil, err
	}
	headroom.Make() // as the command does
	a := &Answer{Load: time.Since(began).Seconds()}
	solve := a.provision
	if q.Workload == "" && !q.Repack {
		solve = func(ctx context.Context, in *load.Input, cfg *config.Loaded) error {
			return a.consolidate(ctx, in, cfg, q)
		}
	}
	if q.Repack {
		unbind(in)
	}
	if q.Profile != "" {
		stop, err := profile(q.Profile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	for i := range max(q.Runs, 1) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began, cpu := time.Now(), CPUSeconds()
		if err := solve(ctx, in, cfg); err != nil {
			return nil, err
		}
		a.Solve, a.CPU = append(a.Solve, time.Since(began).Seconds()), append(a.CPU, CPUSeconds()-cpu)
		runtime.ReadMemStats(&after)
		a.Allocs, a.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if i == 0 {
			a.PeakHeap = heap.Close()
		}
		runtime.GC()
	}
	return a, nil
}

// profile writes a CPU profile until the answered function is called.
func profile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// unbind makes all pods of a cluster wait and takes its nodes away.
func unbind(in *load.Input) {
	for _, n := range in.Nodes {
		for _, p := range n.Pods {
			q := *p
			q.NodeName = ""
			in.Pods = append(in.Pods, &q)
		}
	}
	in.Nodes = nil
}

func (a *Answer) provision(ctx context.Context, in *load.Input, cfg *config.Loaded) error {
	w := World(in, cfg)
	host, err := strategies(ctx, cfg)
	if err != nil {
		return err
	}
	defer host.Close()
	prices, err := host.Price(ctx, w)
	if err != nil {
		return err
	}
	plan := provision.Plan(w, prices)
	a.Pods, a.Unplaced, a.Nodes, a.Bound, a.USD = len(w.Pods), len(plan.Unplaced), len(plan.Launch), plan.LowerBoundUSDPerHour, 0
	for _, n := range plan.Launch {
		a.USD += n.Offering.USDPerHour
	}
	a.Problems = answered(prices)
	if len(plan.Unplaced) > 0 {
		v := plan.Unplaced[0]
		a.Problems = append(a.Problems, fmt.Sprintf("%d pods without a place, such as %s: %s", len(plan.Unplaced), v.Pod.ID(), v.Reasons[0].Message))
	}
	return nil
}

// answered says where a strategy did not answer for itself.
func answered(p *model.Prices) []string {
	var out []string
	for pool, x := range p.ByPool {
		if x.Outcome != "" && x.Outcome != "ok" {
			out = append(out, fmt.Sprintf("pool %s: strategy answered %s", pool, x.Outcome))
		}
	}
	return out
}

func (a *Answer) consolidate(ctx context.Context, in *load.Input, cfg *config.Loaded, q *Question) error {
	w := World(in, cfg)
	host, err := strategies(ctx, cfg)
	if err != nil {
		return err
	}
	defer host.Close()
	var failed error
	plan := disrupt.Plan(w, nil, func(moves []*model.Command) []model.MoveScore {
		scores, err := host.Score(ctx, w, moves)
		if err != nil {
			failed = err
		}
		for i := range scores {
			scores[i].Accept = scores[i].Accept || q.AnySaving
		}
		return scores
	}, disrupt.Options{Waves: true, Bound: true})
	if failed != nil {
		return failed
	}
	a.Pods, a.NodesBefore, a.USDBefore = 0, len(w.Nodes), 0
	for _, n := range w.Nodes {
		a.Pods += len(n.Pods)
		a.USDBefore += n.USDPerHour
	}
	a.Nodes, a.USD, a.Commands, a.Waves, a.Bound = a.NodesBefore, a.USDBefore, len(plan.Commands), 0, plan.LowerBoundUSDPerHour
	for _, c := range plan.Commands {
		a.Nodes += len(c.Launch) - len(c.Remove)
		a.USD += c.After - c.Before
		a.Waves = max(a.Waves, c.Wave)
	}
	return nil
}

// HeapWatch keeps the highest heap in use while it runs.
type HeapWatch struct {
	stop chan struct{}
	wait sync.WaitGroup
	peak uint64
}

// WatchHeap samples every two milliseconds until Close is called.
func WatchHeap() *HeapWatch {
	h := &HeapWatch{stop: make(chan struct{})}
	h.wait.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		look := func() {
			metrics.Read(sample)
			if sample[0].Value.Kind() == metrics.KindUint64 {
				h.peak = max(h.peak, sample[0].Value.Uint64())
			}
		}
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-h.stop:
				look()
				return
			case <-tick.C:
			}
		}
	})
	return h
}

// Close ends the sampling and answers the peak in bytes.
func (h *HeapWatch) Close() uint64 {
	close(h.stop)
	h.wait.Wait()
	return h.peak
}
