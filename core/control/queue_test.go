package control_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

// settled is what the controller says after each step, until the given time is over.
func (s *scene) settled(d time.Duration) (out []control.NoticeID) {
	s.Until(d, func() bool { out = append(out, s.current.c.Settled()...); return false })
	return out
}

// A source may forget a notice when the ledger has it, when nothing is to be done about it, or when it is nobody's; each once.
func TestSourcesHearWhatIsSettled(t *testing.T) {
	t.Parallel()
	store := &flaky{Store: mem.New()}
	s := newScene(t, store, pool("spot", model.Spot))
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	id := model.InstanceID(s.claim(t).ProviderID)
	at := s.Now().Add(2 * time.Minute)
	tell := func(event, instance string) {
		s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
			EventID: event, Kind: model.NoticeSpot, InstanceID: instance, Time: s.Now(), Deadline: &at, Action: "terminate"}})
	}

	store.down = true
	tell("e-1", id)
	tell("e-2", "i-0fffffffffffffff1")
	if got := s.settled(30 * time.Second); len(got) > 0 {
		t.Errorf("%v are settled: the ledger is away, and the owner of the second may turn up", got)
	}
	want := []control.NoticeID{{EventID: "e-2", Instance: "i-0fffffffffffffff1", Kind: model.NoticeSpot}}
	if got := s.settled(40 * time.Second); !slices.Equal(got, want) {
		t.Errorf("%v are settled after a minute, want %v", got, want)
	}
	store.down = false
	want = []control.NoticeID{{EventID: "e-1", Instance: id, Kind: model.NoticeSpot}}
	if got := s.settled(2 * time.Minute); !slices.Equal(got, want) {
		t.Errorf("%v are settled with the ledger back, want %v", got, want)
	}
	if list, err := ledger.Notices(t.Context(), store, "test", s.Now()); err != nil || len(list) != 1 || list[0].Instance != id {
		t.Errorf("the ledger has %+v (%v)", list, err)
	}
	tell("e-1", id) // it was not deleted in time
	if got := s.settled(5 * time.Second); !slices.Equal(got, want) {
		t.Errorf("%v are settled when it comes again, want %v", got, want)
	}
	tell("e-3", id) // another event of the same kind
	if got := s.settled(5 * time.Second); len(got) != 1 || got[0].EventID != "e-3" {
		t.Errorf("%v are settled after a second event", got)
	}
}

// Before a leader knows what it has, no notice is nobody's, however long EC2 does not answer: it was not looked for yet.
func TestNothingIsNobodysBeforeRecovery(t *testing.T) {
	t.Parallel()
	store := mem.New()
	s := newScene(t, store, pool("spot", model.Spot))
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	id := model.InstanceID(s.claim(t).ProviderID)

	away := true
	s.Lose = func(_ int, e execute.Effect) error {
		if _, ok := e.Do.(execute.Recover); ok && away {
			return errors.New("connection refused")
		}
		return nil
	}
	s.Restart()
	s.Run(time.Second)
	at := s.Now().Add(10 * time.Minute)
	s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
		EventID: "e-1", Kind: model.NoticeSpot, InstanceID: id, Time: s.Now(), Deadline: &at, Action: "terminate"}})
	if got := s.settled(3 * time.Minute); len(got) > 0 {
		t.Fatalf("%v are settled, though nobody has looked whose they are", got)
	}
	away = false
	if got := s.settled(2 * time.Minute); len(got) != 1 || got[0].Instance != id {
		t.Errorf("%v are settled after recovery", got)
	}
	if list, err := ledger.Notices(t.Context(), store, "test", s.Now()); err != nil || len(list) != 1 {
		t.Errorf("the ledger has %+v (%v)", list, err)
	}
}

// A queue that cannot be read shows on the pools; without one they say nothing of it (case B109).
func TestPoolsTellOfTheQueue(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, pool("default", model.Spot))
	w := web(1)
	s.Workloads = append(s.Workloads, w)
	mustRun(t, s, 1, 3*time.Minute)
	s.Run(15 * time.Second)
	if c := s.condition("default", control.ConditionQueue); c.Type != "" {
		t.Errorf("condition %+v without a queue", c)
	}
	for _, tt := range []struct{ down, status string }{{"QueueDoesNotExist", "False"}, {"", "True"}} {
		s.current.in = append(s.current.in, control.Source{Name: "q-x", Down: tt.down})
		s.Run(15 * time.Second)
		if c := s.condition("default", control.ConditionQueue); c.Status != tt.status {
			t.Errorf("condition %+v, want %s", c, tt.status)
		}
	}
	w.Replicas = 2
	mustRun(t, s, 2, 3*time.Minute)
}
