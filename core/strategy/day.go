package strategy

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/plugins/sdk"
)

// PodGroup is waiting pods of one kind, as a record has them: enough to plan for them
// again, without their names.
type PodGroup struct {
	Count    int              `json:"count"`
	Requests map[string]int64 `json:"requests"` // cpu in milli-CPU, memory and the like in bytes
	// Pools that the pods may be in: their taints and labels fit. Nil = in any.
	Pools []string `json:"pools,omitempty"`
	// Terms are what the pods ask of machines beside that: any one of these. Labels that no
	// machine carries by itself are left to Pools.
	Terms [][]require.Term `json:"terms,omitempty"`
	// Together says that they also ask something of each other, such as a spread, which is
	// not recorded.
	Together bool `json:"together,omitempty"`
}

// groupPods groups waiting pods by what they ask for, in the order in which they come.
func groupPods(pods []*model.Pod, pools []*model.Pool, c *sdk.Catalogue) []PodGroup {
	known := machineLabels(c)
	var out []PodGroup
	at := map[string]int{}
	for _, p := range pods {
		g := PodGroup{Count: 1, Requests: map[string]int64{}, Together: p.Topology != nil}
		p.Requests.Each(func(name string, value int64) {
			if value != 0 {
				g.Requests[name] = value
			}
		})
		for _, pool := range pools {
			if poolTakes(pool, p, known) {
				g.Pools = append(g.Pools, pool.Name)
			}
		}
		if len(g.Pools) == len(pools) {
			g.Pools = nil
		} else if g.Pools == nil {
			continue // no pool is for it
		}
		for _, set := range p.Terms {
			terms := []require.Term{}
			for _, t := range set.Terms() {
				if known[t.Key] {
					terms = append(terms, t)
				}
			}
			if len(terms) == 0 { // any machine will do
				g.Terms = nil
				break
			}
			g.Terms = append(g.Terms, terms)
		}
		key := fmt.Sprintf("%v %q %v %t", p.Requests, g.Pools, g.Terms, g.Together)
		if i, ok := at[key]; ok {
			out[i].Count++
			continue
		}
		at[key] = len(out)
		out = append(out, g)
	}
	return out
}

// machineLabels are the labels that machines carry by themselves.
func machineLabels(c *sdk.Catalogue) map[string]bool {
	known := map[string]bool{model.LabelZone: true, model.LabelCapacityType: true, model.LabelInstanceType: true}
	var last *sdk.InstanceType
	for i := range c.Offerings {
		if t := c.Offerings[i].Type; t != last {
			last = t
			for k := range t.Labels {
				known[k] = true
			}
		}
	}
	return known
}

// poolTakes says whether a pod tolerates a pool and finds the labels there that no
// machine carries by itself.
func poolTakes(pool *model.Pool, p *model.Pod, known map[string]bool) bool {
	if _, repelled := p.Repelled(pool.Taints); repelled {
		return false
	}
	for _, set := range p.Terms {
		fits := true
		for _, r := range set.All() {
			if known[r.Key] {
				continue
			}
			have, ok := pool.Requirements.Get(r.Key)
			fits = fits && (ok && r.Overlaps(have) || !ok && r.AllowsAbsent())
		}
		if fits {
			return true
		}
	}
	return false
}

// World is the problem of a recorded call for prices, to be planned for again: its pools,
// machines and prices, and the pods that waited. What nodes there were is not recorded, so
// that everything has to be bought; nor are limits of pools, and what pods ask of each other.
// together counts the pods of which that is so. An error if the call is of another kind, or
// recorded without its pods.
func (r *Recorded) World() (w *model.World, together int, err error) {
	req, ok := r.Input.(*sdk.PriceRequest)
	switch {
	case !ok:
		return nil, 0, fmt.Errorf("a %T is no problem to plan for", r.Input)
	case len(r.Call.Waiting) == 0:
		return nil, 0, fmt.Errorf("no pods waited, or they were not recorded")
	}
	w = &model.World{Now: req.Now, NodeClasses: map[string]*model.NodeClass{}, Offerings: map[string][]*model.Offering{}}
	w.Settings.ReservedCapacity = true
	types := map[*sdk.InstanceType]*model.InstanceType{}
	for i := range req.Pools {
		p := &req.Pools[i]
		// each pool has a class of its own, with exactly what it may buy
		w.NodeClasses[p.Name] = &model.NodeClass{Name: p.Name, RootVolumeUSD: p.VolumesUSDPerHour}
		w.Pools = append(w.Pools, &model.Pool{Name: p.Name, Annotations: p.Annotations, Weight: p.Weight, NodeClass: model.NodeClassRef{Name: p.Name},
			Requirements: require.NewSet(require.Must(model.LabelPool, require.In, p.Name)), ExpireAfter: model.Never, ConsolidateAfter: model.Never})
		for _, o := range p.Offerings {
			w.Offerings[p.Name] = append(w.Offerings[p.Name], recordedOffering(req, o, types))
		}
	}
	serial := 0
	for _, g := range r.Call.Waiting {
		if g.Pools != nil && !slices.ContainsFunc(g.Pools, func(name string) bool { return w.NodeClasses[name] != nil }) {
			continue // they are for pools that another strategy prices, or for none
		}
		terms, err := g.terms()
		if err != nil {
			return nil, 0, err
		}
		if g.Together {
			together += g.Count
		}
		var requests resource.Vector
		for _, name := range sortedNames(g.Requests) {
			requests = requests.With(name, g.Requests[name])
		}
		for range g.Count {
			serial++
			name := fmt.Sprintf("pod-%d", serial)
			w.Pods = append(w.Pods, &model.Pod{UID: name, Namespace: "recorded", Name: name, Requests: requests, Terms: terms})
		}
	}
	return w, together, nil
}

