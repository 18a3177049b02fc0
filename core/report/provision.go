package report

import (
	"sort"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
)

// maxAlternatives is how many alternatives a launch can name.
const maxAlternatives = 60

// Timings say how long an answer took. PeakHeapBytes is the highest heap in use.
type Timings struct {
	LoadSeconds   Number `json:"loadSeconds"`
	SolveSeconds  Number `json:"solveSeconds"`
	PeakHeapBytes uint64 `json:"peakHeapBytes"`
}

// Offer is an alternative to what a node is planned as.
type Offer struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	USDPerHour   USD    `json:"usdPerHour"`
}

// Taint is a taint of a new node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// NewNode is a node to be bought.
type NewNode struct {
	Name            string            `json:"name"`
	NodePool        string            `json:"nodePool"`
	InstanceType    string            `json:"instanceType"`
	Zone            string            `json:"zone"`
	CapacityType    string            `json:"capacityType"`
	USDPerHour      USD               `json:"usdPerHour"`
	USDPerHourWorst USD               `json:"usdPerHourWorst"` // at the dearest alternative
	Alternatives    []Offer           `json:"alternatives"`
	Requirements    []require.Term    `json:"requirements"`
	Labels          map[string]string `json:"labels"`
	Taints          []Taint           `json:"taints"`
	Requests        map[string]string `json:"requests"`
	Allocatable     map[string]string `json:"allocatable"`
	Pods            []string          `json:"pods"`

	priceSource string
	cpu, memory share
}

// share is how much of an allocatable amount is asked for.
type share struct{ used, of int64 }

// ExistingNode is a node that is there, or on its way, and gets pods.
type ExistingNode struct {
	Name string   `json:"name"`
	Pods []string `json:"pods"`
}

// Reason is why a pod cannot run on a new node of one pool.
type Reason struct {
	NodePool  string `json:"nodePool"`
	Filter    string `json:"filter"`
	TypesLeft int    `json:"typesLeft"`
	Nearest   string `json:"nearest"`
	Message   string `json:"message"`
	// TypesAfter is how many instance types each filter left, in the order in which they
	// were tried; the one that left none is the last. Absent where types play no part.
	TypesAfter []TypesAfter `json:"typesAfter,omitempty"`
}

// TypesAfter is how many instance types were left after one filter.
type TypesAfter struct {
	Filter string `json:"filter"`
	Types  int    `json:"types"`
}

// Unschedulable is a pod without a place.
type Unschedulable struct {
	Pod     string   `json:"pod"`
	Reasons []Reason `json:"reasons"`
}

// ProvisionTotals sum a provision plan up.
type ProvisionTotals struct {
	Pods                 int `json:"pods"` // that waited
	NewNodes             int `json:"newNodes"`
	USDPerHour           USD `json:"usdPerHour"`
	USDPerHourWorst      USD `json:"usdPerHourWorst"`
	LowerBoundUSDPerHour USD `json:"lowerBoundUsdPerHour"`
}

