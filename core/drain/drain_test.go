package drain

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/model"
)

var update = flag.Bool("update", false, "write the golden output into testdata")

var t0 = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// TestScenarios replays the pages of testdata: commands, and below each what a drain
// does then. Lines that begin with > are the output.
//
//	node [tainted]                           a fresh node and a fresh drain
//	deadline +5m | interruption +2m          of the drain, from the start at 10:00:00
//	pod NAME [k=v ...]                       app, owner (daemon, ss, none), critical, grace, dnd, deadline (signal),
//	                                         deleting=+1m, given=10s (the grace it was deleted with, its own where unsaid),
//	                                         terminal, mirror, tolerates, started=-5m, hold
//	pdb NAME app [fully] [always]            a budget over the pods of an app
//	answer NAME OUTCOME                      what an eviction got
//	ends NAME +1m given=10s                  it was deleted (again), and its timestamp is that
//	gone NAME                                the pod has left
//	at +90s                                  a step at that instant
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, data)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := gocmp.Diff(string(data), string(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

type stage struct {
	t    *testing.T
	s    *State
	node *model.Node
	pods []*model.Pod
	pdbs []*model.PDB
	hold map[string]bool
	now  time.Time
}

func play(t *testing.T, script []byte) []byte {
	st := &stage{t: t, now: t0}
	st.reset(nil)
	var out bytes.Buffer
	for sc := bufio.NewScanner(bytes.NewReader(script)); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		for _, l := range st.do(words[0], words[1:]) {
			fmt.Fprintln(&out, "> "+l)
		}
	}
	return out.Bytes()
}

func (st *stage) reset(args []string) {
	st.node = &model.Node{Name: "n1", UID: "u-n1", Labels: map[string]string{}}
	if slices.Contains(args, "tainted") {
		st.node.Taints = []model.Taint{Taint}
		st.node.Labels[model.LabelExcludeLB] = LBValue
	}
	st.s, st.pods, st.pdbs, st.hold, st.now = &State{}, nil, nil, map[string]bool{}, t0
	hold := st.hold
	st.s.Hold = func(p *model.Pod) bool { return hold[p.Name] }
}

func (st *stage) do(cmd string, args []string) []string {
	switch cmd {
	case "node":
		st.reset(args)
	case "deadline":
		at := t0.Add(duration(st.t, args[0]))
		st.s.Deadline = &at
	case "interruption":
		at := t0.Add(duration(st.t, args[0]))
		st.s.Interruption = &at
	case "pod":
		st.pods = append(st.pods, st.pod(args))
	case "pdb":
		app := args[1]
		st.pdbs = append(st.pdbs, &model.PDB{Namespace: "ns", Name: args[0], FullyBlocking: slices.Contains(args, "fully"), AlwaysAllow: slices.Contains(args, "always"),
			Selects: func(l map[string]string) bool { return l["app"] == app }})
	case "answer":
		st.s.Answered(st.find(args[0]), Outcome(args[1]), st.now)
	case "ends":
		p := *st.find(args[0])
		at := t0.Add(duration(st.t, args[1]))
		p.Deleting, p.DeletingGrace = &at, duration(st.t, strings.TrimPrefix(args[2], "given="))
		st.pods[slices.IndexFunc(st.pods, func(o *model.Pod) bool { return o.Name == p.Name })] = &p
	case "gone":
		st.pods = slices.DeleteFunc(st.pods, func(p *model.Pod) bool { return p.Name == args[0] })
	case "at":
		st.now = t0.Add(duration(st.t, args[0]))
		return st.step()
	default:
		st.t.Fatalf("command %q", cmd)
	}
	return nil
}

func (st *stage) find(name string) *model.Pod {
	for _, p := range st.pods {
		if p.Name == name {
			return p
		}
	}
	st.t.Fatalf("pod %q", name)
	return nil
}

func (st *stage) pod(args []string) *model.Pod {
	p := &model.Pod{Namespace: "ns", Name: args[0], UID: "u-" + args[0], Labels: map[string]string{"app": args[0]}, Annotations: map[string]string{},
		GracePeriod: 30 * time.Second, NodeName: "n1", Ready: true, Owner: model.Owner{Kind: "ReplicaSet", UID: "rs"}}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "app":
			p.Labels["app"] = v
		case "owner":
			p.Owner.Kind = map[string]string{"daemon": "DaemonSet", "ss": "StatefulSet", "none": ""}[v]
		case "critical":
			p.PriorityClass = "system-cluster-critical"
		case "grace":
			p.GracePeriod = duration(st.t, v)
		case "dnd":
			p.Annotations[model.AnnotationDoNotDisrupt] = v
		case "deadline":
			p.Annotations[AnnotationAtDeadline] = v
		case "deleting":
			at := t0.Add(duration(st.t, v))
			p.Deleting = &at
		case "given":
			p.DeletingGrace = duration(st.t, v)
		case "started":
			at := t0.Add(duration(st.t, v))
			p.Started = &at
		case "terminal":
			p.Terminal = true
		case "mirror":
			p.Mirror = true
		case "notready":
			p.Ready = false
		case "hold":
			st.hold[p.Name] = true
		case "tolerates":
			p.Tolerations = []model.Toleration{{Operator: "Exists"}}
		default:
			st.t.Fatalf("pod field %q", a)
		}
	}
	if p.Deleting != nil && p.DeletingGrace == 0 {
		p.DeletingGrace = p.GracePeriod
	}
	return p
}

