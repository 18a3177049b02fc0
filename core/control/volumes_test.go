package control_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

// databases is a cluster with one pod that has a volume, and one daemon that has another.
// Volumes are detached after detach.
func databases(t *testing.T, detach time.Duration, grace *time.Duration) (*scene, *model.Claim, *[]time.Time) {
	t.Helper()
	p := pool("default", model.OnDemand)
	p.TerminationGP = grace
	s := newScene(t, nil, p)
	s.Detach = detach
	w := web(1)
	w.Pod = func(p *model.Pod) { p.Volumes = []string{"data-1"} }
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	s.API.PutPod(&model.Pod{UID: "uid-agent", Namespace: "kube-system", Name: "agent", Owner: model.Owner{Kind: "DaemonSet", Name: "agent", UID: "ds"}, NodeName: c.NodeName,
		Tolerations: []model.Toleration{{Operator: "Exists"}}, Requests: resource.New(0, 0, 1, 0), Ready: true, Volumes: []string{"cache-1"}, Created: s.Now()})
	var ended []time.Time
	s.Saw = func(now time.Time, r execute.Result) {
		if d, ok := r.Effect.Do.(execute.Terminate); ok && slices.Contains(d.IDs, model.InstanceID(c.ProviderID)) {
			ended = append(ended, now)
		}
	}
	s.Run(10 * time.Second)
	if len(s.API.Volumes) != 2 {
		t.Fatalf("attachments %v, expected those of the pod and of the daemon", s.API.Volumes)
	}
	if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil {
		t.Fatal(err)
	}
	return s, c, &ended
}

// B065: the machine stays until the volumes of the pods that left it are detached; those
// of pods that stay are not waited for.
func TestTheInstanceStaysUntilVolumesAreDetached(t *testing.T) {
	t.Parallel()
	s, c, ended := databases(t, 4*time.Minute, nil)
	s.Run(3 * time.Minute)
	if len(*ended) != 0 {
		t.Fatalf("ended at %v while data-1 is attached", *ended)
	}
	got := s.API.Claims[c.Name].Condition(model.CondVolumesDetached)
	if got.Status != "Unknown" || got.Reason != "AwaitingVolumeDetachment" || !strings.Contains(got.Message, "data-1") || strings.Contains(got.Message, "cache-1") {
		t.Errorf("condition %+v, expected that it awaits data-1 alone", got)
	}
	if !s.hasEvent("AwaitingVolumeDetachment", "data-1") {
		t.Error("no event names the volume")
	}
	detached := false
	if !s.Until(3*time.Minute, func() bool {
		if now := s.API.Claims[c.Name]; now != nil {
			detached = detached || now.Is(model.CondVolumesDetached)
		}
		return s.API.Claims[c.Name] == nil
	}) {
		t.Errorf("still there: %+v", s.API.Claims[c.Name].Conditions)
	}
	if !detached {
		t.Error("the claim never said that its volumes are detached")
	}
}

// The wait survives the controller.
func TestVolumesAreWaitedForByTheNextLeader(t *testing.T) {
	t.Parallel()
	s, c, ended := databases(t, 4*time.Minute, nil)
	s.Run(time.Minute)
	s.Crash = func(int, bool, execute.Effect) bool { return true }
	s.Until(time.Minute, func() bool { return s.Crashes > 0 })
	s.Crash = nil
	s.Run(time.Minute)
	if s.Crashes == 0 || len(*ended) != 0 {
		t.Fatalf("%d crashes, ended at %v while data-1 is attached", s.Crashes, *ended)
	}
	if !s.Until(5*time.Minute, func() bool { return s.API.Claims[c.Name] == nil }) {
		t.Errorf("still there: %+v", s.API.Claims[c.Name].Conditions)
	}
}

