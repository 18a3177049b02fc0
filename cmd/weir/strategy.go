package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
	"github.com/weir-project/weir/plugins/builtin"
)

// openStrategies makes a host for the strategies of the configuration, with nameOrPath,
// where given, in place of the binding of its kind and of the pools' annotations.
// Built-ins run in this process, a path as a process of its own. It answers the name
// to show.
func openStrategies(ctx context.Context, s *situation, kind, nameOrPath string) (*strategy.Host, string, error) {
	name := s.config.Bindings.InstanceSelection
	annotation := model.AnnotationInstanceSelection
	if kind == config.Consolidation {
		name, annotation = s.config.Bindings.Consolidation, model.AnnotationConsolidation
	}
	specs := map[string]strategy.Spec{}
	for n, c := range s.config.Strategies {
		spec, err := specOf(n, c)
		if err != nil {
			return nil, "", err
		}
		specs[n] = spec
	}
	if nameOrPath != "" {
		spec, err := chosen(s.config, kind, nameOrPath)
		if err != nil {
			return nil, "", err
		}
		name = spec.Name
		if _, configured := specs[name]; !configured || spec.Path != "" {
			specs[name] = spec
		}
		for _, p := range s.world.Pools {
			p.Annotations = maps.Clone(p.Annotations)
			delete(p.Annotations, annotation)
		}
	}
	cfg := strategy.Config{InstanceSelection: s.config.Bindings.InstanceSelection, Consolidation: s.config.Bindings.Consolidation}
	if kind == config.Consolidation {
		cfg.Consolidation = name
	} else {
		cfg.InstanceSelection = name
	}
	for _, n := range slices.Sorted(maps.Keys(specs)) {
		// consolidation asks for prices, too: limits that come with them hold for moves
		if specs[n].Path == "" && specs[n].Socket == "" && len(specs[n].Chain) == 0 || needed(s.world, n, name, annotation) ||
			kind == config.Consolidation && needed(s.world, n, cfg.InstanceSelection, model.AnnotationInstanceSelection) {
			cfg.Strategies = append(cfg.Strategies, specs[n])
		}
	}
	cfg.Strategies = withMembers(cfg.Strategies, specs)
	for _, bound := range []*string{&cfg.InstanceSelection, &cfg.Consolidation} {
		if !slices.ContainsFunc(cfg.Strategies, func(s strategy.Spec) bool { return s.Name == *bound }) && *bound != name && !builtin.Has(*bound) {
			*bound = "" // the other kind is not asked; its process need not start
		}
	}
	host, err := strategy.New(cfg, strategy.Options{})
	if err != nil {
		return nil, "", badInput{err}
	}
	if err := host.Settled(ctx); err != nil {
		host.Close()
		return nil, "", err
	}
	return host, name, nil
}

// withMembers adds the configured members of chains.
func withMembers(list []strategy.Spec, specs map[string]strategy.Spec) []strategy.Spec {
	for _, chain := range slices.Clone(list) {
		for _, m := range chain.Chain {
			spec, configured := specs[m.Strategy]
			if configured && !slices.ContainsFunc(list, func(s strategy.Spec) bool { return s.Name == m.Strategy }) {
				list = append(list, spec)
			}
		}
	}
	return list
}

// needed says whether a strategy is bound or some pool asks for it.
func needed(w *model.World, name, bound, annotation string) bool {
	return name == bound || slices.ContainsFunc(w.Pools, func(p *model.Pool) bool { return p.Annotations[annotation] == name })
}

func specOf(name string, c config.Strategy) (strategy.Spec, error) {
	// Whoever asks here runs it with rights that are not the scaler's: it need not be fenced in.
	s := strategy.Spec{Name: name, SHA256: c.SHA256, Env: c.Env, CallTimeout: c.CallTimeout.D(), AllowUnsandboxed: true}
	if c.Isolation == config.IsolationContainer {
		s.Socket = c.Socket
	}
	if c.Path != "" {
		path, err := filepath.Abs(c.Path)
		if err != nil {
			return s, bad("strategies.%s.path: %w", name, err)
		}
		s.Path = path
	}
	for _, m := range c.Chain {
		s.Chain = append(s.Chain, strategy.ChainMember{Strategy: m.Strategy, Weight: m.Weight, Required: m.Required})
	}
	if len(c.Config) > 0 {
		raw, err := json.Marshal(c.Config)
		if err != nil {
			return s, bad("strategies.%s.config: %w", name, err)
		}
		s.Config = raw
	}
	return s, nil
}

// chosen is the strategy of the flag.
func chosen(cfg *config.Loaded, kind, nameOrPath string) (strategy.Spec, error) {
	spec := strategy.Spell(nameOrPath)
	if spec.Path != "" {
		info, err := os.Stat(spec.Path)
		switch {
		case err != nil:
			return spec, bad("--strategy: %s: expected an executable file: no such file", nameOrPath)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return spec, bad("--strategy: %s: expected an executable file", nameOrPath)
		}
		return spec, nil
	}
	known := map[string]string{}
	for n, k := range config.Builtins() {
		known[n] = k
	}
	for n, c := range cfg.Strategies {
		known[n] = c.Kind
	}
	var fitting []string
	for n, k := range known {
		if k == kind {
			fitting = append(fitting, n)
		}
	}
	slices.Sort(fitting)
	have, ok := known[spec.Name]
	switch {
	case !ok:
		return spec, bad("--strategy: there is no strategy %q, expected %s or the path of an executable%s", spec.Name, strings.Join(fitting, ", "), didYouMean(spec.Name, fitting, ""))
	case have != kind:
		return spec, bad("--strategy: %q is of kind %s, expected one of kind %s: %s", spec.Name, have, kind, strings.Join(fitting, ", "))
	}
	return spec, nil
}

// unwell lists the strategies that did not answer for themselves.
func unwell(p *model.Prices) []string {
	var out []string
	for pool, x := range p.ByPool {
		if x.Outcome != "" && x.Outcome != string(strategy.OK) {
			out = append(out, fmt.Sprintf("NodePool %s: its strategy did not answer (%s); %s did", pool, x.Outcome, x.Strategy))
		}
	}
	slices.Sort(out)
	return out
}