// maxGroup bounds the pods of a recorded group.
const maxGroup = 200_000

func (g *PodGroup) check() error {
	if g.Count < 1 || g.Count > maxGroup {
		return fmt.Errorf("%d pods in a group, want 1 to %d", g.Count, maxGroup)
	}
	for _, name := range sortedNames(g.Requests) {
		if g.Requests[name] < 0 {
			return fmt.Errorf("a request of %d %s", g.Requests[name], name)
		}
	}
	_, err := g.terms()
	return err
}

// terms are the requirements of the group's pods, never none.
func (g *PodGroup) terms() ([]require.Set, error) {
	var pools require.Set
	if g.Pools != nil {
		pools = require.NewSet(require.Must(model.LabelPool, require.In, g.Pools...))
	}
	var out []require.Set
	for _, terms := range g.Terms {
		set := pools
		for _, t := range terms {
			r, err := require.New(t.Key, t.Operator, t.Values...)
			if err != nil {
				return nil, fmt.Errorf("a requirement of waiting pods: %w", err)
			}
			set = set.With(r)
		}
		out = append(out, set)
	}
	if out == nil {
		out = []require.Set{pools}
	}
	return out, nil
}

func recordedOffering(req *sdk.PriceRequest, o int, types map[*sdk.InstanceType]*model.InstanceType) *model.Offering {
	from := &req.Catalogue.Offerings[o]
	t := types[from.Type]
	if t == nil {
		room := resource.New(from.Type.CPUMilli, from.Type.MemoryBytes, from.Type.Pods, math.MaxInt64/4)
		for _, name := range sortedNames(from.Type.Extended) {
			room = room.With(name, from.Type.Extended[name])
		}
		t = &model.InstanceType{Name: from.Type.Name, Labels: from.Type.Labels, Capacity: room, Allocatable: room}
		types[from.Type] = t
	}
	h := req.HealthOf(o)
	return &model.Offering{Type: t, Zone: from.Zone, CapacityType: from.CapacityType, ReservationID: from.ReservationID, USDPerHour: req.USDPerHour[o],
		PriceSource: "recorded", Available: h.Available, Unavailable: h.Unavailable, Count: h.ReservationLeft, Shortages: h.Shortages, Interruptions: h.Interruptions,
		LastShortage: h.LastShortage, LastInterruption: h.LastInterruption}
}

// waitingText says in short what waited, for the titles of problems.
func (r *Recorded) waitingText() string {
	sum := 0
	for _, g := range r.Call.Waiting {
		sum += g.Count
	}
	return fmt.Sprintf("%d pods", sum)
}

// Title names a recorded problem in one line.
func (r *Recorded) Title() string {
	file := r.File
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		file = file[i+1:]
	}
	return fmt.Sprintf("%s:%d, %s", file, r.Line, r.waitingText())
}

// SameProblem says whether two recorded calls for prices are one problem put again, as
// happens every few seconds while pods wait for their nodes: the same pods wait, and the
// requests are equal in all that a strategy sees (machines, prices, health, pools and what
// runs in them, commitments), but for the instant, which is in the same hour of the clock.
func (r *Recorded) SameProblem(o *Recorded) bool {
	a, okA := r.Input.(*sdk.PriceRequest)
	b, okB := o.Input.(*sdk.PriceRequest)
	if !okA || !okB || r.Call.Catalogue != o.Call.Catalogue || !a.Now.Truncate(time.Hour).Equal(b.Now.Truncate(time.Hour)) {
		return false
	}
	mine, other := *a, *b
	mine.Now, other.Now = time.Time{}, time.Time{}
	mine.Catalogue, other.Catalogue = nil, nil // the same by their hashes
	return reflect.DeepEqual(&mine, &other) && reflect.DeepEqual(r.Call.Waiting, o.Call.Waiting)
}
