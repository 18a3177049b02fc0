package provision

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/core/engine"
)

// maxRelaxations is how many workloads' preferences a plan names.
const maxRelaxations = 20

// givenUp says for each workload which preferences the plan does not keep.
func givenUp(r *engine.Result) []string {
	type kind struct{ namespace, owner, dropped string }
	type tally struct {
		n     int
		first string
	}
	pods := map[kind]*tally{}
	var order []kind
	for _, x := range r.Relaxed {
		k := kind{namespace: x.Pod.Namespace, dropped: strings.Join(x.Dropped, "; ")}
		if o := x.Pod.Owner; o.Kind != "" {
			k.owner = o.Kind + " " + x.Pod.Namespace + "/" + o.Name
		}
		if pods[k] == nil {
			pods[k] = &tally{first: x.Pod.ID()}
			order = append(order, k)
		}
		pods[k].n++
	}
	var out []string
	for i, k := range order {
		if i == maxRelaxations {
			out = append(out, fmt.Sprintf("preferences given up for %d more workloads", len(order)-i))
			break
		}
		who := "pod " + pods[k].first
		switch n := pods[k].n; {
		case k.owner != "" && n == 1:
			who = "1 pod of " + k.owner
		case k.owner != "":
			who = fmt.Sprintf("%d pods of %s", n, k.owner)
		case n > 1:
			who = fmt.Sprintf("%d pods, such as %s", n, pods[k].first)
		}
		out = append(out, fmt.Sprintf("preferences given up for %s: %s", who, k.dropped))
	}
	return append(out, r.Notes...)
}
