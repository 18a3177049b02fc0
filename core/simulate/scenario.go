package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/cloud"
	ec2 "github.com/weir-project/weir/core/cloud/sim"
)

// APIVersion and Kind of a scenario document.
const (
	APIVersion = "simulate.weir.dev/v1alpha1"
	Kind       = "Scenario"
)

// Scenario says what happens to the simulated cluster and when.
type Scenario struct {
	Name    string
	Title   string
	Closing string // told after the report
	Seed    uint64
	Start   time.Time
	End     time.Duration // 0: when the caller says so
	Delays  Delays
	Steps   []Step // in the order of time, then of the file

	file string // for errors
	doc  int
}

// Delays say how long the parts of the simulated world take.
type Delays struct {
	API         time.Duration // a call of the API server, default 20 ms
	Cloud       time.Duration // a call of EC2, default 1 s
	Ledger      time.Duration // a call of the ledger, default 10 ms
	Plan        time.Duration // a planner, default 100 ms
	Watch       time.Duration // from a change to the controller's mirror, default 20 ms
	Event       time.Duration // from EC2 to the receiver of its events, default 1 s
	Run         time.Duration // instance: pending to running, default 20 s
	Join        time.Duration // running to Node object, default 15 s
	Ready       time.Duration // Node object to Ready, default 10 s
	Terminate   time.Duration // instance: shutting-down to terminated, default 30 s
	Listed      time.Duration // until EC2 lists a new instance, default 3 s
	Notice      time.Duration // spot warning to the end, default 2 min
	PodStart    time.Duration // bound to Ready, default 3 s
	PodStop     time.Duration // told to stop to gone, if its grace is not shorter, default 2 s
	Schedule    time.Duration // until kube-scheduler looks again, default 200 ms
	Controllers time.Duration // until workload controllers look again, default 100 ms
}

func (d Delays) withDefaults() Delays {
	for _, x := range d.fields() {
		if *x.value == 0 {
			*x.value = x.def
		}
	}
	return d
}

type delayField struct {
	name  string
	value *time.Duration
	def   time.Duration
}

func (d *Delays) fields() []delayField {
	ms := time.Millisecond
	return []delayField{{"api", &d.API, 20 * ms}, {"cloud", &d.Cloud, time.Second}, {"ledger", &d.Ledger, 10 * ms}, {"plan", &d.Plan, 100 * ms},
		{"watch", &d.Watch, 20 * ms}, {"event", &d.Event, time.Second}, {"run", &d.Run, 20 * time.Second}, {"join", &d.Join, 15 * time.Second},
		{"ready", &d.Ready, 10 * time.Second}, {"terminate", &d.Terminate, 30 * time.Second}, {"listed", &d.Listed, 3 * time.Second},
		{"notice", &d.Notice, 2 * time.Minute}, {"podStart", &d.PodStart, 3 * time.Second}, {"podStop", &d.PodStop, 2 * time.Second},
		{"schedule", &d.Schedule, 200 * ms}, {"controllers", &d.Controllers, 100 * ms}}
}

// Step is one thing that happens, or that must be true, at a time. Exactly one of
// the pointers is set, Apply aside.
type Step struct {
	At      time.Duration // since the start
	Title   string        // told before it happens
	Apply   []string      // files, relative to the scenario
	Scale   *ScaleStep
	Delete  *DeleteStep
	Reclaim *ReclaimStep // a spot interruption
	Fail    *ReclaimStep // machines end without a warning
	Advise  *ReclaimStep // rebalance recommendations
	Short   *ShortStep
	Fault   *FaultStep
	Kill    *KillStep
	Expect  *Expectation

	place string // for errors
}

// ScaleStep sets the replicas of a workload.
type ScaleStep struct {
	Workload string `json:"workload"` // namespace/name
	Replicas *int   `json:"replicas"`
}

// DeleteStep deletes an object.
type DeleteStep struct {
	Kind string `json:"kind"` // Pod, Node, NodeClaim or Workload
	Name string `json:"name"` // namespace/name of pods and workloads
}

// ReclaimStep picks machines: those of a pool that carry the most pods first.
type ReclaimStep struct {
	Pool  string `json:"nodePool"`
	Node  string `json:"node,omitempty"` // this one instead
	Count int    `json:"count,omitempty"`
}

// ShortStep sets how many machines EC2 has left of an offering.
type ShortStep struct {
	Offering string `json:"offering"` // type/zone/capacity type, each may be *
	Left     int    `json:"left"`     // negative: endless again
}

// FaultStep makes calls of EC2 fail.
type FaultStep struct {
	Op    string          `json:"op"`
	Count int             `json:"count"`
	Lose  bool            `json:"lose,omitempty"` // do it, lose the answer
	Kind  cloud.ErrorKind `json:"kind,omitempty"`
	Code  string          `json:"code,omitempty"`
}

