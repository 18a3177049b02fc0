package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// A replacement that was under way when the leader died is gone on with by the next one:
// nothing is bought for it again, and its node leaves only once what was bought is usable.
func TestCommandsSurviveADeath(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"SendLaunch", "CloseLaunch", "PatchNode", "DeleteClaim", "Evict"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after it %t", at, after), func(t *testing.T) {
				t.Parallel()
				p := small()
				s := newScene(t, mem.New(), p)
				v := watch(t, s)
				spread(s, 1)
				mustRun(t, s, 1, 4*time.Minute)
				old := s.claim(t)
				s.Run(time.Minute)
				changing(s, p)
				s.Crash = func(_ int, done bool, e execute.Effect) bool {
					return s.Crashes == 0 && done == after && e.Kind() == at && (at != "PatchNode" || marks(e))
				}
				early, resumed := false, at == "Evict" || at == "DeleteClaim" // the command ends when its claims are being deleted
				var dead *stepper
				var died time.Time
				ok := s.Until(15*time.Minute, func() bool {
					if s.Crashes == 1 && dead == nil {
						dead, died = s.current, s.Now()
					}
					resumed = resumed || dead != nil && s.current != dead && s.Now().Sub(died) < 3*time.Second && s.current.c.Executor().Running()[old.Name]
					usable := 0
					for _, c := range s.API.Claims {
						if c.Name != old.Name && c.Is(model.CondInitialized) {
							usable++
						}
					}
					if c := s.API.Claims[old.Name]; usable == 0 && (c == nil || c.Deleting != nil) {
						early = true
					}
					return s.API.Claims[old.Name] == nil && s.Running("web") == 1
				})
				if !ok || early || s.Crashes != 1 {
					t.Errorf("replaced %t, before the new one was usable %t, deaths %d", ok, early, s.Crashes)
				}
				if !resumed {
					t.Error("the next leader did not know of the command")
				}
				s.Run(5 * time.Minute)
				if n := len(s.EC2.Machines()); n != 2 || s.Machines() != 1 {
					t.Errorf("%d machines were bought, 2 are enough; %d run", n, s.Machines())
				}
				v.check()
			})
		}
	}
}

// marks says whether an effect shows on a node that it is being disrupted.
func marks(e execute.Effect) bool {
	p, ok := e.Do.(execute.PatchNode)
	return ok && len(p.Patch.AddTaints) > 0
}

// What was written down of a command is worth nothing where its claim is another one by
// now, or was never shown to be going.
func TestCommandsOfNothingAreForgotten(t *testing.T) {
	t.Parallel()
	p := small()
	s := newScene(t, mem.New(), p)
	spread(s, 2)
	mustRun(t, s, 2, 4*time.Minute)
	changing(s, p)
	// it dies with the record written and nothing shown
	s.Crash = func(_ int, done bool, e execute.Effect) bool {
		c, ok := e.Do.(execute.PatchClaim)
		if !ok || done || s.Crashes > 0 {
			return false
		}
		for _, x := range c.Patch.Conditions {
			if x.Type == model.CondDisruptionReason {
				return true
			}
		}
		return false
	}
	if !s.Until(15*time.Minute, func() bool { return s.Crashes == 1 }) {
		t.Fatal("no replacement was begun")
	}
	s.Run(2 * time.Second)
	if n := len(s.current.c.Executor().Running()); n != 0 {
		t.Errorf("%d nodes are in a command that nobody was shown", n)
	}
	if !s.Until(30*time.Minute, func() bool {
		for _, c := range s.API.Claims {
			if c.Annotations[model.AnnotationPoolHash] != "1'" {
				return false
			}
		}
		return s.Running("web") == 2
	}) {
		t.Error("not replaced after all")
	}
}
