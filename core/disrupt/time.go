package disrupt

import "github.com/weir-project/weir/core/model"

// timed is the world with a budget that remembers its end.
func timed(w *model.World) (*model.World, *model.Deadline) {
	out := *w
	var d *model.Deadline
	out.Budget, d = w.Budget.Remembering()
	return &out, d
}

// ended has a plan say that its budget ended.
func ended(d *model.Deadline, p *model.Plan) {
	e := d.End()
	if e == nil {
		return
	}
	for _, b := range p.Blocked {
		if b.Reason == BlockedTime {
			e.Unseen++
		}
	}
	p.Budget = e
	p.Warnings = append(p.Warnings, e.Text("nodes", "more might be saved"))
}
