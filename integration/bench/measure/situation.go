package measure

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/integration/bench/workload"
)

//go:embed testdata/*.yaml
var manifests embed.FS

// now is the instant of every question: the day after the nodes of clusters were made.
var now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// Question is one case to measure.
type Question struct {
	Workload  string // of package workload, or mixed; empty: a running cluster
	Pods      int    // of mixed
	Cluster   workload.Cluster
	Pool      string // manifest of testdata
	Shift     uint64
	Daemons   bool   // 200m and 512Mi of daemon pods on every node
	Runs      int    // how often it is solved
	AnySaving bool   // of a cluster: every command that saves is taken, as --floor 0 does; else the strategy's floor holds
	Repack    bool   // of a cluster: what all its pods would cost on new nodes
	Profile   string // file for a CPU profile of the solves, or empty
}

// Manifest is a file of manifests by its name without ending: a pool with its node
// class, or daemons.
func Manifest(name string) ([]byte, error) { return manifests.ReadFile("testdata/" + name + ".yaml") }

// Write puts the manifests of a question into a folder: one for the pool, one for
// daemon pods, and objects.json with the pods or the cluster.
func (q *Question) Write(dir string) error {
	names := []string{q.Pool}
	if q.Daemons {
		names = append(names, "daemons")
	}
	for _, n := range names {
		data, err := Manifest(n)
		if err != nil {
			return fmt.Errorf("pool %s: %w", n, err)
		}
		if err := os.WriteFile(filepath.Join(dir, n+".yaml"), data, 0o600); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := q.draw(&b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "objects.json"), b.Bytes(), 0o600)
}

func (q *Question) draw(w io.Writer) error {
	switch q.Workload {
	case "":
		r, err := q.Cluster.Draw(catalogue.Embedded())
		if err != nil {
			return err
		}
		return r.Write(w)
	case "mixed":
		return workload.WritePods(w, workload.Mixed(q.Pods, 4+q.Shift))
	}
	pods, err := workload.Pods(q.Workload, q.Shift)
	if err != nil {
		return err
	}
	return workload.WritePods(w, pods)
}

// Read loads the manifests of a folder, as the command does.
func Read(dir string) (*load.Input, error) { return load.Files([]string{dir}, nil, load.Options{}) }

// Settings is the configuration that holds where there is none.
func Settings() (*config.Loaded, error) {
	return config.Load(config.Input{Role: config.CLI, Env: map[string]string{}})
}

// World makes a world of an input, with all that can be bought and what the nodes
// cost that run.
func World(in *load.Input, cfg *config.Loaded) *model.World {
	w := in.World(now)
	w.Settings = cfg.PlanningSettings()
	w.Offerings = map[string][]*model.Offering{}
	overhead := cfg.Nodes.VMMemoryOverheadPercent
	opts := catalogue.Options{VMMemoryOverheadPercent: &overhead, ReservedENIs: int64(cfg.Nodes.ReservedENIs), Region: cfg.Region}
	prices := map[[3]string]float64{}
	for name, class := range w.NodeClasses {
		w.Offerings[name] = catalogue.Embedded().Offerings(class, catalogue.DefaultZones, opts)
		if len(w.Nodes) > 0 {
			for _, o := range w.Offerings[name] {
				prices[[3]string{o.Type.Name, o.Zone, o.CapacityType}] = o.USDPerHour
			}
		}
	}
	for _, n := range w.Nodes {
		n.USDPerHour, n.PriceKnown = prices[[3]string{n.InstanceType(), n.Zone(), n.CapacityType()}]
	}
	return w
}

// World writes the question's manifests into a folder and makes a world of them.
func (q *Question) World(dir string) (*model.World, error) {
	if err := q.Write(dir); err != nil {
		return nil, err
	}
	in, err := Read(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := Settings()
	if err != nil {
		return nil, err
	}
	return World(in, cfg), nil
}

// strategies are the built-in defaults, in this process.
func strategies(ctx context.Context, cfg *config.Loaded) (*strategy.Host, error) {
	host, err := strategy.New(strategy.Config{InstanceSelection: cfg.Bindings.InstanceSelection, Consolidation: cfg.Bindings.Consolidation}, strategy.Options{})
	if err != nil {
		return nil, err
	}
	if err := host.Settled(ctx); err != nil {
		host.Close()
		return nil, err
	}
	return host, nil
}