// KillStep kills the controller at an effect and starts it again later.
type KillStep struct {
	Effect  string   `json:"effect"`            // such as SendLaunch; empty: any
	Nth     int      `json:"nth,omitempty"`     // of those from now on, default 1
	After   bool     `json:"after,omitempty"`   // after it was done and before its result was heard
	Restart duration `json:"restart,omitempty"` // default 10 s
}

// Expectation is what must be true at its time; zero fields ask for nothing.
type Expectation struct {
	Workload      string         `json:"workload,omitempty"`
	Running       *int           `json:"running,omitempty"`       // pods of Workload that are Ready
	Pending       *int           `json:"pending,omitempty"`       // pods without a node
	Nodes         map[string]int `json:"nodes,omitempty"`         // by pool: machines that are paid for
	MaxUSDPerHour *float64       `json:"maxUsdPerHour,omitempty"` // of all machines
	PodsLost      *int           `json:"podsLost,omitempty"`      // so far: pods that ran on a machine when it ended
	BrokenBudgets *int           `json:"brokenBudgets,omitempty"` // so far: evictions that broke a PodDisruptionBudget
}

type duration time.Duration

// UnmarshalJSON reads a Go duration.
func (d *duration) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("expected a duration such as 90s, got %s", raw)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("expected a duration such as 90s, got %q", s)
	}
	*d = duration(v)
	return nil
}

// FieldError is a mistake in a scenario file.
type FieldError struct {
	File     string
	Document int // from 1
	Field    string
	Msg      string
}

// Error is file, document, field and what is wrong.
func (e *FieldError) Error() string {
	s := e.File
	if e.Document > 0 {
		s += fmt.Sprintf(": document %d", e.Document)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Msg
}

var documentBreak = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?$`)

// ParseScenario reads a scenario document; file is its name for errors. Every
// error is a *FieldError.
func ParseScenario(r io.Reader, file string) (*Scenario, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxScenario+1))
	if err != nil {
		return nil, &FieldError{File: file, Msg: err.Error()}
	}
	if len(raw) > maxScenario {
		return nil, &FieldError{File: file, Msg: fmt.Sprintf("larger than %d bytes", maxScenario)}
	}
	var found *Scenario
	for i, doc := range documentBreak.Split(string(raw), -1) {
		js, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			return nil, &FieldError{file, i + 1, "", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")}
		}
		if s := strings.TrimSpace(string(js)); s == "null" || s == "" {
			continue
		}
		if found != nil {
			return nil, &FieldError{file, i + 1, "", "expected one Scenario, this is a second document"}
		}
		p := parser{file: file, doc: i + 1}
		if found = p.scenario(js); p.err != nil {
			return nil, p.err
		}
	}
	if found == nil {
		return nil, &FieldError{File: file, Msg: "no document, expected a Scenario"}
	}
	return found, nil
}

const maxScenario = 4 << 20

type parser struct {
	file string
	doc  int
	err  error
}

func (p *parser) bad(field, format string, a ...any) {
	if p.err == nil {
		p.err = &FieldError{p.file, p.doc, field, fmt.Sprintf(format, a...)}
	}
}

// decode reads an object strictly into v; the path of the field is prefixed.
func (p *parser) decode(field string, raw json.RawMessage, v any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return
	}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		p.bad(join(field, t.Field), "expected %s, got %s", t.Type, t.Value)
		return
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		p.bad(join(field, strings.Trim(name, `"`)), "unknown field")
		return
	}
	p.bad(field, "%s", strings.TrimPrefix(err.Error(), "json: "))
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "." + b
}

