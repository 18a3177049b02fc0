package week

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-project/weir/core/simulate"
)

//go:embed testdata/*.yaml
var manifests embed.FS

// Story is what happens to the cluster.
type Story struct {
	Nodes int           // about so many of 8 vCPUs are needed at the peak
	For   time.Duration // a week, usually
	Seed  uint64
	// Large allows machines of every size; without it none has more than 16 vCPUs, so that
	// about Nodes of them are there.
	Large bool
}

// Steps of the load: every app is scaled once in each.
const (
	every = 30 * time.Minute
	burst = 5 * time.Minute // all of them within so long from its start
)

// app is a Deployment.
type app struct {
	name        string
	milli, mib  int
	peak        int     // replicas
	swing       float64 // share of the peak that comes and goes with the day
	phase       float64 // hours
	night       bool    // a batch that runs at night
	protected   bool    // its pods ask not to be disrupted
	spread      bool    // over zones
	onDemand    bool
	budget      bool // has a PodDisruptionBudget
	second      bool // which of its two Deployments runs: a roll-out goes from one to the other
	want, asked int  // replicas of now, of both Deployments together
}

func (a *app) deployment(second bool) string {
	if second {
		return a.name + "-b"
	}
	return a.name + "-a"
}

// Drawn is a story as objects and steps.
type Drawn struct {
	Scenario *simulate.Scenario
	Files    []string // in the folder that was given
	// CoreHours and GiBHours are what the pods of all apps ask for while they are wanted.
	CoreHours, GiBHours float64
}

// Draw writes the objects of a story into a folder and its steps. The same story has the
// same bytes.
func (s *Story) Draw(dir string) (*Drawn, error) {
	rnd := rand.New(rand.NewPCG(s.Seed, 2026))
	apps := s.apps(rnd)
	d := &Drawn{Files: []string{"cluster.yaml", "daemons.json", "apps.json"}}
	if err := s.write(dir, apps); err != nil {
		return nil, err
	}
	sc := &simulate.Scenario{Name: "week", Seed: s.Seed, Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), End: s.For}
	step := func(at time.Duration, x simulate.Step) {
		if at < s.For {
			x.At = at
			sc.Steps = append(sc.Steps, x)
		}
	}
	step(0, simulate.Step{Apply: d.Files})
	scale := func(at time.Duration, deployment string, replicas int) {
		step(at, simulate.Step{Scale: &simulate.ScaleStep{Workload: "default/" + deployment, Replicas: &replicas}})
	}
	for begin := time.Duration(0); begin < s.For; begin += every {
		rolling := map[*app]bool{}
		if h := int(begin.Hours()); begin%(2*time.Hour) == 0 && h%24 >= 8 && h%24 < 18 { // people roll out by day
			rolling[apps[rnd.IntN(len(apps))]] = true
		}
		for _, a := range apps {
			a.want = a.at(begin, rnd)
			at := begin + time.Duration(rnd.IntN(int(burst/time.Second)))*time.Second
			if begin == 0 {
				at = time.Duration(1+rnd.IntN(60)) * time.Second
			}
			if rolling[a] && !a.night {
				for i := 1; i <= 4; i++ {
					scale(at, a.deployment(!a.second), a.want*i/4)
					at += 2 * time.Minute
					scale(at, a.deployment(a.second), a.want-a.want*i/4)
				}
				a.second = !a.second
			} else if a.want != a.asked {
				scale(at, a.deployment(a.second), a.want)
			}
			a.asked = a.want
			d.CoreHours += float64(a.want*a.milli) / 1000 * every.Hours()
			d.GiBHours += float64(a.want*a.mib) / 1024 * every.Hours()
		}
		if begin >= time.Hour && rnd.IntN(6) == 0 { // eight a day
			step(begin+time.Duration(rnd.IntN(1500))*time.Second, simulate.Step{Reclaim: &simulate.ReclaimStep{Pool: "week", Count: 1 + rnd.IntN(max(1, min(3, s.Nodes/40)))}})
		}
	}
	step(s.For*4/7+10*time.Hour+20*time.Minute, simulate.Step{Apply: []string{"image.yaml"}}) // a Friday morning
	if s.For < 48*time.Hour {
		step(s.For/2, simulate.Step{Apply: []string{"image.yaml"}})
	}
	slices.SortStableFunc(sc.Steps, func(a, b simulate.Step) int { return int(a.At - b.At) })
	d.Scenario = sc
	return d, nil
}

