package ec2front

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/sim"
)

// PlacementGroup is a placement group.
type PlacementGroup struct {
	ID, Name   string
	Strategy   string // cluster, partition or spread
	Partitions int    // of strategy partition
}

// spreadLimit is how many instances a spread group may have in a zone.
const spreadLimit = 7

// AddPlacementGroup makes a group and answers its id.
func (f *Front) AddPlacementGroup(g PlacementGroup) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.ID == "" {
		g.ID = f.id("pg-")
	}
	f.placement = append(f.placement, &g)
	return g.ID
}

// DropPlacementGroup takes a group away; instances in it live on.
func (f *Front) DropPlacementGroup(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.placement = slices.DeleteFunc(f.placement, func(g *PlacementGroup) bool { return g.ID == id })
}

// strategiesOf are the strategies that a type can be started under: burstable ones are not for clusters.
func strategiesOf(t *catalogue.Type) []string {
	if strings.HasPrefix(t.Labels["instance-family"], "t") {
		return []string{"partition", "spread"}
	}
	return []string{"cluster", "partition", "spread"}
}

// groupOf is the placement group of a template and the partition that it names, 0 = EC2 chooses; nil where it names no group.
func (f *Front) groupOf(t *template) (*PlacementGroup, int, error) {
	p := t.data.get("Placement")
	name := p.str("GroupName") + p.str("GroupId")
	text := p.str("PartitionNumber")
	if name == "" {
		if text != "" {
			return nil, 0, fail("InvalidParameterCombination", "A partition number needs a placement group.")
		}
		return nil, 0, nil
	}
	i := slices.IndexFunc(f.placement, func(g *PlacementGroup) bool { return g.ID == name || g.Name == name })
	if i < 0 {
		return nil, 0, fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
	}
	n := 0
	if text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > f.placement[i].Partitions {
			return nil, 0, fail("InvalidParameterValue", "The partition number %s is not valid for the placement group %s.", text, name)
		}
	}
	return f.placement[i], n, nil
}

// wrongPlacement says what of a line's placement can never be.
func (f *Front) wrongPlacement(l *override, t *catalogue.Type) error {
	g, _, err := f.groupOf(l.template)
	if err != nil || g == nil || slices.Contains(strategiesOf(t), g.Strategy) {
		return err
	}
	return fail("InvalidParameterCombination", "The instance type '%s' is not supported in placement groups of strategy %s.", t.Name, g.Strategy)
}

func inGroup(id, zone string) string { return "placement/" + id + "/" + zone }

// crowded says why a group takes no more instances in the zone of a line.
func (f *Front) crowded(l *override, used map[string]int) (code, message string) {
	g, _, err := f.groupOf(l.template)
	if err != nil || g == nil {
		return "", "" // an error was told as what is wrong with the line
	}
	switch g.Strategy {
	case "spread":
		if used[inGroup(g.ID, l.zone)] >= spreadLimit {
			return "InstanceLimitExceeded", fmt.Sprintf("You have reached the limit of instances in this spread placement group %s in %s.", g.Name, l.zone)
		}
	case "cluster":
		for _, z := range f.opts.Zones {
			if z != l.zone && used[inGroup(g.ID, z)] > 0 {
				return "InsufficientInstanceCapacity", fmt.Sprintf("The placement group %s is in %s: there is no capacity for it in %s.", g.Name, z, l.zone)
			}
		}
	}
	return "", ""
}

// partitionFor is the partition of an instance: the one that was asked for, or the emptiest.
func (f *Front) partitionFor(g *PlacementGroup, asked int) int {
	if g == nil || g.Strategy != "partition" || asked > 0 {
		return asked
	}
	count := make([]int, g.Partitions+1)
	f.ec2.Each(func(m *sim.Machine, _ bool) bool {
		if x := f.machines[m.ID]; x != nil && x.placement != nil && x.placement.ID == g.ID && m.State != sim.Terminated {
			count[x.partition]++
		}
		return true
	})
	best := 1
	for p := range count {
		if p > 0 && count[p] < count[best] {
			best = p
		}
	}
	return best
}

func describePlacementGroups(f *Front, p *params) (func(*writer), error) {
	list := f.placement
	for _, by := range []struct {
		name string
		of   func(*PlacementGroup) string
	}{{"GroupName", func(g *PlacementGroup) string { return g.Name }}, {"GroupId", func(g *PlacementGroup) string { return g.ID }}} {
		names, err := p.strings(by.name)
		if err != nil {
			return nil, err
		}
		if list, err = pick(list, names, by.of, "InvalidPlacementGroup.Unknown", func(*PlacementGroup) bool { return true }); err != nil {
			return nil, err
		}
	}
	filters, err := p.filters("state", "strategy", "group-name")
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(g *PlacementGroup) bool {
		return !met(filters, nil, func(name string) []string {
			return []string{map[string]string{"state": "available", "strategy": g.Strategy, "group-name": g.Name}[name]}
		})
	})
	return func(w *writer) {
		set(w, "placementGroupSet", list, func(g *PlacementGroup) {
			w.el("groupName", g.Name)
			w.el("state", "available")
			w.el("strategy", g.Strategy)
			if g.Partitions > 0 {
				w.num("partitionCount", g.Partitions)
			}
			w.el("groupId", g.ID)
		})
	}, p.finish()
}
