package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
)

// hasEvent says whether an event of that reason was told, with the text in it.
func (s *scene) hasEvent(reason, text string) bool {
	for _, e := range s.API.Events {
		if e.Reason == reason && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

func (s *scene) claim(t testing.TB) *model.Claim {
	t.Helper()
	for _, c := range s.API.Claims {
		return c
	}
	t.Fatal("there is no claim")
	return nil
}

func mustRun(t testing.TB, s *scene, n int, within time.Duration) {
	t.Helper()
	if !s.Until(within, func() bool { return s.Running("web") == n }) {
		t.Fatalf("%d of %d pods run after %s; %d claims, events %v", s.Running("web"), n, within, len(s.API.Claims), s.API.Events)
	}
}

func TestShortageIsRememberedAndPlannedAround(t *testing.T) {
	t.Parallel()
	store := mem.New()
	p := pool("default", model.OnDemand)
	p.Policy = model.WhenEmpty // consolidation would ask for the cheaper type again once it may
	s := newScene(t, store, p)
	v := watch(t, s)
	for _, o := range []string{"m5.large/*/on-demand", "m5.xlarge/*/on-demand", "m5.2xlarge/us-east-1a/on-demand"} {
		if err := s.EC2.SetCapacity(o, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	if c.Labels[model.LabelInstanceType] != "m5.2xlarge" || c.Labels[model.LabelZone] != "us-east-1b" {
		t.Errorf("claim runs on %s in %s", c.Labels[model.LabelInstanceType], c.Labels[model.LabelZone])
	}
	if !s.hasEvent("InsufficientCapacityError", "InsufficientInstanceCapacity") {
		t.Errorf("no event tells of the shortage: %v", s.API.Events)
	}
	health, err := ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", s.Now())
	if err != nil {
		t.Fatal(err)
	}
	if h := health["m5.large/us-east-1a/on-demand"]; h.Shortages != 1 || h.ClosedUntil.Sub(h.LastShortage) != 3*time.Minute {
		t.Errorf("the ledger remembers %+v", h)
	}
	s.Run(3 * time.Minute)
	if closed := s.current.c.Mirror().Closed(s.Now()); len(closed) != 0 {
		t.Errorf("still closed after three minutes: %v", closed)
	}
	v.check()
}

func TestWithNothingElseTheLongestWaitingOfferingIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	if err := s.EC2.SetCapacity("*/*/on-demand", 0); err != nil {
		t.Fatal(err)
	}
	s.Workloads = append(s.Workloads, web(1))
	s.Run(40 * time.Second)
	if s.Machines() != 0 {
		t.Fatal("something was bought that is not there")
	}
	if err := s.EC2.SetCapacity("m5.large/us-east-1b/on-demand", 1); err != nil {
		t.Fatal(err)
	}
	closed := len(s.current.c.Mirror().Closed(s.Now()))
	mustRun(t, s, 1, 4*time.Minute)
	if closed != 6 {
		t.Errorf("%d offerings were closed, expected all 6", closed)
	}
}

func TestErrorsThatAreNoShortage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind     cloud.ErrorKind
		code     string
		attempts int // of the launch that got through
	}{
		{cloud.Throttled, "RequestLimitExceeded", 1},
		{cloud.Internal, "InternalError", 1},
		{cloud.Quota, "MaxFleetCountExceeded", 4},
		{cloud.Auth, "UnauthorizedOperation", 4},
		{cloud.Template, "InvalidAMIID.NotFound", 4},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			store := mem.New()
			s := newScene(t, store, pool("default", model.OnDemand))
			v := watch(t, s)
			s.EC2.FailNext(sim.OpLaunch, 3, tt.kind, tt.code, "no")
			s.Workloads = append(s.Workloads, web(1))
			told := s.Until(time.Minute, func() bool {
				return len(s.API.Claims) == 1 && s.claim(t).Condition(model.CondLaunched).Reason == tt.code
			})
			if !told {
				t.Errorf("the claim does not say why it is not launched: %+v", s.claim(t).Conditions)
			}
			name := s.claim(t).Name
			mustRun(t, s, 1, 3*time.Minute)
			if c := s.claim(t); c.Name != name {
				t.Errorf("claim %s was given up for %s", name, c.Name)
			}
			if closed := s.current.c.Mirror().Closed(s.Now()); len(closed) != 0 {
				t.Errorf("%s was taken for a shortage: %v", tt.kind, closed)
			}
			recs, err := ledger.List[ledger.Launch](t.Context(), store, "test/launch", "", s.Now())
			if err != nil || len(recs) != 1 || recs[0].Attempt != tt.attempts || recs[0].State != ledger.LaunchDone {
				t.Errorf("launch records %+v (%v), expected one, done in attempt %d", recs, err, tt.attempts)
			}
			v.check()
		})
	}
}