// apps draws apps until their peaks fill the nodes.
func (s *Story) apps(rnd *rand.Rand) []*app {
	var out []*app
	left := float64(s.Nodes) * 8 * 0.8
	for i := 0; left > 0; i++ {
		a := &app{name: fmt.Sprintf("app-%03d", i), milli: []int{100, 250, 250, 500, 500, 1000, 1000, 2000, 4000}[rnd.IntN(9)]}
		a.mib = a.milli * []int{1, 2, 2, 4, 4, 8}[rnd.IntN(6)] * 1024 / 1000
		var share float64
		if s.Nodes >= 20 {
			share = float64(s.Nodes) * 8 * 0.8 * (0.005 + 0.025*rnd.Float64())
		} else {
			share = float64(s.Nodes) * 8 * 0.8 * (0.05 + 0.1*rnd.Float64())
		}
		a.peak = max(1, int(math.Round(share*1000/float64(a.milli))))
		a.swing, a.phase = 0.3+0.5*rnd.Float64(), rnd.NormFloat64()*1.5
		a.night = rnd.IntN(8) == 0
		a.protected = a.night && rnd.IntN(2) == 0
		a.spread, a.onDemand, a.budget = rnd.IntN(4) == 0, rnd.IntN(10) == 0, rnd.IntN(2) == 0
		left -= float64(a.peak*a.milli) / 1000
		out = append(out, a)
	}
	return out
}

// at is how many replicas are wanted from an instant on.
func (a *app) at(t time.Duration, rnd *rand.Rand) int {
	hour := math.Mod(t.Hours()+a.phase+24, 24)
	noise := 1 + 0.05*rnd.NormFloat64()
	if a.night {
		if hour >= 1 && hour < 5 {
			return max(1, int(float64(a.peak)*noise))
		}
		return 0
	}
	wave := 0.5 - 0.5*math.Cos((hour-2)/24*2*math.Pi) // least at two, most at fourteen
	if day := int(t.Hours()/24) % 7; day >= 5 {
		wave *= 0.5
	}
	return max(1, int(math.Round(float64(a.peak)*(1-a.swing+a.swing*wave)*noise)))
}

type object = map[string]any

// write puts the objects into a folder.
func (s *Story) write(dir string, apps []*app) error {
	for _, name := range []string{"cluster.yaml", "image.yaml"} {
		data, err := manifests.ReadFile("testdata/" + name)
		if err != nil {
			return err
		}
		if s.Large {
			data = bytes.Replace(data, []byte(`        - {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["17"]}`+"\n"), nil, 1)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	containers := func(cpu, memory string) []object {
		return []object{{"name": "app", "image": "registry.k8s.io/pause:3.10", "resources": object{"requests": object{"cpu": cpu, "memory": memory}}}}
	}
	daemons := object{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"name": "agent", "namespace": "kube-system"},
		"spec": object{"selector": object{"matchLabels": object{"app": "agent"}}, "template": object{"metadata": object{"labels": object{"app": "agent"}},
			"spec": object{"tolerations": []object{{"operator": "Exists"}}, "containers": containers("200m", "512Mi")}}}}
	var items []object
	for _, a := range apps {
		spec := object{"containers": containers(fmt.Sprintf("%dm", a.milli), fmt.Sprintf("%dMi", a.mib)), "terminationGracePeriodSeconds": 30}
		labels, annotations := object{"app": a.name}, object{}
		if a.protected {
			annotations["karpenter.sh/do-not-disrupt"] = "true"
		}
		if a.spread {
			spec["topologySpreadConstraints"] = []object{{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": object{"matchLabels": labels}}}
		}
		if a.onDemand {
			spec["nodeSelector"] = object{"karpenter.sh/capacity-type": "on-demand"}
		}
		if a.budget {
			items = append(items, object{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": object{"name": a.name, "namespace": "default"},
				"spec": object{"maxUnavailable": "20%", "selector": object{"matchLabels": labels}}})
		}
		for _, second := range []bool{false, true} {
			of := object{"app": a.name, "release": a.deployment(second)}
			items = append(items, object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": a.deployment(second), "namespace": "default"},
				"spec": object{"replicas": 0, "selector": object{"matchLabels": of}, "template": object{"metadata": object{"labels": of, "annotations": annotations}, "spec": spec}}})
		}
	}
	for name, list := range map[string][]object{"daemons.json": {daemons}, "apps.json": items} {
		data, err := json.MarshalIndent(object{"apiVersion": "v1", "kind": "List", "items": list}, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
