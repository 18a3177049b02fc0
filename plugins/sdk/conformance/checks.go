package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-project/weir/plugins/sdk"
)

func checkManifest(ctx context.Context, s *session, f *finding) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	again, err := s.client.Describe(ctx)
	switch {
	case err != nil:
		f.errorf("Describe, the second time: %v", err)
	case !reflect.DeepEqual(s.manifest, again):
		f.errorf("two answers of Describe differ: %+v, then %+v", *s.manifest, *again)
	}
	if s.manifest.ConfigSchema == "" {
		return
	}
	if _, err := schemaOf(s.manifest); err != nil {
		f.errorf("%v", err)
	}
}

// schema is what the kit reads of a JSON Schema.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
}

func schemaOf(m *sdk.Manifest) (schema, error) {
	var s schema
	if m.ConfigSchema == "" {
		return s, nil
	}
	if !json.Valid([]byte(m.ConfigSchema)) {
		return s, fmt.Errorf("the configuration's schema is not JSON: %.200s", m.ConfigSchema)
	}
	if err := json.Unmarshal([]byte(m.ConfigSchema), &s); err != nil {
		return s, fmt.Errorf("the configuration's schema is no JSON Schema of an object: %v", err)
	}
	if s.Type != nil && s.Type != "object" {
		return s, fmt.Errorf("the configuration's schema is of type %v, want object", s.Type)
	}
	return s, nil
}

func checkHealth(ctx context.Context, s *session, f *finding) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := grpc_health_v1.NewHealthClient(s.live.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	switch {
	case err != nil:
		f.errorf("%v", err)
	case r.Status != grpc_health_v1.HealthCheckResponse_SERVING:
		f.errorf("it says %v", r.Status)
	}
}

func checkNoise(_ context.Context, s *session, f *finding) {
	for _, line := range s.live.(processInstance).Noise() {
		f.errorf("it printed %s", line)
	}
}

func checkDefaults(ctx context.Context, s *session, f *finding) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := s.client.Configure(ctx, json.RawMessage(`{}`), sdk.SamplePrice().Catalogue); err != nil {
		f.errorf("Configure with nothing: %v", err)
		return
	}
	for _, p := range s.sample() {
		if _, err := s.ask(ctx, &p); err != nil {
			f.errorf("%v", err)
		}
	}
}