// ProvisionPlan is the answer of simulate provision.
type ProvisionPlan struct {
	Kind          string          `json:"kind"`
	Strategy      string          `json:"strategy"`
	NewNodes      []NewNode       `json:"newNodes"`
	ExistingNodes []ExistingNode  `json:"existingNodes"`
	Unschedulable []Unschedulable `json:"unschedulable"`
	Totals        ProvisionTotals `json:"totals"`
	Timings       Timings         `json:"timings"`
	Warnings      []string        `json:"warnings"`
	// Stopped says that planning ended with its time budget; absent where that sufficed.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Stopped is the time budget that ended a plan, and how many pods (or, of a plan of
// disruption, nodes) were not looked at.
type Stopped struct {
	BudgetSeconds Number `json:"budgetSeconds"`
	NotLookedAt   int    `json:"notLookedAt"`
}

func stopped(e *model.BudgetEnd) *Stopped {
	if e == nil {
		return nil
	}
	return &Stopped{BudgetSeconds: Number(e.Limit.Seconds()), NotLookedAt: e.Unseen}
}

// Provision is the report of a provision plan made from the world. The warnings
// come before those of the plan.
func Provision(w *model.World, p *model.Plan, strategy string, t Timings, warnings []string) *ProvisionPlan {
	r := &ProvisionPlan{Kind: "ProvisionPlan", Strategy: strategy, NewNodes: []NewNode{}, ExistingNodes: []ExistingNode{},
		Unschedulable: []Unschedulable{}, Timings: t, Warnings: list(warnings, p.Warnings), Stopped: stopped(p.Budget)}
	usd, worst := 0.0, 0.0
	for _, n := range p.Launch {
		x := newNode(n)
		usd, worst = usd+n.Offering.USDPerHour, worst+worstOf(n)
		r.NewNodes = append(r.NewNodes, x)
	}
	for _, pl := range p.Placements {
		r.ExistingNodes = append(r.ExistingNodes, ExistingNode{Name: pl.Node.ID(), Pods: podNames(pl.Pods)})
	}
	for _, v := range p.Unplaced {
		r.Unschedulable = append(r.Unschedulable, unschedulable(v))
	}
	sort.SliceStable(r.ExistingNodes, func(i, j int) bool { return r.ExistingNodes[i].Name < r.ExistingNodes[j].Name })
	sort.SliceStable(r.Unschedulable, func(i, j int) bool { return r.Unschedulable[i].Pod < r.Unschedulable[j].Pod })
	r.Totals = ProvisionTotals{Pods: len(w.Pods), NewNodes: len(p.Launch), USDPerHour: USD(usd), USDPerHourWorst: USD(worst),
		LowerBoundUSDPerHour: below(p.LowerBoundUSDPerHour)}
	return r
}

func newNode(n *model.NewNode) NewNode {
	o := n.Offering
	x := NewNode{Name: n.Name, NodePool: n.Pool.Name, InstanceType: o.Type.Name, Zone: o.Zone, CapacityType: o.CapacityType,
		USDPerHour: USD(o.USDPerHour), USDPerHourWorst: USD(worstOf(n)), Alternatives: []Offer{}, Requirements: n.Requirements.Terms(),
		Labels: n.Labels, Taints: []Taint{}, Requests: n.Requests.Map(), Allocatable: o.Type.Allocatable.Map(), Pods: podNames(n.Pods),
		priceSource: o.PriceSource}
	for i, a := range n.Alternatives {
		if i == maxAlternatives {
			break
		}
		x.Alternatives = append(x.Alternatives, Offer{InstanceType: a.Type.Name, Zone: a.Zone, CapacityType: a.CapacityType, USDPerHour: USD(a.USDPerHour)})
	}
	if x.Requirements == nil {
		x.Requirements = []require.Term{}
	}
	if x.Labels == nil {
		x.Labels = map[string]string{}
	}
	for _, t := range n.Pool.Taints {
		x.Taints = append(x.Taints, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	all := n.Requests.Add(n.Daemons)
	x.cpu = share{all.Get("cpu"), o.Type.Allocatable.Get("cpu")}
	x.memory = share{all.Get("memory"), o.Type.Allocatable.Get("memory")}
	return x
}

// worstOf is the price of the dearest offering that the launch names.
func worstOf(n *model.NewNode) float64 {
	worst := n.Offering.USDPerHour
	for i, a := range n.Alternatives {
		if i == maxAlternatives {
			break
		}
		worst = max(worst, a.USDPerHour)
	}
	return worst
}

func unschedulable(v model.Verdict) Unschedulable {
	u := Unschedulable{Pod: v.Pod.ID(), Reasons: []Reason{}}
	for _, r := range v.Reasons {
		x := Reason{NodePool: r.Pool, Filter: string(r.Filter), TypesLeft: r.TypesLeft, Nearest: r.Nearest, Message: sentence(r)}
		for _, p := range r.Trail {
			x.TypesAfter = append(x.TypesAfter, TypesAfter{string(p.Filter), p.Types})
		}
		u.Reasons = append(u.Reasons, x)
	}
	return u
}

// sentence is a reason in words, where it does not bring its own.
func sentence(r model.Reason) string {
	if r.Message != "" {
		return r.Message
	}
	s := map[model.Filter]string{
		model.FilterPool:         "the NodePool cannot be used",
		model.FilterTaints:       "the pod does not tolerate a taint of the NodePool",
		model.FilterRequirements: "no instance type satisfies what the pod and the NodePool ask for together",
		model.FilterDaemonSets:   "daemon pods leave no room for the pod on any type",
		model.FilterResources:    "no instance type is large enough",
		model.FilterOfferings:    "nothing that would do is available in the zones and capacity types allowed",
		model.FilterLimits:       "the limits of the NodePool leave no room for another node",
		model.FilterTopology:     "the topology spread cannot be kept",
		model.FilterAffinity:     "the pod affinity cannot be kept",
		model.FilterVolumes:      "the volumes of the pod cannot be attached",
		model.FilterPorts:        "the host ports are taken",
		model.FilterStrategy:     "the strategy vetoes every offering that would do",
	}[r.Filter]
	if s == "" {
		s = "refused by " + string(r.Filter)
	}
	if r.Nearest != "" {
		s += "; nearest: " + r.Nearest
	}
	return s
}

func podNames(pods []*model.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.ID()
	}
	return out
}

// list joins lists of text into one that is never nil and has no doubles.
func list(parts ...[]string) []string {
	out, seen := []string{}, map[string]bool{}
	for _, p := range parts {
		for _, s := range p {
			if !seen[s] {
				out, seen[s] = append(out, s), true
			}
		}
	}
	return out
}