// B068: two different clocks, and the next pass may pick something else.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("launch", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		v := watch(t, s)
		s.EC2.FailNext(sim.OpLaunch, 12, cloud.Internal, "InternalError", "no")
		s.Workloads = append(s.Workloads, web(1))
		s.Until(time.Minute, func() bool { return len(s.API.Claims) == 1 })
		c := s.claim(t)
		if !s.Until(10*time.Minute, func() bool { return s.API.Claims[c.Name] == nil || s.API.Claims[c.Name].Deleting != nil }) {
			t.Fatal("the claim is kept for ever")
		}
		if age := s.Now().Sub(c.Created); age < 5*time.Minute || age > 5*time.Minute+5*time.Second {
			t.Errorf("given up after %s", age)
		}
		mustRun(t, s, 1, 10*time.Minute)
		v.check()
	})
	t.Run("registration", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		v := watch(t, s)
		s.NodeUp = 24 * time.Hour
		s.Workloads = append(s.Workloads, web(1))
		s.Until(time.Minute, func() bool { return len(s.API.Claims) == 1 })
		c := s.claim(t)
		s.Until(20*time.Minute, func() bool { return s.API.Claims[c.Name] == nil || s.API.Claims[c.Name].Deleting != nil })
		if age := s.Now().Sub(c.Created); age < 15*time.Minute || age > 15*time.Minute+5*time.Second {
			t.Errorf("given up after %s", age)
		}
		s.Run(16 * time.Minute) // the next one fails as well
		if got := s.API.Status["default"]; condition(got, "NodeRegistrationHealthy") != "False" || condition(got, "Ready") != "True" {
			t.Errorf("pool status %+v", got)
		}
		s.NodeUp = 10 * time.Second
		mustRun(t, s, 1, 10*time.Minute)
		s.Run(2 * time.Minute)
		if s.Machines() != 1 {
			t.Errorf("%d machines run, expected 1", s.Machines())
		}
		v.check()
	})
}

func condition(s execute.PoolStatus, typ string) string {
	for _, c := range s.Conditions {
		if c.Type == typ {
			return c.Status
		}
	}
	return ""
}

func TestSpotInterruption(t *testing.T) {
	t.Parallel()
	store := mem.New()
	s := newScene(t, store, pool("spot", model.Spot))
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(4))
	s.API.PutPDB(&model.PDB{Namespace: "default", Name: "web", DisruptionsAllowed: 1, Selects: func(l map[string]string) bool { return l["app"] == "web" }})
	mustRun(t, s, 4, 3*time.Minute)
	c := s.claim(t)
	id := model.InstanceID(c.ProviderID)
	if err := s.EC2.Reclaim(id); err != nil {
		t.Fatal(err)
	}
	deadline := s.Now().Add(2 * time.Minute).Truncate(time.Second)
	s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
		EventID: "e-1", Kind: model.NoticeSpot, InstanceID: id, Time: s.Now(), Deadline: &deadline, Action: "terminate"}})
	lowest := 4
	gone := s.Until(2*time.Minute, func() bool {
		lowest = min(lowest, s.Running("web"))
		return s.API.Claims[c.Name] == nil
	})
	if !gone || s.Now().After(deadline) {
		t.Errorf("the node was not left before the deadline: %s later", s.Now().Sub(deadline))
	}
	mustRun(t, s, 4, 2*time.Minute)
	if lowest < 3 {
		t.Errorf("only %d pods ran in between, the budget allows one to be missing", lowest)
	}
	off := c.Labels[model.LabelInstanceType] + "/" + c.Labels[model.LabelZone] + "/spot"
	if h, err := ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", s.Now()); err != nil || h[off].Interruptions != 1 {
		t.Errorf("the interruption of %s is not remembered: %+v (%v)", off, h, err)
	}
	// and what is remembered is in the worlds that strategies are asked about
	i := slices.IndexFunc(s.current.c.Mirror().World(s.Now()).Offerings["default"], func(o *model.Offering) bool { return o.Key() == off })
	if i < 0 {
		t.Fatalf("%s is not sold any more", off)
	}
	if o := s.current.c.Mirror().World(s.Now()).Offerings["default"][i]; o.Interruptions != 1 || o.LastInterruption.IsZero() || o.LastInterruption.After(deadline) {
		t.Errorf("%s in the world: %d interruptions, the last %s", off, o.Interruptions, o.LastInterruption)
	}
	s.Run(5 * time.Second)
	if n, err := ledger.Notices(t.Context(), store, "test", s.Now()); err != nil || len(n) != 1 || n[0].State != ledger.NoticeDone {
		t.Errorf("notices %+v (%v), expected one that is done", n, err)
	}
	if !s.hasEvent("SpotInterrupted", "AWS takes the spot instance back") {
		t.Errorf("no event tells of the interruption")
	}
	v.check()
}

