package ec2front

import (
	"slices"
	"time"

	"github.com/weir-project/weir/core/cloud/sim"
)

// Status is what the checks of an instance say, and what is planned for it.
type Status struct {
	Instance, System time.Time // since when the check fails; zero = it does not
	Events           []StatusEvent
}

// StatusEvent is a planned event.
type StatusEvent struct {
	ID, Code, Description string
	NotBefore             time.Time
}

// SetStatus sets the status of an instance, which is a good one until then.
func (f *Front) SetStatus(id string, s Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses[id] = s
}

func summary(since time.Time) string {
	if since.IsZero() {
		return "ok"
	}
	return "impaired"
}

func describeInstanceStatus(f *Front, p *params) (func(*writer), error) {
	ids, err := p.strings("InstanceId")
	if err != nil {
		return nil, err
	}
	all, err := p.boolean("IncludeAllInstances")
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 && p.get("MaxResults").has {
		return nil, fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	filters, err := p.filters("instance-status.status", "system-status.status", "event.code", "instance-state-name", "availability-zone")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var list []shown
	f.ec2.Each(func(m *sim.Machine, listed bool) bool {
		x := f.machines[m.ID]
		if x == nil || !listed || len(ids) > 0 && !slices.Contains(ids, m.ID) {
			return true
		}
		found[m.ID] = true
		s := f.statuses[m.ID]
		field := func(name string) []string {
			switch name {
			case "instance-status.status":
				return []string{summary(s.Instance)}
			case "system-status.status":
				return []string{summary(s.System)}
			case "event.code":
				var codes []string
				for _, e := range s.Events {
					codes = append(codes, e.Code)
				}
				return codes
			}
			return f.field(m, x, name)
		}
		if (all || m.State == sim.Running) && met(filters, x.tags, field) {
			list = append(list, shown{*m, x})
		}
		return true
	})
	for _, id := range ids {
		if !found[id] {
			return nil, noInstance(id)
		}
	}
	list, next, err := page(p, list, 5, 1000)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "instanceStatusSet", list, func(s shown) { f.status(w, &s.m) })
		w.el("nextToken", next)
	}, p.finish()
}

func (f *Front) status(w *writer, m *sim.Machine) {
	s := f.statuses[m.ID]
	w.el("instanceId", m.ID)
	w.el("availabilityZone", m.Zone)
	w.in("instanceState", func() {
		w.num("code", stateCodes[m.State])
		w.el("name", m.State)
	})
	check := func(name string, since time.Time) {
		w.in(name, func() {
			w.el("status", summary(since))
			set(w, "details", []time.Time{since}, func(since time.Time) {
				w.el("name", "reachability")
				if since.IsZero() {
					w.el("status", "passed")
					return
				}
				w.el("status", "failed")
				w.time("impairedSince", since)
			})
		})
	}
	check("systemStatus", s.System)
	check("instanceStatus", s.Instance)
	set(w, "eventsSet", s.Events, func(e StatusEvent) {
		w.el("instanceEventId", e.ID)
		w.el("code", e.Code)
		w.el("description", e.Description)
		w.time("notBefore", e.NotBefore)
	})
}
