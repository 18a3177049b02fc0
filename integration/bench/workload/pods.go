package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Pod is a waiting pod of a workload.
type Pod struct {
	Name string
	App  string // label app; replicas of one app are alike
	Request
	ZoneSpread bool              // topology spread over zones, maxSkew 1, DoNotSchedule
	OnePerHost bool              // required anti-affinity to its own app by hostname
	Selector   map[string]string // nodeSelector
}

// Names are the workloads there are.
var Names = []string{"a", "b", "c", "d", "e"}

var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// Pods draws a workload. shift is added to its seed; 0 is the published draw.
func Pods(name string, shift uint64) ([]Pod, error) {
	var pods []Pod
	switch name {
	case "a":
		for range 10 {
			pods = append(pods, Pod{App: "a", Request: Request{2000, 4096}})
		}
	case "b":
		pods = mixed(&random{2 + shift}, 1000)
	case "c":
		pods = constrained(&random{3 + shift})
	case "d":
		pods = mixed(&random{4 + shift}, 10_000)
	case "e":
		r := &random{5 + shift}
		for d := range 200 {
			p := Pod{App: fmt.Sprintf("deploy-%03d", d), Request: r.request()}
			for range 250 {
				pods = append(pods, p)
			}
		}
	default:
		return nil, fmt.Errorf("there is no workload %q, expected one of %s", name, strings.Join(Names, ", "))
	}
	number(pods, name)
	return pods, nil
}

// Mixed draws n pods of mixed sizes without constraints, as workloads b and d are, to
// see how time grows with their number.
func Mixed(n int, seed uint64) []Pod {
	pods := mixed(&random{seed}, n)
	number(pods, "mixed")
	return pods
}

func number(pods []Pod, prefix string) {
	for i := range pods {
		pods[i].Name = fmt.Sprintf("%s-%05d", prefix, i)
	}
}

func mixed(r *random, n int) []Pod {
	pods := make([]Pod, n)
	for i := range pods {
		pods[i] = Pod{App: "mixed", Request: r.request()}
	}
	return pods
}

// constrained is workload c.
func constrained(r *random) []Pod {
	pods := apps(r, 1500, "spread", []int{2, 3, 5, 10, 20, 50}, func(p *Pod) { p.ZoneSpread = true })
	pods = append(pods, apps(r, 500, "anti", []int{2, 3, 5, 10}, func(p *Pod) { p.OnePerHost = true })...)
	pods = append(pods, apps(r, 500, "select", []int{1, 2, 5, 10, 20}, func(p *Pod) { p.Selector = selector(r) })...)
	pods = append(pods, mixed(r, 2500)...)
	for i := len(pods) - 1; i > 0; i-- {
		j := r.below(i + 1)
		pods[i], pods[j] = pods[j], pods[i]
	}
	return pods
}

// apps makes n pods in apps of so many replicas; the last app gets what is left. The
// order of draws is part of the format: replicas, request, then what the app asks for.
func apps(r *random, n int, prefix string, replicas []int, ask func(*Pod)) []Pod {
	var pods []Pod
	for i := 0; len(pods) < n; i++ {
		many := min(replicas[r.below(len(replicas))], n-len(pods))
		p := Pod{App: fmt.Sprintf("%s-%03d", prefix, i), Request: r.request()}
		ask(&p)
		for range many {
			pods = append(pods, p)
		}
	}
	return pods
}

func selector(r *random) map[string]string {
	switch r.below(3) {
	case 0:
		return map[string]string{"kubernetes.io/arch": []string{"amd64", "arm64"}[r.below(2)]}
	case 1:
		return map[string]string{"topology.kubernetes.io/zone": zones[r.below(3)]}
	}
	if r.float() < 0.7 {
		return map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	}
	return map[string]string{"karpenter.sh/capacity-type": "spot"}
}

// Fields of the JSON forms are in the order of their names, so that the bytes are what
// an encoder that sorts keys would write.

type podJSON struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   podMetaJSON `json:"metadata"`
	Spec       podSpecJSON `json:"spec"`
}

type podMetaJSON struct {
	Labels    map[string]string `json:"labels"`
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
}

type podSpecJSON struct {
	Affinity      *affinityJSON     `json:"affinity,omitempty"`
	Containers    []containerJSON   `json:"containers"`
	NodeSelector  map[string]string `json:"nodeSelector,omitempty"`
	SchedulerName string            `json:"schedulerName"`
	Spread        []spreadJSON      `json:"topologySpreadConstraints,omitempty"`
}

type containerJSON struct {
	Image     string        `json:"image"`
	Name      string        `json:"name"`
	Resources resourcesJSON `json:"resources"`
}

type resourcesJSON struct {
	Requests map[string]string `json:"requests"`
}

type labelSelectorJSON struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type spreadJSON struct {
	LabelSelector     labelSelectorJSON `json:"labelSelector"`
	MaxSkew           int               `json:"maxSkew"`
	TopologyKey       string            `json:"topologyKey"`
	WhenUnsatisfiable string            `json:"whenUnsatisfiable"`
}

type affinityJSON struct {
	PodAntiAffinity struct {
		Required []affinityTermJSON `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"podAntiAffinity"`
}

type affinityTermJSON struct {
	LabelSelector labelSelectorJSON `json:"labelSelector"`
	TopologyKey   string            `json:"topologyKey"`
}

func (r Request) container() []containerJSON {
	return []containerJSON{{Image: "registry.k8s.io/pause:3.10", Name: "app", Resources: resourcesJSON{Requests: map[string]string{
		"cpu": strconv.Itoa(r.CPU) + "m", "memory": strconv.Itoa(r.Memory) + "Mi"}}}}
}

func zoneSpread(selector labelSelectorJSON) []spreadJSON {
	return []spreadJSON{{LabelSelector: selector, MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "DoNotSchedule"}}
}

func onePerHost(selector labelSelectorJSON) *affinityJSON {
	a := &affinityJSON{}
	a.PodAntiAffinity.Required = []affinityTermJSON{{LabelSelector: selector, TopologyKey: "kubernetes.io/hostname"}}
	return a
}

// MarshalJSON writes the Pod as the API has it.
func (p Pod) MarshalJSON() ([]byte, error) {
	out := podJSON{APIVersion: "v1", Kind: "Pod",
		Metadata: podMetaJSON{Labels: map[string]string{"app": p.App}, Name: p.Name, Namespace: "default"},
		Spec:     podSpecJSON{Containers: p.container(), NodeSelector: p.Selector, SchedulerName: "default-scheduler"}}
	own := labelSelectorJSON{map[string]string{"app": p.App}}
	if p.ZoneSpread {
		out.Spec.Spread = zoneSpread(own)
	}
	if p.OnePerHost {
		out.Spec.Affinity = onePerHost(own)
	}
	return json.Marshal(out)
}

// WritePods writes a JSON array with one pod a line.
func WritePods(w io.Writer, pods []Pod) error { return writeLines(w, "[\n", ",\n", "\n]\n", pods) }

// writeLines writes values one a line. Errors of the writer come out at its end.
func writeLines[T any](w io.Writer, before, between, after string, values []T) error {
	b := bufio.NewWriter(w)
	b.WriteString(before)
	for i, v := range values {
		if i > 0 {
			b.WriteString(between)
		}
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		b.Write(line)
	}
	b.WriteString(after)
	return b.Flush()
}