// A death between the notice and its end: the next controller finds the face on the
// claim or the notice in the ledger.
func TestInterruptionSurvivesACrash(t *testing.T) {
	t.Parallel()
	for k := range 12 {
		s := newScene(t, nil, pool("spot", model.Spot))
		v := watch(t, s)
		s.Workloads = append(s.Workloads, web(4))
		mustRun(t, s, 4, 3*time.Minute)
		c := s.claim(t)
		id := model.InstanceID(c.ProviderID)
		deadline := s.Now().Add(2 * time.Minute).Truncate(time.Second)
		n := model.Notice{EventID: "e-1", Kind: model.NoticeSpot, InstanceID: id, Time: s.Now(), Deadline: &deadline, Action: "terminate"}
		// As the Lambda does it: the ledger has it before anybody acts.
		if _, _, err := ledger.PutNotice(t.Context(), s.Ledger, "test", ledger.NoticeOf(n, s.Now()), s.Now()); err != nil {
			t.Fatal(err)
		}
		if err := s.EC2.Reclaim(id); err != nil {
			t.Fatal(err)
		}
		at := s.Performed + k
		s.Crash = func(i int, _ bool, _ execute.Effect) bool { return s.Crashes == 0 && i >= at }
		if !s.Until(2*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
			t.Errorf("crash %d: the node was not left before the deadline", k)
		}
		mustRun(t, s, 4, 2*time.Minute)
		v.check()
	}
}

