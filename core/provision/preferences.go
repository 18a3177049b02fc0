package provision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/engine"
	"github.com/weir-project/weir/core/model"
)

// maxRelaxed is how many workloads' preferences a plan names.
const maxRelaxed = 20

// relaxed is what some pods of a workload do without.
type relaxed struct {
	who   string
	pods  []*model.Pod
	texts []string
	count map[string]int // pods by text
}

// givenUp says for each workload which preferences the plan does not keep.
func givenUp(r *engine.Result) []string {
	byKey := map[string]*relaxed{}
	var list []*relaxed
	for _, x := range r.Relaxed {
		key, who := x.Pod.ID(), "pod "+x.Pod.ID()
		if o := x.Pod.Owner; o.Kind != "" {
			who = fmt.Sprintf("%s %s/%s", o.Kind, x.Pod.Namespace, o.Name)
			key = who
		} else if len(x.Dropped) > 0 { // pods without an owner that gave up the same are told together
			key = x.Pod.Namespace + "\x00" + strings.Join(x.Dropped, "\x00")
		}
		w := byKey[key]
		if w == nil {
			w = &relaxed{who: who, count: map[string]int{}}
			byKey[key] = w
			list = append(list, w)
		}
		w.pods = append(w.pods, x.Pod)
		for _, text := range x.Dropped {
			if w.count[text]++; !slices.Contains(w.texts, text) {
				w.texts = append(w.texts, text)
			}
		}
	}
	var out []string
	for i, w := range list {
		if i == maxRelaxed {
			out = append(out, fmt.Sprintf("preferences given up for %d more workloads", len(list)-i))
			break
		}
		out = append(out, w.String())
	}
	return append(out, r.Notes...)
}

func (w *relaxed) String() string {
	who := w.who
	if n := len(w.pods); w.pods[0].Owner.Kind == "" && n > 1 {
		who = fmt.Sprintf("%d pods such as %s", n, w.pods[0].ID())
	}
	parts := make([]string, len(w.texts))
	for i, text := range w.texts {
		parts[i] = fmt.Sprintf("%s: %d pods", text, w.count[text])
		if w.count[text] == 1 {
			parts[i] = text + ": 1 pod"
		}
	}
	return fmt.Sprintf("preferences given up for %s: %s", who, strings.Join(parts, "; "))
}
