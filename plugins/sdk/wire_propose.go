package sdk

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
)

// fromProposeWorld writes a world; the catalogue goes by its hash.
func fromProposeWorld(w *ProposeWorld) *consolidationv1.ProposeWorld {
	in := &interner{index: map[string]uint32{}}
	m := &consolidationv1.ProposeWorld{CatalogueHash: w.Catalogue.Hash[:], Now: timestamppb.New(w.Now), UsdPerHour: w.USDPerHour, Pools: fromPools(w.Pools),
		Nodes: make([]*consolidationv1.Node, len(w.Nodes)), MaxSimulations: uint32(w.MaxSimulations)}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		m.Nodes[i] = &consolidationv1.Node{NameText: in.id(n.Name), Pool: optional(n.Pool), Offering: optional(n.Offering), UsdPerHour: n.USDPerHour,
			AgeSeconds: int64(n.Age / time.Second), Pods: uint32(n.Pods), Requests: fromAmounts(in, n.Requests), Free: fromAmounts(in, n.Free),
			Removable: n.Removable, BlockedText: in.id(n.Blocked), DisruptionCost: n.DisruptionCost}
	}
	for _, b := range w.Budgets {
		m.Budgets = append(m.Budgets, &consolidationv1.Budget{Pool: uint32(b.Pool), Reason: b.Reason, Nodes: uint32(b.Nodes)})
	}
	m.Texts = in.texts
	return m
}

// toProposeWorld reads a world over the catalogue that it names. Errors: too many
// entries, counts and indexes that do not fit.
func toProposeWorld(c *Catalogue, m *consolidationv1.ProposeWorld) (*ProposeWorld, error) {
	if len(m.Nodes) > MaxNodes || len(m.Texts) > MaxTexts {
		return nil, fmt.Errorf("%d nodes, %d texts, at most %d, %d", len(m.Nodes), len(m.Texts), MaxNodes, MaxTexts)
	}
	if len(m.UsdPerHour) != len(c.Offerings) {
		return nil, fmt.Errorf("%d prices for a catalogue of %d offerings", len(m.UsdPerHour), len(c.Offerings))
	}
	pools, err := toPools(c, m.Pools)
	if err != nil {
		return nil, err
	}
	w := &ProposeWorld{Catalogue: c, Now: m.Now.AsTime(), USDPerHour: m.UsdPerHour, Pools: pools, Nodes: make([]Node, len(m.Nodes)), MaxSimulations: int(m.MaxSimulations)}
	texts := &textReader{texts: m.Texts, what: "world"}
	for i, n := range m.Nodes {
		out := Node{Name: texts.text(n.NameText), Pool: -1, Offering: -1, USDPerHour: n.UsdPerHour, Age: time.Duration(n.AgeSeconds) * time.Second,
			Pods: int(n.Pods), Requests: texts.amounts(n.Requests), Free: texts.amounts(n.Free), Removable: n.Removable, Blocked: texts.text(n.BlockedText),
			DisruptionCost: n.DisruptionCost}
		if n.Pool != nil {
			if out.Pool = int(*n.Pool); out.Pool >= len(pools) {
				return nil, fmt.Errorf("node %d is of pool %d of %d", i, out.Pool, len(pools))
			}
		}
		if n.Offering != nil {
			if out.Offering = int(*n.Offering); out.Offering >= len(c.Offerings) {
				return nil, fmt.Errorf("node %d is of offering %d of %d", i, out.Offering, len(c.Offerings))
			}
		}
		w.Nodes[i] = out
	}
	for i, b := range m.Budgets {
		if int(b.Pool) >= len(pools) {
			return nil, fmt.Errorf("budget %d is of pool %d of %d", i, b.Pool, len(pools))
		}
		w.Budgets = append(w.Budgets, Budget{Pool: int(b.Pool), Reason: b.Reason, Nodes: int(b.Nodes)})
	}
	return w, texts.err
}

func fromMoves(moves []ProposedMove) []*consolidationv1.ProposedMove {
	out := make([]*consolidationv1.ProposedMove, len(moves))
	for i, v := range moves {
		m := &consolidationv1.ProposedMove{Score: v.Score, Why: v.Why}
		for _, n := range v.Remove {
			m.Remove = append(m.Remove, wireIndex(n))
		}
		out[i] = m
	}
	return out
}

// toMoves reads moves, which CheckMoves then judges.
func toMoves(ms []*consolidationv1.ProposedMove) []ProposedMove {
	out := make([]ProposedMove, len(ms))
	for i, m := range ms {
		out[i] = ProposedMove{Remove: toInt(m.Remove), Score: m.Score, Why: reason(m.Why)}
	}
	return out
}

func fromTrials(trials []Trial) *consolidationv1.Simulated {
	m := &consolidationv1.Simulated{Trials: make([]*consolidationv1.Trial, len(trials))}
	for i, t := range trials {
		out := &consolidationv1.Trial{Legal: t.Legal, Reason: t.Reason, Message: t.Message, UsdPerHourBefore: t.USDPerHourBefore,
			UsdPerHourAfter: t.USDPerHourAfter, UsdPerHourAfterWorst: t.USDPerHourWorst, PodsEvicted: uint32(t.PodsEvicted)}
		for _, n := range t.Launch {
			out.Launch = append(out.Launch, &consolidationv1.LaunchedNode{Offering: uint32(n.Offering), UsdPerHour: n.USDPerHour})
		}
		m.Trials[i] = out
	}
	return m
}

func toTrials(m *consolidationv1.Simulated) []Trial {
	out := make([]Trial, len(m.Trials))
	for i, t := range m.Trials {
		out[i] = Trial{Legal: t.Legal, Reason: t.Reason, Message: t.Message, USDPerHourBefore: t.UsdPerHourBefore, USDPerHourAfter: t.UsdPerHourAfter,
			USDPerHourWorst: t.UsdPerHourAfterWorst, PodsEvicted: int(t.PodsEvicted)}
		for _, n := range t.Launch {
			out[i].Launch = append(out[i].Launch, LaunchedNode{Offering: int(n.Offering), USDPerHour: n.UsdPerHour})
		}
	}
	return out
}