// The wait ends with the grace period of the node, with the deadline of an interruption,
// and with the instance, whatever is attached.
func TestTheWaitForVolumesEnds(t *testing.T) {
	t.Parallel()
	const never = 1000 * time.Hour
	last := func(s *scene, name string) model.Condition {
		var got model.Condition
		if !s.Until(10*time.Minute, func() bool {
			if c := s.API.Claims[name]; c != nil {
				got = c.Condition(model.CondVolumesDetached)
			}
			return s.API.Claims[name] == nil
		}) {
			return model.Condition{Message: "never gone"}
		}
		return got
	}
	t.Run("grace period", func(t *testing.T) {
		t.Parallel()
		grace := 3 * time.Minute
		s, c, ended := databases(t, never, &grace)
		began := s.Now()
		got := last(s, c.Name)
		if got.Status != "False" || got.Reason != "TerminationGracePeriodElapsed" {
			t.Errorf("condition %+v", got)
		}
		if len(*ended) == 0 || (*ended)[0].Sub(began) < grace-5*time.Second || (*ended)[0].Sub(began) > grace+5*time.Second {
			t.Errorf("deleted at %s, ended at %v, expected %s later", began, *ended, grace)
		}
	})
	t.Run("interruption", func(t *testing.T) {
		t.Parallel()
		s, c, ended := databases(t, never, nil)
		deadline := s.Now().Add(2 * time.Minute).Truncate(time.Second)
		s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
			EventID: "e-1", Kind: model.NoticeScheduled, InstanceID: model.InstanceID(c.ProviderID), Time: s.Now(), Deadline: &deadline}})
		got := last(s, c.Name)
		if got.Status != "False" || got.Reason != "InterruptionDeadlineElapsed" {
			t.Errorf("condition %+v", got)
		}
		if len(*ended) == 0 || (*ended)[0].Before(deadline) || (*ended)[0].After(deadline.Add(5*time.Second)) {
			t.Errorf("ended at %v, expected at %s", *ended, deadline)
		}
	})
	t.Run("instance", func(t *testing.T) {
		t.Parallel()
		s, c, ended := databases(t, never, nil)
		s.Run(30 * time.Second)
		if err := s.EC2.End(model.InstanceID(c.ProviderID)); err != nil {
			t.Fatal(err)
		}
		if got := last(s, c.Name); got.Message == "never gone" || len(*ended) != 0 {
			t.Errorf("condition %+v, ended at %v: the instance went by itself", got, *ended)
		}
	})
}

// A Node that is being deleted and that only our finalizer holds, since claim and
// instance are gone, is let go.
func TestNodesWithoutClaimAndInstanceAreLetGo(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.OnDemand))
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	c := s.claim(t)
	if err := s.EC2.End(model.InstanceID(c.ProviderID)); err != nil {
		t.Fatal(err)
	}
	if err := s.API.PatchClaim(t.Context(), execute.ClaimPatch{Name: c.Name, UID: c.UID, RemoveFinalizers: c.Finalizers}); err != nil {
		t.Fatal(err)
	}
	if err := s.API.DeleteClaim(t.Context(), c.Name, ""); err != nil {
		t.Fatal(err)
	}
	if n := s.API.Nodes[c.NodeName]; s.API.Claims[c.Name] != nil || n == nil || n.Deleting == nil {
		t.Fatalf("claim %v, node %v: expected a node that only our finalizer holds", s.API.Claims[c.Name], n)
	}
	if !s.Until(3*time.Minute, func() bool { return s.API.Nodes[c.NodeName] == nil }) {
		t.Errorf("held for ever: %+v", s.API.Nodes[c.NodeName])
	}
	mustRun(t, s, 1, 3*time.Minute)
}

// With the taint that says that a machine is off, its volumes are detached before its Node
// goes; without it they are not.
func TestVolumesOfAMachineThatIsGone(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		s, c, _ := databases(t, 1000*time.Hour, nil)
		s.current.in = append(s.current.in, control.ConfigChanged{Settings: control.Settings{OutOfService: on}})
		s.Run(20 * time.Second)
		if err := s.EC2.End(model.InstanceID(c.ProviderID)); err != nil {
			t.Fatal(err)
		}
		if !s.Until(3*time.Minute, func() bool { return s.API.Nodes[c.NodeName] == nil && s.API.Claims[c.Name] == nil }) {
			t.Errorf("taint %v: still there: %+v", on, s.API.Nodes[c.NodeName])
		}
		if _, attached := s.API.Volumes["csi-data-1-"+c.NodeName]; attached == on {
			t.Errorf("taint %v: data-1 is attached: %v", on, attached)
		}
	}
}
