package week

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/simulate"
	"github.com/weir-project/weir/core/strategy"
)

// Player is who scales the cluster.
type Player struct {
	Name       string
	Strategy   string // instance selection
	Planner    func() execute.Planner
	SpotToSpot bool
	Circles    bool    // moves in circles are stopped
	Floor      float64 // of the consolidation strategy; 0 = its default
}

// Weir is the default.
func Weir(spotToSpot bool) Player {
	return Player{Name: "Weir", Strategy: "cost-optimal", SpotToSpot: spotToSpot, Circles: true,
		Planner: func() execute.Planner { return control.Remember(control.Planners{}) }}
}

// Peer buys and gives back by Karpenter's rules.
func Peer(spotToSpot bool) Player {
	return Player{Name: "first-fit, Karpenter's rules", Strategy: "first-fit", SpotToSpot: spotToSpot,
		Planner: func() execute.Planner { return control.Remember(Rules{}) }}
}

// interval is the time between two passes over the cluster. It is longer than the default of
// both (10 s): it changes little but the time that a run takes.
const interval = 30 * time.Second

// Families are what can be bought: three makes and two generations of each category.
var Families = []string{"c6a", "c6i", "c7g", "c7i", "m5", "m6a", "m6i", "m7g", "r6a", "r6i", "r7g"}

func sells(class *model.NodeClass) []*model.Offering {
	return slices.DeleteFunc(catalogue.Embedded().Offerings(class, catalogue.DefaultZones, catalogue.Options{}), func(o *model.Offering) bool {
		return !slices.Contains(Families, o.Type.Labels[model.AWSLabelDomain+"/instance-family"])
	})
}

// Outcome is what a run came to.
type Outcome struct {
	Player string
	simulate.Totals
	MeanNodes float64
	// CPU and Memory are what pods asked for, as a share of what was paid for.
	CPU, Memory float64
	Commands    map[string]int // nodes that went, by reason; Underutilized with a new node as replaced, else deleted
	Moved       map[string]int // pods of these nodes
	Pending     int            // pods without a node at the end
	Took        time.Duration
	Report      *simulate.Report
}

// Run plays a story.
func Run(ctx context.Context, s Story, p Player) (*Outcome, error) {
	dir, err := os.MkdirTemp("", "week")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := s.Draw(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(config.Input{Role: config.CLI, Env: map[string]string{}})
	if err != nil {
		return nil, err
	}
	strategies := strategy.Config{InstanceSelection: p.Strategy}
	if p.Floor > 0 {
		strategies.Consolidation = "savings"
		strategies.Strategies = []strategy.Spec{{Name: "savings", Config: fmt.Appendf(nil, `{"floor": %g}`, p.Floor)}}
	}
	host, err := strategy.New(strategies, strategy.Options{CallTimeout: time.Hour})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	counted := &counting{Planner: p.Planner(), commands: map[string]int{}, moved: map[string]int{}}
	settings := control.Settings{Planning: cfg.PlanningSettings(), DisruptEvery: interval}
	settings.Planning.SpotToSpot = p.SpotToSpot
	if p.Circles {
		settings.MaxMovesPerHour = cfg.Disruption.MaxMovesPerHour
	}
	begun := time.Now()
	r, err := simulate.Run(ctx, &simulate.Input{}, d.Scenario, simulate.Options{For: s.For, Catalogue: sells, Strategy: host, Planner: counted, Settings: settings,
		Load: func(files []string) (*simulate.Input, error) {
			full := make([]string, len(files))
			for i, f := range files {
				full[i] = filepath.Join(dir, f)
			}
			in, err := load.Files(full, nil, load.Options{})
			if err != nil {
				return nil, err
			}
			for _, c := range in.NodeClasses {
				c.Settled = true // as the controller that keeps its status would say
			}
			return simulate.FromFiles(in), nil
		}})
	if err != nil {
		return nil, err
	}
	o := &Outcome{Player: p.Name, Totals: r.Totals, MeanNodes: r.Totals.NodeHours / s.For.Hours(), Commands: counted.commands, Moved: counted.moved, Pending: r.Final.Pending, Took: time.Since(begun), Report: r}
	return o, o.used(d)
}

// used weighs what was asked for against what was paid for.
func (o *Outcome) used(d *Drawn) error {
	cores, gib := 0.0, 0.0
	types := map[string]*model.InstanceType{}
	for _, x := range sells(&model.NodeClass{Name: "any", Family: "AL2023"}) {
		types[x.Type.Name] = x.Type
	}
	for _, b := range o.Report.Bill {
		t := types[b.InstanceType]
		if t == nil {
			return fmt.Errorf("instance %s is of type %s, which is not sold", b.InstanceID, b.InstanceType)
		}
		cores += float64(t.Capacity.Get("cpu")) / 1000 * b.Hours
		gib += float64(t.Capacity.Get("memory")) / (1 << 30) * b.Hours
	}
	o.CPU, o.Memory = d.CoreHours/cores, d.GiBHours/gib
	return nil
}

// counting counts the commands that a planner found a second time, when they are carried out.
type counting struct {
	execute.Planner
	commands, moved map[string]int
	last            map[string]bool
}

func (c *counting) Disrupt(w *model.World, prices *model.Prices, score execute.Scorer, o execute.DisruptOptions) (*model.Plan, error) {
	plan, err := c.Planner.Disrupt(w, prices, score, o)
	if err != nil {
		return nil, err
	}
	now := map[string]bool{}
	for _, cmd := range plan.Commands {
		for _, n := range cmd.Remove {
			now[n.ID()] = true
		}
		if cmd.Wave <= 1 && c.last[cmd.Remove[0].ID()] {
			kind := string(cmd.Reason)
			if cmd.Reason == model.Underutilized {
				kind = "deleted"
				if len(cmd.Launch) > 0 {
					kind = "replaced"
				}
			}
			c.commands[kind] += len(cmd.Remove)
			c.moved[kind] += cmd.PodsEvicted
		}
	}
	c.last = now
	return plan, nil
}