func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	ours := map[string]string{execute.TagCluster: "test", execute.TagPool: "default", execute.TagLaunch: "gone"}
	t.Run("an instance that nobody knows is ended, a foreign one is not", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		a, err := s.EC2.AddForeign("m5.large", "us-east-1a", ours)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.EC2.AddForeign("m5.large", "us-east-1a", map[string]string{execute.TagCluster: "other", execute.TagPool: "default"})
		if err != nil {
			t.Fatal(err)
		}
		s.Run(2 * time.Minute)
		if m, _ := s.EC2.Machine(a); m.EndingAt.IsZero() {
			t.Error("the orphan lives on after two minutes")
		}
		if m, _ := s.EC2.Machine(b); !m.EndingAt.IsZero() {
			t.Error("an instance of another cluster was ended")
		}
	})
	t.Run("more than the brake allows stops it until a person releases it", func(t *testing.T) {
		t.Parallel()
		p := pool("default", model.OnDemand)
		s := newScene(t, nil, p)
		for range 7 {
			if _, err := s.EC2.AddForeign("m5.large", "us-east-1a", ours); err != nil {
				t.Fatal(err)
			}
		}
		s.Run(8 * time.Minute)
		if n := s.Machines(); n != 4 || !s.hasEvent("GarbageCollectionStopped", "stands still") {
			t.Fatalf("%d orphans are left, expected the brake to hold at 4", n)
		}
		s.Run(10 * time.Minute)
		if n := s.Machines(); n != 4 {
			t.Errorf("%d orphans are left: time alone released the brake", n)
		}
		released := *s.API.Pools["default"]
		released.Annotations = map[string]string{execute.AnnotationRelease: s.Now().Format(time.RFC3339)}
		s.API.PutPool(&released)
		s.Run(2 * time.Minute)
		if n := s.Machines(); n != 1 {
			t.Errorf("%d orphans are left after the release, expected three more to be ended", n)
		}
	})
	t.Run("a claim whose instance died is replaced", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		v := watch(t, s)
		s.Workloads = append(s.Workloads, web(1))
		mustRun(t, s, 1, 3*time.Minute)
		c := s.claim(t)
		if err := s.EC2.Fail(model.InstanceID(c.ProviderID)); err != nil {
			t.Fatal(err)
		}
		if !s.Until(4*time.Minute, func() bool { return s.API.Claims[c.Name] == nil && s.Running("web") == 1 }) {
			t.Errorf("the claim is still there: %+v; %d pods run", s.API.Claims[c.Name], s.Running("web"))
		}
		v.check()
	})
	t.Run("a node that serves is adopted, not ended", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		s.Workloads = append(s.Workloads, web(1))
		mustRun(t, s, 1, 3*time.Minute)
		c := s.claim(t)
		clear(s.API.Owner) // nobody's garbage collector takes the node away
		lost := *c
		lost.Finalizers = nil
		s.API.Claims[c.Name] = &lost
		if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil {
			t.Fatal(err)
		}
		if s.API.Claims[c.Name] != nil {
			t.Fatal("the claim was not taken away by force")
		}
		ok := s.Until(2*time.Minute, func() bool {
			n := s.API.Claims[c.Name]
			return n != nil && n.ProviderID == c.ProviderID && n.Is(model.CondReady)
		})
		if !ok || s.Machines() != 1 || s.Running("web") != 1 {
			t.Errorf("not adopted: claims %v, %d machines, %d pods", s.API.Claims, s.Machines(), s.Running("web"))
		}
	})
	t.Run("a claim taken away by force takes its node along", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, pool("default", model.OnDemand))
		s.Workloads = append(s.Workloads, web(1))
		mustRun(t, s, 1, 3*time.Minute)
		c := s.claim(t)
		lost := *c
		lost.Finalizers = nil
		s.API.Claims[c.Name] = &lost
		if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil { // owner garbage collection deletes the node
			t.Fatal(err)
		}
		node := s.API.Nodes[c.NodeName]
		if node == nil || node.Deleting == nil {
			t.Fatalf("the node is not being deleted: %+v", node)
		}
		if !s.Until(5*time.Minute, func() bool { return s.API.Nodes[c.NodeName] == nil && s.Running("web") == 1 && s.Machines() == 1 }) {
			t.Errorf("node %v, %d pods, %d machines", s.API.Nodes[c.NodeName], s.Running("web"), s.Machines())
		}
	})
}

// B116: made and deleted before any watch told of it.
func TestClaimThatNoWatchShows(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(1))
	hidden := ""
	saw := s.Saw
	s.Saw = func(now time.Time, r execute.Result) {
		saw(now, r)
		if d, ok := r.Effect.Do.(execute.CreateClaim); ok && hidden == "" && r.Err == nil {
			hidden = d.Claim.Name
			s.API.Vanish(hidden)
		}
	}
	mustRun(t, s, 1, 4*time.Minute)
	if s.API.Claims[hidden] != nil || hidden == "" {
		t.Errorf("claim %q is there", hidden)
	}
	s.Run(2 * time.Minute)
	if s.Machines() != 1 || s.current.c.Mirror().Claim(hidden) != nil {
		t.Errorf("%d machines; the vanished claim is still assumed: %v", s.Machines(), s.current.c.Mirror().Claim(hidden))
	}
	v.check()
}

// B067: expiry obeys no budget, and pods get their new place.
func TestExpiryObeysNoBudget(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	p.ExpireAfter, p.Budgets = time.Hour, []model.Budget{{Nodes: "0"}}
	s := newScene(t, nil, p)
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	s.Run(c.Created.Add(time.Hour - time.Minute).Sub(s.Now()))
	if s.API.Claims[c.Name] == nil || s.API.Claims[c.Name].Deleting != nil {
		t.Fatal("expired too early")
	}
	if !s.Until(5*time.Minute, func() bool { return s.API.Claims[c.Name] == nil && s.Running("web") == 1 }) {
		t.Errorf("claim %v after its time, %d pods run", s.API.Claims[c.Name], s.Running("web"))
	}
	v.check()
}