func checkConfig(ctx context.Context, s *session, f *finding) {
	if len(s.opts.Config) == 0 {
		f.skipped = "no configuration was given"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := s.configure(ctx); err != nil {
		f.errorf("Configure: %v", err)
		// what follows is of use with the defaults, too
		s.opts.Config = nil
	}
}

// checkConfigErrors sends settings that nobody has, documents that are no objects, and
// for each property of the schema a value of another type and one out of its range.
func checkConfigErrors(ctx context.Context, s *session, f *finding) {
	before := s.answers(ctx, f)
	wrong := func(config, field, what string) {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		err := s.client.Configure(ctx, json.RawMessage(config), nil)
		var fault *sdk.ConfigError
		switch {
		case err == nil:
			f.errorf("%s was accepted: %s", what, config)
		case !errors.As(err, &fault):
			f.errorf("%s is answered by an error of the call, want an entry in ConfigureResponse.errors: %v", what, err)
		case fault.Message == "":
			f.errorf("%s is refused without a message", what)
		case field != "" && fault.Field != field && !strings.HasPrefix(fault.Field, field+".") && !strings.HasPrefix(fault.Field, field+"["):
			f.errorf("%s is refused, but the error names field %q, want %q", what, fault.Field, field)
		}
	}
	wrong(`{"no such setting": 1}`, "no such setting", "an unknown setting")
	wrong(`[]`, "", "a list")
	wrong(`{`, "", "half a document")
	schema, err := schemaOf(s.manifest)
	if err != nil {
		return // the manifest's check says it
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		try := func(value any, what string) {
			raw, err := json.Marshal(map[string]any{name: value})
			if err != nil {
				f.errorf("%s: %v", name, err)
				return
			}
			wrong(string(raw), name, what+" for "+name)
		}
		switch p.Type {
		case "number", "integer", "boolean", "array", "object":
			try("text", "a text")
		case "string":
			try(1, "a number")
		}
		if p.Minimum != nil {
			try(*p.Minimum-1, "a value below the schema's minimum")
		}
		if p.Maximum != nil {
			try(*p.Maximum+1, "a value above the schema's maximum")
		}
	}
	s.steady(ctx, f, before, "after wrong configurations")
}

func checkGolden(ctx context.Context, s *session, f *finding) {
	for _, p := range s.mine(append(Golden(), s.opts.Problems...)) {
		if _, err := s.ask(ctx, &p); err != nil {
			f.errorf("%s: %v", p.Name, err)
		}
	}
}

// undetermined skips a check for strategies that promise nothing.
func (s *session) undetermined(f *finding) bool {
	if !s.manifest.Deterministic {
		f.skipped = "the manifest does not say deterministic"
	}
	return !s.manifest.Deterministic
}

func checkDeterminism(ctx context.Context, s *session, f *finding) {
	if s.undetermined(f) {
		return
	}
	for _, p := range s.mine(append(Golden(), s.opts.Problems...)) {
		first, err := s.ask(ctx, &p)
		if err != nil {
			continue // the golden check says it
		}
		for range 3 {
			again, err := s.ask(ctx, &p)
			if err != nil {
				f.errorf("%s, asked again: %v", p.Name, err)
			} else if !reflect.DeepEqual(first, again) {
				f.errorf("%s: two answers to the same question differ: %s", p.Name, differ(first, again))
			}
		}
	}
}

func checkOrder(ctx context.Context, s *session, f *finding) {
	if s.undetermined(f) {
		return
	}
	for _, p := range s.mine(append(Golden(), s.opts.Problems...)) {
		turned := reversed(p)
		first, err1 := s.ask(ctx, &p)
		second, err2 := s.ask(ctx, &turned)
		if err1 != nil || err2 != nil {
			if err1 == nil {
				f.errorf("%s, pools in another order: %v", p.Name, err2)
			}
			continue
		}
		if a, ok := second.(*sdk.PriceAnswer); ok {
			slices.Reverse(a.Pools)
		}
		if !reflect.DeepEqual(first, second) {
			f.errorf("%s: with the pools in another order the answer is another: %s", p.Name, differ(first, second))
		}
	}
}

// reversed is the problem with its pools turned round.
func reversed(p Problem) Problem {
	if p.Price != nil {
		r := *p.Price
		r.Pools = slices.Clone(r.Pools)
		slices.Reverse(r.Pools)
		return Problem{Name: p.Name, Price: &r}
	}
	r := *p.Score
	r.Pools, r.Moves = slices.Clone(r.Pools), slices.Clone(r.Moves)
	slices.Reverse(r.Pools)
	for i := range r.Moves {
		r.Moves[i].Pool = len(r.Pools) - 1 - r.Moves[i].Pool
	}
	return Problem{Name: p.Name, Score: &r}
}

// concurrentCalls is how many calls are under way at once.
const concurrentCalls = 32

func checkConcurrent(ctx context.Context, s *session, f *finding) {
	var mu sync.Mutex
	for _, p := range s.sample() {
		first, err := s.ask(ctx, &p)
		if err != nil {
			f.errorf("%v", err)
			continue
		}
		var wg sync.WaitGroup
		for range concurrentCalls {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, callTime)
				defer cancel()
				a, err := s.call(ctx, &p)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					f.errorf("one of %d calls at once: %v", concurrentCalls, err)
				} else if s.manifest.Deterministic && !reflect.DeepEqual(first, a) {
					f.errorf("%d calls at once: two answers to the same question differ: %s", concurrentCalls, differ(first, a))
				}
			})
		}
		wg.Wait()
	}
}

// latencyCalls is how often the large problem is asked. The first call is not
// counted: it warms up what a strategy keeps between calls.
const latencyCalls = 5

func checkLatency(ctx context.Context, s *session, f *finding) {
	for _, q := range s.large() {
		l := Latency{Method: q.method, Nodes: q.nodes, Calls: latencyCalls}
		if _, err := s.answer(ctx, q); err != nil {
			f.errorf("%s: %v", q.name, err)
			continue
		}
		var took []time.Duration
		for range latencyCalls {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(ctx, callTime)
			_, err := q.ask(ctx)
			cancel()
			if err != nil {
				f.errorf("%s: %v", q.name, err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		l.MedianSeconds, l.MaxSeconds = took[len(took)/2].Seconds(), took[len(took)-1].Seconds()
		s.report.Latency = append(s.report.Latency, l)
		if longest := took[len(took)-1]; longest > s.opts.LatencyLimit {
			f.errorf("%s took %v, at most %v", l.Method, longest.Round(time.Millisecond), s.opts.LatencyLimit)
		}
	}
}
