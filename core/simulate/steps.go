package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ec2 "github.com/weir-project/weir/core/cloud/sim"
)

// step plays one step of the scenario.
func (s *sim) step(x *Step) {
	if x.Title != "" {
		s.note(happening{Happening: Happening{Kind: "step", Text: x.Title}})
	}
	var err error
	switch {
	case len(x.Apply) > 0:
		err = s.applyFiles(x.Apply)
	case x.Scale != nil:
		err = s.scale(x.Scale)
	case x.Delete != nil:
		err = s.delete(x.Delete)
	case x.Reclaim != nil:
		err = s.machines(x.Reclaim, "spot", s.cloud.Reclaim)
	case x.Fail != nil:
		err = s.machines(x.Fail, "", s.cloud.Fail)
	case x.Advise != nil:
		err = s.machines(x.Advise, "spot", s.cloud.Rebalance)
	case x.Short != nil:
		err = s.cloud.SetCapacity(x.Short.Offering, x.Short.Left)
	case x.Fault != nil && x.Fault.Lose:
		s.cloud.LoseNext(x.Fault.Op, x.Fault.Count)
	case x.Fault != nil:
		s.cloud.FailNext(x.Fault.Op, x.Fault.Count, x.Fault.Kind, cmp.Or(x.Fault.Code, "InternalError"), "made to fail")
	case x.Kill != nil:
		s.kills = append(s.kills, &pendingKill{*x.Kill, max(x.Kill.Nth, 1)})
	case x.Expect != nil:
		s.check(x)
	}
	if err != nil {
		s.fail("%s: %w", x.place, err)
	}
}

func (s *sim) applyFiles(files []string) error {
	if s.opts.Load == nil {
		return fmt.Errorf("apply: there is nothing to load files with")
	}
	in, err := s.opts.Load(files)
	if err != nil {
		return err
	}
	return s.apply(in)
}

func (s *sim) scale(x *ScaleStep) error {
	w, ok := s.workloads.get(x.Workload)
	if !ok {
		return fmt.Errorf("scale: workload %s: not found", x.Workload)
	}
	w.Replicas = *x.Replicas
	s.api.recount(w.Namespace)
	s.wakeWorkload(w.ID())
	return nil
}

func (s *sim) delete(x *DeleteStep) error {
	missing := fmt.Errorf("delete: %s %s: not found", x.Kind, x.Name)
	switch x.Kind {
	case "Pod":
		p, ok := s.api.pods.get(x.Name)
		if !ok {
			return missing
		}
		s.api.deletePod(p.ID(), p.GracePeriod)
	case "Node":
		n, ok := s.api.nodes.get(x.Name)
		if !ok {
			return missing
		}
		s.api.deleteNode(n)
	case "NodeClaim":
		if _, ok := s.api.claims.get(x.Name); !ok {
			return missing
		}
		return s.api.DeleteClaim(s.ctx, x.Name, "")
	case "Workload":
		w, ok := s.workloads.get(x.Name)
		if !ok {
			return missing
		}
		w.Replicas = 0
		s.reconcile(w)
		s.workloads.del(x.Name)
	}
	return nil
}

// machines picks running machines, those with the most pods first, and does something to them.
func (s *sim) machines(x *ReclaimStep, capacityType string, do func(id string) error) error {
	var list []ec2.Machine
	for _, m := range s.cloud.Machines() {
		if m.State != ec2.Running || capacityType != "" && m.CapacityType != capacityType {
			continue
		}
		if x.Node != "" && m.NodeName == x.Node || x.Node == "" && m.Tags["karpenter.sh/nodepool"] == x.Pool {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b ec2.Machine) int {
		return cmp.Compare(s.workloadPods(b.NodeName), s.workloadPods(a.NodeName))
	})
	n := max(x.Count, 1)
	if len(list) < n {
		return fmt.Errorf("nodePool %q, node %q: expected %d running machines, there are %d", x.Pool, x.Node, n, len(list))
	}
	for _, m := range list[:n] {
		if err := do(m.ID); err != nil {
			return err
		}
	}
	return nil
}

// check compares an expectation with the cluster.
func (s *sim) check(x *Step) {
	e := x.Expect
	var wrong []string
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	running, pending := 0, 0
	for _, p := range s.api.pods.all() {
		if p.Daemon() || e.Workload != "" && workloadOf(p) != e.Workload || !p.Active() {
			continue
		}
		if p.NodeName == "" {
			pending++
		}
		if p.Ready {
			running++
		}
	}
	if e.Running != nil && running != *e.Running {
		bad("%d pods running, expected %d", running, *e.Running)
	}
	if e.Pending != nil && pending != *e.Pending {
		bad("%d pods pending, expected %d", pending, *e.Pending)
	}
	perPool := map[string]int{}
	for _, m := range s.cloud.Machines() {
		if !m.Gone() {
			perPool[m.Tags["karpenter.sh/nodepool"]]++
		}
	}
	for _, pool := range sortedKeys(e.Nodes) {
		if perPool[pool] != e.Nodes[pool] {
			bad("pool %s has %d machines, expected %d", pool, perPool[pool], e.Nodes[pool])
		}
	}
	if usd := s.usdPerHour(); e.MaxUSDPerHour != nil && usd > *e.MaxUSDPerHour {
		bad("machines cost %.4f USD/h, expected at most %.4f", usd, *e.MaxUSDPerHour)
	}
	if e.PodsLost != nil && s.totals.PodsLost > *e.PodsLost {
		bad("%d pods lost, expected at most %d", s.totals.PodsLost, *e.PodsLost)
	}
	if e.BrokenBudgets != nil && s.totals.BrokenBudgets > *e.BrokenBudgets {
		bad("budgets were broken %d times, expected at most %d", s.totals.BrokenBudgets, *e.BrokenBudgets)
	}
	c := Check{At: s.now, Title: cmp.Or(x.Title, x.place), OK: len(wrong) == 0, Text: strings.Join(wrong, "; ")}
	s.report.Checks = append(s.report.Checks, c)
	if !c.OK {
		s.note(happening{Happening: Happening{Kind: "expect", Warning: true, Text: "NOT AS EXPECTED: " + c.Text}})
		return
	}
	seen := fmt.Sprintf("%s running, %d pending", plural(running, "pod"), pending)
	if e.Workload != "" {
		seen += " of " + e.Workload
	}
	for _, pool := range sortedKeys(perPool) {
		seen += fmt.Sprintf("; %s in %s", plural(perPool[pool], "machine"), pool)
	}
	seen += fmt.Sprintf("; %d pods lost, %d budgets broken so far", s.totals.PodsLost, s.totals.BrokenBudgets)
	s.note(happening{Happening: Happening{Kind: "expect", USDPerHour: s.usdPerHour(), Text: "as expected: " + seen}})
}