func TestDeletingANodeDrainsAndReplacesIt(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"node", "nodeclaim"} {
		s := newScene(t, nil, pool("default", model.OnDemand))
		v := watch(t, s)
		s.Workloads = append(s.Workloads, web(1))
		mustRun(t, s, 1, 3*time.Minute)
		c := s.claim(t)
		var err error
		if what == "node" {
			err = s.API.DeleteNode(context.Background(), c.NodeName, "")
		} else {
			err = s.API.DeleteClaim(context.Background(), c.Name, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		if !s.Until(5*time.Minute, func() bool {
			return s.API.Claims[c.Name] == nil && s.API.Nodes[c.NodeName] == nil && s.Running("web") == 1 && s.Machines() == 1
		}) {
			t.Errorf("deleting the %s: claim %v, node %v, %d pods, %d machines", what, s.API.Claims[c.Name], s.API.Nodes[c.NodeName], s.Running("web"), s.Machines())
		}
		v.check()
	}
}

// A protected pod holds its node until the grace period of the node is over, and
// gets no new place before it goes.
func TestProtectedPodHoldsTheNode(t *testing.T) {
	t.Parallel()
	p := pool("default", model.OnDemand)
	grace := 10 * time.Minute
	p.TerminationGP = &grace
	s := newScene(t, nil, p)
	w := web(1)
	w.Pod = func(p *model.Pod) { p.Annotations = map[string]string{model.AnnotationDoNotDisrupt: "true"} }
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	began := s.Now()
	if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil {
		t.Fatal(err)
	}
	s.Run(9 * time.Minute)
	if s.Running("web") != 1 || s.Machines() != 1 {
		t.Fatalf("%d pods run on %d machines within the grace period, expected 1 on 1", s.Running("web"), s.Machines())
	}
	if !s.Until(3*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Error("the node is held beyond its grace period")
	}
	if took := s.Now().Sub(began); took > grace+time.Minute {
		t.Errorf("gone after %s", took)
	}
	mustRun(t, s, 1, 3*time.Minute)
}

// A claim that a person wrote is launched by what it asks for.
func TestClaimMadeByHand(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	v := watch(t, s)
	_, err := s.API.CreateClaim(t.Context(), &model.Claim{
		Name: "mine", NodeClass: model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}, ExpireAfter: model.Never,
		Requirements: require.NewSet(require.Must(model.LabelCapacityType, "In", model.OnDemand), require.Must(model.LabelZone, "In", "us-east-1b")),
		Requests:     resource.New(3000, gib, 1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Until(3*time.Minute, func() bool { return s.claim(t).Is(model.CondReady) }) {
		t.Fatalf("not ready: %+v", s.claim(t))
	}
	c := s.claim(t)
	if c.Labels[model.LabelInstanceType] != "m5.xlarge" || c.Labels[model.LabelZone] != "us-east-1b" || c.Labels[model.LabelCapacityType] != model.OnDemand {
		t.Errorf("it got %v", c.Labels)
	}
	if !strings.Contains(strings.Join(c.Finalizers, ","), model.FinalizerTermination) {
		t.Errorf("no finalizer: %v", c.Finalizers)
	}
	v.check()
}

// B071: claims of another hash version are taken over without rolling them.
func TestHashOfAnotherVersionRollsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	old := s.claim(t)
	if err := s.API.PatchClaim(t.Context(), execute.ClaimPatch{Name: old.Name, UID: old.UID, Annotations: map[string]string{
		model.AnnotationPoolHash: "777", model.AnnotationPoolHashVersion: "v2"}}); err != nil {
		t.Fatal(err)
	}
	s.Run(time.Minute)
	c := s.API.Claims[old.Name]
	if c == nil || c.Annotations[model.AnnotationPoolHash] != "1" || c.Annotations[model.AnnotationPoolHashVersion] != "v3" || c.Is(model.CondDrifted) {
		t.Errorf("claim %+v", c)
	}
}

var _ executetest.Stepper = (*stepper)(nil)

// Two that believe to lead: the one with the earlier epoch opens nothing any more.
func TestAnEarlierLeaderIsFencedOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	v := watch(t, s)
	w := web(1)
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 1, 3*time.Minute)
	bought := len(s.EC2.Machines())
	if _, err := ledger.Save(t.Context(), s.Ledger, ledger.FenceKey("test"), ledger.Fence{Epoch: 99}, ledger.Meta{}, ledger.Any, s.Now()); err != nil {
		t.Fatal(err)
	}
	w.Replicas = 4
	s.Run(time.Minute)
	if n := len(s.EC2.Machines()); n != bought {
		t.Errorf("%d machines were bought by a leader of the past", n-bought)
	}
	if leads, why := s.current.c.Leading(); leads || !strings.Contains(why, "epoch") {
		t.Errorf("it still leads: %t, %q", leads, why)
	}
	v.check()
}