func (st *stage) step() []string {
	r := Step(st.s, st.node, st.pods, st.pdbs, st.now)
	var out []string
	if r.Node != nil {
		out = append(out, fmt.Sprintf("node: taints +%v -%v, labels %v", r.Node.AddTaints, r.Node.RemoveTaints, r.Node.Labels))
		st.node.Taints = []model.Taint{Taint}
		st.node.Labels[model.LabelExcludeLB] = LBValue
	}
	for _, e := range r.Evict {
		line := "evict " + e.Pod.Name
		if e.Grace > 0 {
			line += fmt.Sprintf(", grace %s", e.Grace)
		}
		out = append(out, line)
	}
	for _, d := range r.Delete {
		out = append(out, fmt.Sprintf("delete %s, grace %s", d.Pod.Name, d.Grace))
	}
	for _, b := range r.Blockers {
		out = append(out, fmt.Sprintf("waits for %s: %s: %s", b.Pod.Name, b.Reason, b.Message))
	}
	if r.Done {
		return append(out, "done")
	}
	return append(out, fmt.Sprintf("%d left, next in %s", r.Waiting, r.Next.Sub(st.now)))
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(strings.TrimPrefix(s, "+"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPromises draws drains of a node whose API server and kubelet behave, and checks what must hold of every step.
func TestPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(r)
		s := &State{}
		if rapid.Bool().Draw(r, "has deadline") {
			at := t0.Add(time.Duration(rapid.IntRange(0, 600).Draw(r, "deadline")) * time.Second)
			s.Deadline = &at
		}
		if rapid.Bool().Draw(r, "interrupted") {
			at := t0.Add(time.Duration(rapid.IntRange(0, 120).Draw(r, "interruption")) * time.Second)
			s.Interruption = &at
		}
		for range 40 {
			w.step(r, s)
			w.pass(time.Duration(rapid.IntRange(50, 30000).Draw(r, "pause")) * time.Millisecond)
			if rapid.IntRange(0, 9).Draw(r, "restart") == 0 {
				s = &State{Deadline: s.Deadline, Interruption: s.Interruption}
				w.restarted, w.asked = true, map[string]time.Time{}
			}
		}
	})
}

// world is a node with pods that are deleted the way the API server and a kubelet do it: the timestamp counts a
// grace period from the first deletion, the kubelet from the last, or it goes on with the first; neither makes it longer.
type world struct {
	now   time.Time
	pods  []*model.Pod
	first map[string]time.Time // when a pod was deleted first
	kill  map[string]time.Time // when its containers are killed
	asked map[string]time.Time // when it was evicted last
	cut   map[string]bool      // its end was cut before

	deaf      bool // the kubelet goes on with the grace period that a pod began with
	restarted bool // a drain that does not remember what was seen cannot know of that
}

func drawWorld(r *rapid.T) *world {
	w := &world{now: t0, first: map[string]time.Time{}, kill: map[string]time.Time{}, asked: map[string]time.Time{}, cut: map[string]bool{}, deaf: rapid.Bool().Draw(r, "deaf")}
	for i := range rapid.IntRange(0, 6).Draw(r, "pods") {
		p := &model.Pod{Namespace: "ns", Name: "p" + strconv.Itoa(i), UID: strconv.Itoa(i), NodeName: "n", Annotations: map[string]string{},
			GracePeriod: time.Duration(rapid.IntRange(0, 600).Draw(r, "grace")) * time.Second}
		if rapid.Bool().Draw(r, "protected") {
			p.Annotations[model.AnnotationDoNotDisrupt] = "true"
		}
		if rapid.Bool().Draw(r, "signalled") {
			p.Annotations[AnnotationAtDeadline] = AtDeadlineSignal
		}
		if rapid.Bool().Draw(r, "critical") {
			p.PriorityClass = "system-node-critical"
		}
		w.pods = append(w.pods, p)
		if rapid.Bool().Draw(r, "terminating") {
			w.now = t0.Add(-time.Duration(rapid.IntRange(0, 300).Draw(r, "since")) * time.Second)
			w.delete(p, p.GracePeriod)
			w.now = t0
		}
	}
	return w
}