func (p *parser) scenario(raw json.RawMessage) *Scenario {
	var top struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	p.decode("", raw, &top)
	if top.APIVersion != APIVersion {
		p.bad("apiVersion", "expected %s, got %q", APIVersion, top.APIVersion)
	}
	if top.Kind != Kind {
		p.bad("kind", "expected %s, got %q", Kind, top.Kind)
	}
	var spec struct {
		Title   string              `json:"title"`
		Closing string              `json:"closing"`
		Seed    uint64              `json:"seed"`
		Start   *time.Time          `json:"start"`
		End     duration            `json:"end"`
		Delays  map[string]duration `json:"delays"`
		Steps   []json.RawMessage   `json:"steps"`
	}
	if len(top.Spec) == 0 {
		p.bad("spec", "must be set")
		return nil
	}
	p.decode("spec", top.Spec, &spec)
	s := &Scenario{Name: top.Metadata.Name, Title: spec.Title, Closing: spec.Closing, Seed: spec.Seed, End: time.Duration(spec.End),
		Start: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), file: p.file, doc: p.doc}
	if spec.Start != nil {
		s.Start = spec.Start.UTC()
	}
	fields := s.Delays.fields()
	for _, name := range sortedKeys(spec.Delays) {
		i := slices.IndexFunc(fields, func(f delayField) bool { return f.name == name })
		if i < 0 {
			p.bad("spec.delays."+name, "unknown field")
			continue
		}
		*fields[i].value = max(time.Duration(spec.Delays[name]), time.Nanosecond) // 0 as written means at once, not the default
	}
	for i, raw := range spec.Steps {
		s.Steps = append(s.Steps, p.step(fmt.Sprintf("spec.steps[%d]", i), raw))
	}
	if err := s.within(s.End); err != nil {
		p.bad(err.Field, "%s", err.Msg)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// within is what is wrong with the first step after an end, which would not happen; nil
// if there is none. 0 is no end.
func (s *Scenario) within(end time.Duration) *FieldError {
	i := slices.IndexFunc(s.Steps, func(x Step) bool { return x.At > end })
	if end == 0 || i < 0 {
		return nil
	}
	return &FieldError{s.file, s.doc, s.Steps[i].place + ".at", fmt.Sprintf("%s is after the end of the run, %s: it would not happen", s.Steps[i].At, end)}
}

func (p *parser) step(field string, raw json.RawMessage) Step {
	var x struct {
		At     *duration    `json:"at"`
		Title  string       `json:"title"`
		Apply  []string     `json:"apply"`
		Scale  *ScaleStep   `json:"scale"`
		Delete *DeleteStep  `json:"delete"`
		Reclm  *ReclaimStep `json:"reclaim"`
		Fail   *ReclaimStep `json:"fail"`
		Advise *ReclaimStep `json:"rebalance"`
		Short  *ShortStep   `json:"capacity"`
		Fault  *FaultStep   `json:"fault"`
		Kill   *KillStep    `json:"kill"`
		Expect *Expectation `json:"expect"`
	}
	p.decode(field, raw, &x)
	if x.At == nil {
		p.bad(field+".at", "must be set: time since the start, such as 5m")
		return Step{}
	}
	set := 0
	for _, is := range []bool{len(x.Apply) > 0, x.Scale != nil, x.Delete != nil, x.Reclm != nil, x.Fail != nil, x.Advise != nil,
		x.Short != nil, x.Fault != nil, x.Kill != nil, x.Expect != nil} {
		if is {
			set++
		}
	}
	if set > 1 || set == 0 && x.Title == "" {
		p.bad(field, "expected exactly one of apply, scale, delete, reclaim, fail, rebalance, capacity, fault, kill and expect, got %d", set)
	}
	p.checkStep(field, x.Scale, x.Delete, x.Fault, x.Short)
	for _, r := range []struct {
		name string
		step *ReclaimStep
	}{{"reclaim", x.Reclm}, {"fail", x.Fail}, {"rebalance", x.Advise}} {
		if r.step != nil && (r.step.Pool == "") == (r.step.Node == "") {
			p.bad(field+"."+r.name, "expected exactly one of nodePool and node")
		}
	}
	return Step{At: time.Duration(*x.At), Title: x.Title, Apply: x.Apply, Scale: x.Scale, Delete: x.Delete, Reclaim: x.Reclm, Fail: x.Fail,
		Advise: x.Advise, Short: x.Short, Fault: x.Fault, Kill: x.Kill, Expect: x.Expect, place: field}
}

func (p *parser) checkStep(field string, scale *ScaleStep, del *DeleteStep, fault *FaultStep, short *ShortStep) {
	if scale != nil {
		if !strings.Contains(scale.Workload, "/") {
			p.bad(field+".scale.workload", "expected namespace/name, got %q", scale.Workload)
		}
		if scale.Replicas == nil || *scale.Replicas < 0 {
			p.bad(field+".scale.replicas", "expected a number of at least 0")
		}
	}
	if del != nil && !slices.Contains([]string{"Pod", "Node", "NodeClaim", "Workload"}, del.Kind) {
		p.bad(field+".delete.kind", "expected one of Pod, Node, NodeClaim and Workload, got %q", del.Kind)
	}
	if fault != nil {
		ops := []string{ec2.OpLaunch, ec2.OpTerminate, ec2.OpDescribe, ec2.OpList, ec2.OpOfferings}
		if !slices.Contains(ops, fault.Op) {
			p.bad(field+".fault.op", "expected one of %s, got %q", strings.Join(ops, ", "), fault.Op)
		}
		if fault.Count < 1 {
			p.bad(field+".fault.count", "expected a number of at least 1, got %d", fault.Count)
		}
		if fault.Lose == (fault.Kind != "") {
			p.bad(field+".fault", "expected exactly one of lose and kind")
		}
	}
	if short != nil && strings.Count(short.Offering, "/") != 2 {
		p.bad(field+".capacity.offering", "expected type/zone/capacity-type, got %q", short.Offering)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
