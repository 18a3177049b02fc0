package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
)

func (s *scene) condition(pool, kind string) model.Condition {
	for _, c := range s.API.Status[pool].Conditions {
		if c.Type == kind {
			return c
		}
	}
	return model.Condition{}
}

// TestNothingIsForgottenWhileTheLedgerIsAway: shortages, notices and what was done about
// them reach the ledger when it is back, with the times at which they happened.
func TestNothingIsForgottenWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	store := &flaky{Store: mem.New()}
	s := newScene(t, store, pool("default", model.Spot))
	v := watch(t, s)
	s.Workloads = append(s.Workloads, web(1))
	mustRun(t, s, 1, 3*time.Minute)
	s.Run(10 * time.Second)
	if c := s.condition("default", control.ConditionLedger); c.Status != "True" {
		t.Errorf("condition %+v while the ledger is there", c)
	}
	first := s.claim(t)

	store.down = true
	for _, o := range []string{"m5.large/*/spot", "m5.xlarge/us-east-1a/spot"} {
		if err := s.EC2.SetCapacity(o, 0); err != nil {
			t.Fatal(err)
		}
	}
	short := s.Now()
	at := s.Now().Add(2 * time.Minute).Truncate(time.Second)
	s.current.in = append(s.current.in, control.Notice{Notice: model.Notice{
		EventID: "e-1", Kind: model.NoticeSpot, InstanceID: model.InstanceID(first.ProviderID), Time: s.Now(), Deadline: &at, Action: "terminate"}})
	if !s.Until(3*time.Minute, func() bool { return s.API.Claims[first.Name] == nil }) {
		t.Error("the notice was not acted on without a ledger")
	}
	mustRun(t, s, 1, 5*time.Minute)
	s.Run(time.Minute)
	if c := s.condition("default", control.ConditionLedger); c.Status != "False" || c.Reason != "LedgerUnavailable" {
		t.Errorf("condition %+v while it is away", c)
	}
	if c := s.condition("default", "Ready"); c.Status != "True" {
		t.Errorf("the pool is not ready for want of a ledger: %+v", c)
	}

	back := s.Now()
	store.down = false
	if !s.Until(3*time.Minute, func() bool { return s.condition("default", control.ConditionLedger).Status == "True" }) {
		t.Errorf("condition %+v after it is back", s.condition("default", control.ConditionLedger))
	}
	s.Run(2 * time.Minute)
	if n := s.current.c.Executor().QueuedWrites(); n != 0 {
		t.Errorf("%d writes wait still", n)
	}
	health, err := ledger.Offerings(t.Context(), store, "111122223333", "us-east-1", s.Now())
	if err != nil {
		t.Fatal(err)
	}
	gone := first.Labels[model.LabelInstanceType] + "/" + first.Labels[model.LabelZone] + "/spot"
	for _, o := range []string{"m5.large/us-east-1a/spot", "m5.large/us-east-1b/spot"} {
		if h := health[o]; o != gone && (h.Shortages == 0 || h.LastShortage.Before(short) || !h.LastShortage.Before(back)) {
			t.Errorf("%s: remembered is %+v; it was short after %v and before %v", o, h, short, back)
		}
	}
	if h := health[gone]; h.Interruptions != 1 {
		t.Errorf("%s: remembered is %+v, expected one interruption", gone, h)
	}
	list, err := ledger.Notices(t.Context(), store, "test", s.Now())
	if err != nil || len(list) != 1 || list[0].State != ledger.NoticeDone || list[0].EventID != "e-1" || list[0].Action == "" {
		t.Errorf("notices %+v, %v; want the one, done", list, err)
	}
	v.check()
}

// TestTheDiaryGivesWay: what waits for a ledger that does not come back is bounded, and
// it is the diary that is dropped, oldest first, not what is known of machines.
func TestTheDiaryGivesWay(t *testing.T) {
	t.Parallel()
	store := &flaky{Store: mem.New(), down: true}
	s := newScene(t, store, pool("default", model.OnDemand))
	s.Workloads = append(s.Workloads, web(2))
	mustRun(t, s, 2, 5*time.Minute)
	x := s.current.c.Executor()
	machines := x.QueuedWrites()
	const lines = 6000
	for i := range lines {
		x.Decide(ledger.Decision{At: s.Now(), What: fmt.Sprint(i)}, s.Now())
	}
	if n := x.QueuedWrites(); n > 5100 {
		t.Errorf("%d records wait", n)
	}
	if x.Counters.Forgotten < lines-5000 || x.Counters.Forgotten >= lines {
		t.Errorf("%d lines were dropped", x.Counters.Forgotten)
	}
	store.down = false
	if !s.Until(10*time.Minute, func() bool { return x.QueuedWrites() == 0 }) {
		t.Fatalf("%d records wait still", x.QueuedWrites())
	}
	states, err := ledger.List[ledger.ClaimState](t.Context(), store, ledger.ClaimKey("test", "").Partition, "", s.Now())
	if err != nil || len(states) != len(s.API.Claims) {
		t.Errorf("the ledger knows %d of %d claims (%v); %d records waited", len(states), len(s.API.Claims), err, machines)
	}
	day, err := ledger.List[ledger.Decision](t.Context(), store, ledger.DecisionKey("test", s.Now(), "").Partition, "", s.Now())
	if err != nil || len(day) == 0 || day[len(day)-1].What == "" {
		t.Fatalf("the diary has %d lines (%v)", len(day), err)
	}
	last := false
	for _, d := range day {
		last = last || d.What == fmt.Sprint(lines-1)
		if d.What == "0" {
			t.Error("the oldest line was kept")
		}
	}
	if !last {
		t.Error("the newest line was dropped")
	}
}