// delete is what the API server and the kubelet make of a deletion.
func (w *world) delete(p *model.Pod, grace time.Duration) {
	i := slices.IndexFunc(w.pods, func(o *model.Pod) bool { return o.UID == p.UID })
	if i < 0 {
		return
	}
	p = w.pods[i]
	switch {
	case p.Deleting == nil:
		w.first[p.UID] = w.now
	case grace >= p.DeletingGrace:
		return
	}
	n := *p
	at := w.first[p.UID].Add(grace)
	n.Deleting, n.DeletingGrace = &at, grace
	w.pods[i] = &n
	if p.Deleting == nil || !w.deaf {
		w.kill[p.UID] = w.now.Add(grace)
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.pods = slices.DeleteFunc(w.pods, func(p *model.Pod) bool { return p.Deleting != nil && !w.now.Before(w.kill[p.UID]) })
}

func (w *world) step(r *rapid.T, s *State) {
	res := Step(s, &model.Node{Name: "n"}, w.pods, nil, w.now)
	for _, d := range res.Delete {
		w.checkDelete(r, s, d)
		w.delete(d.Pod, d.Grace)
		s.Answered(d.Pod, Accepted, w.now)
	}
	for _, e := range res.Evict {
		w.checkEvict(r, s, e)
		o := rapid.SampledFrom([]Outcome{Accepted, Blocked, Failed, MultiplePDBs}).Draw(r, "answer")
		if e.Pod.Deleting != nil && o != Failed {
			o = Accepted // which no budget forbids
		}
		if o == Accepted {
			w.cut[e.Pod.UID] = e.Pod.Deleting != nil
			w.delete(e.Pod, cmp.Or(e.Grace, e.Pod.GracePeriod))
		}
		s.Answered(e.Pod, o, w.now)
	}
	if res.Done && (res.Waiting > 0 || w.now.Sub(s.Started) < Settle && !s.past(w.now)) {
		r.Fatalf("done with %d pods after %s", res.Waiting, w.now.Sub(s.Started))
	}
	if res.Done && (s.Deadline == nil || !w.now.After(*s.Deadline)) && !(w.deaf && w.restarted) {
		for _, p := range w.pods {
			if end, ok := w.kill[p.UID]; !ok || end.After(w.now) {
				r.Fatalf("done while %s runs", p.Name)
			}
		}
	}
	if !res.Done && !res.Next.After(w.now) && len(res.Evict)+len(res.Delete) == 0 {
		r.Fatalf("spins at %s", w.now)
	}
}

func (w *world) checkDelete(r *rapid.T, s *State, d Deletion) {
	if d.Grace < MinGrace {
		r.Fatalf("delete %s with grace %s", d.Pod.Name, d.Grace)
	}
	end := s.Deadline
	if d.Pod.Deleting == nil && d.Pod.Annotations[AnnotationAtDeadline] == AtDeadlineSignal && s.Interruption != nil && (end == nil || s.Interruption.Before(*end)) {
		end = s.Interruption
	}
	if end == nil {
		r.Fatalf("%s is deleted past its budgets without a deadline", d.Pod.Name)
	}
	if d.Pod.Deleting != nil && !d.Pod.Deleting.After(*end) {
		r.Fatalf("%s ends at %s and is deleted again, the deadline is %s", d.Pod.Name, d.Pod.Deleting, end)
	}
	if at := w.now.Add(d.Grace); at.After(*end) && d.Grace > MinGrace {
		r.Fatalf("%s may run until %s, the deadline is %s", d.Pod.Name, at, end)
	}
}

func (w *world) checkEvict(r *rapid.T, s *State, e Eviction) {
	p := e.Pod
	grace := cmp.Or(e.Grace, p.GracePeriod)
	left := s.Interruption != nil && w.now.Before(*s.Interruption)
	switch {
	case e.Grace < 0, e.Grace > 0 && (e.Grace < MinGrace || e.Grace%time.Second != 0):
		r.Fatalf("%s is evicted with grace %s", p.Name, e.Grace)
	case e.Grace > 0 && !left:
		r.Fatalf("the grace of %s is cut to %s with no machine about to go", p.Name, e.Grace)
	case e.Grace > 0 && e.Grace >= p.GracePeriod, p.Deleting != nil && e.Grace >= p.DeletingGrace:
		r.Fatalf("the grace of %s grows to %s", p.Name, e.Grace)
	case left && grace > MinGrace && w.now.Add(grace).After(*s.Interruption):
		r.Fatalf("%s may run until %s, the machine goes at %s", p.Name, w.now.Add(grace), s.Interruption)
	}
	if p.Deleting != nil {
		if !p.Deleting.After(*s.Interruption) {
			r.Fatalf("%s is cut to %s and would have ended at %s, before the machine", p.Name, e.Grace, p.Deleting)
		}
		if w.cut[p.UID] {
			r.Fatalf("%s is cut a second time", p.Name)
		}
	}
	if p.Annotations[model.AnnotationDoNotDisrupt] == "true" && (p.Deleting == nil || p.Annotations[AnnotationAtDeadline] != AtDeadlineSignal) {
		r.Fatalf("protected pod %s is evicted", p.Name)
	}
	if at, ok := w.asked[p.UID]; ok && w.now.Sub(at) < FirstBackoff {
		r.Fatalf("%s is evicted again after %s", p.Name, w.now.Sub(at))
	}
	w.asked[p.UID] = w.now
}

// B046, B047, B064: who gets no new place before it is evicted.
func TestUnevictable(t *testing.T) {
	t.Parallel()
	all := func(map[string]string) bool { return true }
	pod := func(f func(*model.Pod)) *model.Pod {
		p := &model.Pod{Namespace: "ns", Name: "p", Ready: true}
		if f != nil {
			f(p)
		}
		return p
	}
	one := &model.PDB{Namespace: "ns", Name: "one", Selects: all}
	full := &model.PDB{Namespace: "ns", Name: "full", Selects: all, FullyBlocking: true}
	always := &model.PDB{Namespace: "ns", Name: "always", Selects: all, FullyBlocking: true, AlwaysAllow: true}
	other := &model.PDB{Namespace: "elsewhere", Name: "other", Selects: all, FullyBlocking: true}
	for _, tt := range []struct {
		name string
		pod  *model.Pod
		pdbs []*model.PDB
		want string
	}{
		{"plain", pod(nil), nil, ""},
		{"a budget that allows some now and then", pod(nil), []*model.PDB{one}, ""},
		{"a budget of another namespace", pod(nil), []*model.PDB{other}, ""},
		{"a budget that never allows one", pod(nil), []*model.PDB{full}, ReasonPDB},
		{"unhealthy, and the budget lets those go", pod(func(p *model.Pod) { p.Ready = false }), []*model.PDB{always}, ""},
		{"healthy, and the budget lets only others go", pod(nil), []*model.PDB{always}, ReasonPDB},
		{"unhealthy, and the budget does not care", pod(func(p *model.Pod) { p.Ready = false }), []*model.PDB{full}, ReasonPDB},
		{"two budgets", pod(nil), []*model.PDB{one, {Namespace: "ns", Name: "two", Selects: all}}, ReasonMultiplePDBs},
		{"protected", pod(func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"} }), nil, ReasonDoNotDisrupt},
		{"once protected", pod(func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "false"} }), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Unevictable(tt.pod, tt.pdbs, t0); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A drain that begins long after its deadline, as one of a leader that died does, deletes
// a pod once and then no more often than every ten seconds.
func TestADrainPastItsDeadlineDoesNotSpin(t *testing.T) {
	t.Parallel()
	deadline := t0.Add(-2 * time.Minute)
	s := &State{Deadline: &deadline}
	p := &model.Pod{UID: "u", Namespace: "ns", Name: "p", GracePeriod: 30 * time.Second}
	deletes := 0
	for now := t0; now.Before(t0.Add(30 * time.Second)); now = now.Add(500 * time.Millisecond) {
		for range 3 { // answers bring the drain back at the same instant
			r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, now)
			for _, d := range r.Delete {
				deletes++
				if p.Deleting == nil {
					end := now.Add(d.Grace)
					q := *p
					q.Deleting = &end
					p = &q
				}
				s.Answered(p, Accepted, now)
			}
		}
	}
	if deletes < 1 || deletes > 3 {
		t.Errorf("%d deletes in half a minute", deletes)
	}
}

// Blockers say who, since when and until when; the memory of it can be handed on.
func TestBlockersAreNamed(t *testing.T) {
	t.Parallel()
	deadline := t0.Add(10 * time.Minute)
	pdb := &model.PDB{Namespace: "ns", Name: "web", Selects: func(l map[string]string) bool { return l["app"] == "web" }}
	web := &model.Pod{UID: "u1", Namespace: "ns", Name: "web", Labels: map[string]string{"app": "web"}, GracePeriod: 30 * time.Second}
	job := &model.Pod{UID: "u2", Namespace: "ns", Name: "job", Annotations: map[string]string{model.AnnotationDoNotDisrupt: "true"}, GracePeriod: time.Minute}
	late := &model.Pod{UID: "u3", Namespace: "kube-system", Name: "dns", PriorityClass: "system-cluster-critical"}
	pods := []*model.Pod{web, job, late}
	see := func(s *State, at time.Time) string {
		r := Step(s, &model.Node{Name: "n"}, pods, []*model.PDB{pdb}, at)
		for _, e := range r.Evict {
			s.Answered(e.Pod, Blocked, at)
		}
		return Summary(Lasting(r.Blockers, at))
	}
	s := &State{Deadline: &deadline}
	see(s, t0)
	see(s, t0.Add(time.Second))
	if got := see(s, t0.Add(9*time.Second)); got != "" {
		t.Errorf("after nine seconds: %s", got)
	}
	want := `2 pods are in the way: evicting pod ns/web would violate PodDisruptionBudget ns/web, since 2026-01-01T10:00:01Z, forced at 2026-01-01T10:09:30Z; ` +
		`pod ns/job has "karpenter.sh/do-not-disrupt" annotation, since 2026-01-01T10:00:00Z, forced at 2026-01-01T10:09:00Z`
	if d := gocmp.Diff(want, see(s, t0.Add(20*time.Second))); d != "" {
		t.Error(d)
	}
	next := &State{Pods: map[string]*PodMemory{"u2": {Blocked: t0.Add(-time.Hour)}}}
	if d := gocmp.Diff(`1 pod is in the way: pod ns/job has "karpenter.sh/do-not-disrupt" annotation, since 2026-01-01T09:00:00Z, no deadline`, see(next, t0)); d != "" {
		t.Error(d)
	}
	var many []Blocker
	for range 7 {
		many = append(many, Blocker{Pod: web, Reason: ReasonTerminating, Message: "m"})
	}
	if d := gocmp.Diff("7 pods are in the way: m; m; m; m; m; and 2 more", Summary(many)); d != "" {
		t.Error(d)
	}
}

// Whoever could not carry out a deletion has it asked for again, and not only when its end is over.
func TestUnaskedIsAskedAgain(t *testing.T) {
	t.Parallel()
	deadline := t0.Add(10 * time.Second)
	p := &model.Pod{UID: "u", Namespace: "ns", Name: "p", GracePeriod: 30 * time.Second}
	s := &State{Deadline: &deadline}
	if r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, t0); len(r.Delete) != 1 {
		t.Fatalf("deletions %+v", r.Delete)
	}
	s.Unasked(p, t0)
	s.Answered(p, Accepted, t0) // of the eviction that was under way
	if r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, t0.Add(time.Second)); len(r.Delete) != 1 || r.Delete[0].Grace != 9*time.Second {
		t.Errorf("deletions %+v, expected one with nine seconds", r.Delete)
	}
}

// On a machine whose kubelet is dead a pod that is deleted by force again and again is stuck at last.
func TestForcedDeletionsOfADeadKubeletEnd(t *testing.T) {
	t.Parallel()
	deadline := t0.Add(-time.Second)
	s := &State{Deadline: &deadline}
	p := &model.Pod{UID: "u", Namespace: "ns", Name: "p", GracePeriod: 30 * time.Second}
	now := t0
	for ; now.Before(t0.Add(2 * time.Minute)); now = now.Add(time.Second) {
		r := Step(s, &model.Node{Name: "n"}, []*model.Pod{p}, nil, now)
		if r.Done {
			break
		}
		for _, d := range r.Delete {
			if p.Deleting == nil {
				q, end := *p, now.Add(d.Grace)
				q.Deleting, q.DeletingGrace = &end, d.Grace
				p = &q
			}
			s.Answered(p, Accepted, now)
		}
	}
	if took := now.Sub(t0); took > Stuck+5*time.Second {
		t.Errorf("done after %s", took)
	}
}