// What a pool wants done about a rebalance recommendation, and what other kinds do.
func TestOtherNotices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind      model.NoticeKind
		rebalance string
		state     string
		after     time.Duration
		cordoned  bool // while it lives on
		gone      bool
	}{
		{kind: model.NoticeRebalance, after: 3 * time.Minute},
		{kind: model.NoticeRebalance, rebalance: "cordon", after: 20 * time.Minute, cordoned: true},
		{kind: model.NoticeRebalance, rebalance: "cordon", after: 33 * time.Minute},
		{kind: model.NoticeRebalance, rebalance: "replace-then-drain", after: 3 * time.Minute, gone: true},
		{kind: model.NoticeScheduled, state: "upcoming", after: 3 * time.Minute, gone: true},
		{kind: model.NoticeScheduled, state: "closed", after: 3 * time.Minute},
		{kind: model.NoticeStopped, after: 3 * time.Minute, gone: true},
		{kind: model.NoticeTerminated, after: 3 * time.Minute, gone: true},
		{kind: model.NoticeStatus, after: 3 * time.Minute, gone: true},
	} {
		t.Run(fmt.Sprintf("%s-%s%s-%s", tt.kind, tt.rebalance, tt.state, tt.after), func(t *testing.T) {
			t.Parallel()
			p := pool("spot", model.Spot)
			p.ConsolidateAfter = model.Never
			if tt.rebalance != "" {
				p.Annotations = map[string]string{model.AnnotationRebalance: tt.rebalance}
			}
			s := newScene(t, nil, p)
			v := watch(t, s)
			s.Workloads = append(s.Workloads, web(2))
			mustRun(t, s, 2, 3*time.Minute)
			c := s.claim(t)
			n := model.Notice{EventID: "e-1", Kind: tt.kind, InstanceID: model.InstanceID(c.ProviderID), Time: s.Now(), State: tt.state, Action: "stopping"}
			if tt.kind == model.NoticeScheduled {
				at := s.Now().Add(48 * time.Hour)
				n.Deadline, n.EventARN = &at, "arn:x"
			}
			if tt.kind == model.NoticeTerminated {
				if err := s.EC2.Fail(n.InstanceID); err != nil {
					t.Fatal(err)
				}
			}
			s.current.in = append(s.current.in, control.Notice{Notice: n}, control.Notice{Notice: n}) // twice: once is enough
			s.Run(tt.after)
			now := s.API.Claims[c.Name]
			if gone := now == nil; gone != tt.gone {
				t.Errorf("gone %t, expected %t: %+v", gone, tt.gone, now)
			}
			if now != nil {
				cordoned := false
				for _, x := range s.API.Nodes[c.NodeName].Taints {
					cordoned = cordoned || x.Key == model.TaintDisrupted
				}
				if cordoned != tt.cordoned {
					t.Errorf("cordoned %t, expected %t", cordoned, tt.cordoned)
				}
			}
			if n := s.Running("web"); n != 2 {
				t.Errorf("%d of 2 pods run", n)
			}
			v.check()
		})
	}
}

// A warning that came before anybody knew whose the instance is.
func TestUnownedNoticeFindsItsOwner(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("spot", model.Spot))
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	at := s.Now().Add(2 * time.Minute)
	n := model.Notice{EventID: "e-1", Kind: model.NoticeSpot, InstanceID: model.InstanceID(c.ProviderID), Time: s.Now(), Deadline: &at}
	if _, _, err := ledger.PutNotice(t.Context(), s.Ledger, ledger.Unowned, ledger.NoticeOf(n, s.Now()), s.Now()); err != nil {
		t.Fatal(err)
	}
	if !s.Until(2*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Error("nobody acted on it")
	}
	mustRun(t, s, 1, 2*time.Minute)
	s.Run(5 * time.Second)
	if list, err := ledger.Notices(t.Context(), s.Ledger, "test", s.Now()); err != nil || len(list) != 1 || list[0].State != ledger.NoticeDone {
		t.Errorf("recorded under our name: %+v (%v)", list, err)
	}
}
