package respond_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

const zapError = zapcore.DPanicLevel // errors are what these tests provoke

func nop() *zap.Logger { return zap.NewNop() }

// spot is the event for an instance, sent now.
func spot(id, instance, action string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":%q,"time":%q,"region":%q,
		"resources":["arn:aws:ec2:us-east-2a:instance/x"],"detail":{"instance-id":%q,"instance-action":%q}}`, id, account, time.Now().UTC().Format(time.RFC3339), region, instance, action)
}

func stateChange(id, instance, state string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":%q,"time":%q,"region":%q,"detail":{"instance-id":%q,"state":%q}}`,
		id, account, time.Now().UTC().Format(time.RFC3339), region, instance, state)
}

// batch is an SQS batch of bodies with the message ids m1, m2 and so on.
func batch(bodies ...string) []byte {
	type rec struct {
		MessageID string `json:"messageId"`
		Body      string `json:"body"`
	}
	var records []rec
	for i, b := range bodies {
		records = append(records, rec{fmt.Sprintf("m%d", i+1), b})
	}
	b, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		panic(err) // plain fields encode
	}
	return b
}

func handle(t *testing.T, r *respond.Responder, payload []byte) []respond.Outcome {
	t.Helper()
	got, err := r.Handle(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	resp, ok := got.(*respond.Response)
	if !ok {
		t.Fatalf("answer %T, want a response", got)
	}
	return resp.Outcomes
}

func failures(t *testing.T, r *respond.Responder, payload []byte) []string {
	t.Helper()
	got, err := r.Handle(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	resp, ok := got.(*respond.BatchResponse)
	if !ok {
		t.Fatalf("answer %T, want that of a batch", got)
	}
	out := []string{}
	for _, f := range resp.BatchItemFailures {
		out = append(out, f.ItemIdentifier)
	}
	return out
}

// living is a ledger in which a scaler gave a sign of life now.
func living(t *testing.T) *mem.Store {
	t.Helper()
	s := mem.New()
	if err := ledger.Beat(t.Context(), s, cluster, ledger.Heartbeat{At: time.Now(), Active: true}); err != nil {
		t.Fatal(err)
	}
	return s
}

func wantWrites(t *testing.T, f *fake, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestSpotWithoutALedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a", "b"))
		r := responder(t, f, nil)
		start := time.Now()
		got := handle(t, r, []byte(spot("e1", i1, "terminate")))
		if len(got) != 1 || got[0].Action != interrupt.Drain || !got[0].Done || got[0].Evicted != 2 || got[0].Waiting != 0 || got[0].Node != "n1" {
			t.Errorf("outcome %+v", got)
		}
		writes := f.writes()
		slices.Sort(writes[3:])
		if diff := cmp.Diff([]string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a", "evict b"}, writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		face, ok, err := interrupt.ReadFace(f.nodes["n1"].Claim.Annotations)
		if !ok || err != nil || face.Action != interrupt.Drain || !face.Deadline.Equal(start.Add(2*time.Minute).Truncate(time.Second)) || face.EventID != "e1" {
			t.Errorf("face %+v, %v, %v", face, ok, err)
		}
		if f.nodes["n1"].Labels[model.LabelExcludeLB] != "karpenter" {
			t.Error("the node still takes traffic of load balancers")
		}
	})
}

func TestSameEventAgainDoesNothingAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		store := living(t)
		r := responder(t, f, store)
		e := []byte(spot("e1", i1, "terminate"))
		handle(t, r, e)
		before := len(f.log)
		got := handle(t, r, e)
		if len(f.log) != before {
			t.Errorf("the second time wrote %v", f.log[before:])
		}
		if !got[0].Done || got[0].Evicted != 0 {
			t.Errorf("outcome %+v", got)
		}
		if h, err := ledger.Offerings(t.Context(), store, account, region, time.Now()); err != nil || h["m5.large/us-east-2a/spot"].Interruptions != 1 {
			t.Errorf("offerings %+v, %v; want one interruption", h, err)
		}
	})
}

// A sender's clock that is ahead of ours makes a drain begin now, not in the future.
func TestEventAgainFromAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		r := responder(t, f, living(t))
		now := time.Now().UTC()
		e := []byte(strings.Replace(spot("e1", i1, "terminate"), now.Format(time.RFC3339), now.Add(8*time.Minute).Format(time.RFC3339), 1))
		for range 2 {
			start := time.Now()
			if got := handle(t, r, e); len(got) != 1 || !got[0].Done {
				t.Errorf("outcome %+v", got)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("an empty node was waited for for %v", d)
			}
		}
	})
}

func TestSameEventTwiceInABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		e := spot("e1", i1, "terminate")
		if got := failures(t, responder(t, f, nil), batch(e, e, `{"id":"e1","redelivery":true}`)); len(got) != 0 {
			t.Errorf("failures %v", got)
		}
		wantWrites(t, f, "annotate n1-claim", "taint n1", "delete n1-claim", "evict a")
	})
}

// B104: a second kind of event for a node only moves its deadline.
func TestSecondKindOfEventOnlyMovesTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		store := living(t)
		if got := failures(t, responder(t, f, store), batch(spot("e1", i1, "terminate"), stateChange("e2", i1, "shutting-down"))); len(got) != 0 {
			t.Errorf("failures %v", got)
		}
		wantWrites(t, f, "annotate n1-claim", "taint n1", "delete n1-claim", "annotate n1-claim", "evict a")
		face, _, err := interrupt.ReadFace(f.nodes["n1"].Claim.Annotations)
		if err != nil || !face.Deadline.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) || face.Kind != model.NoticeSpot {
			t.Errorf("face %+v, %v; want the earliest deadline", face, err)
		}
		notices, err := ledger.Notices(t.Context(), store, cluster, time.Now())
		if err != nil || len(notices) != 2 || notices[0].State != ledger.NoticeDone || notices[1].State != ledger.NoticeDone {
			t.Errorf("notices %+v, %v", notices, err)
		}
	})
}

// B106: what cannot be read goes to the dead letters, the rest of the batch is handled.
func TestGarbageInABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		store := living(t)
		bad := `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":42}}`
		bare := `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"` + i1 + `","instance-action":"terminate"}}`
		if got := failures(t, responder(t, f, store), batch("abcd", "{}", bad, bare)); len(got) != 0 {
			t.Errorf("failures %v, want none: parse errors never get better", got)
		}
		wantWrites(t, f, "annotate n1-claim", "taint n1", "delete n1-claim", "evict a")
		letters, err := ledger.List[respond.DeadLetter](t.Context(), store, cluster+"/deadletter", "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, l := range letters {
			reasons = append(reasons, l.Message+" "+l.Reason)
		}
		want := []string{"m1 event: is not the JSON of an event: invalid character 'a' looking for beginning of value",
			"m2 event: has no source or no detail-type, expected an EventBridge event", "m3 event: detail: instance-id is number, expected text"}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Errorf("dead letters (-want +got):\n%s", diff)
		}
		if got := failures(t, responder(t, newFake(), nil), batch("abcd")); len(got) != 0 {
			t.Errorf("failures %v without a ledger, want none", got)
		}
	})
}

func TestGarbageThatComesAloneIsHandedBack(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"abcd", "{}", ""} {
		if got, err := responder(t, newFake(), nil).Handle(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), "event cannot be read") {
			t.Errorf("%q: %v, %v; want an error for the dead-letter queue of the function", payload, got, err)
		}
		if got, err := responder(t, newFake(), mem.New()).Handle(t.Context(), []byte(payload)); err != nil {
			t.Errorf("%q with a ledger: %v, %v", payload, got, err)
		}
	}
}

// B107: each message is acknowledged by its own outcome.
func TestWriteThatFailsComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"), spotNode("n2", i2, "b"))
		store := &brittle{Store: living(t), instance: i2}
		r := responder(t, f, store)
		if diff := cmp.Diff([]string{"m2"}, failures(t, r, batch(spot("e1", i1, "terminate"), spot("e2", i2, "terminate")))); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		store.instance = ""
		if got := failures(t, r, batch(spot("e2", i2, "terminate"))); len(got) != 0 {
			t.Errorf("failures %v on redelivery", got)
		}
		writes := strings.Join(f.writes(), ",")
		if strings.Count(writes, "evict a") != 1 || strings.Count(writes, "evict b") != 1 {
			t.Errorf("writes %s, want two drains", writes)
		}
	})
}

func TestTaintsEveryNodeBeforeItEvicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"), spotNode("n2", i2, "b"))
		failures(t, responder(t, f, nil), batch(spot("e1", i1, "terminate"), spot("e2", i2, "terminate")))
		writes := f.writes()
		first := slices.IndexFunc(writes, func(s string) bool { return strings.HasPrefix(s, "evict") })
		for _, node := range []string{"taint n1", "taint n2"} {
			if i := slices.Index(writes, node); i < 0 || i > first {
				t.Errorf("%s is not before the first eviction: %v", node, writes)
			}
		}
	})
}

// A budget holds until the time is over; then the message comes again and the drain goes on.
func TestBudgetHoldsAndTheMessageComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a", "kept"))
		f.blocked["kept"] = true
		r := respond.New(respond.Config{Cluster: f, Log: nop(), ClusterName: cluster, TimeBox: 30 * time.Second})
		e := batch(spot("e1", i1, "terminate"))
		if diff := cmp.Diff([]string{"m1"}, failures(t, r, e)); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		if slices.Contains(f.writes(), "evict kept") {
			t.Error("a pod was evicted against its budget")
		}
		f.mu.Lock()
		f.blocked["kept"] = false
		f.mu.Unlock()
		if got := failures(t, r, e); len(got) != 0 {
			t.Errorf("failures %v after the budget allowed it", got)
		}
		wantWrites(t, f, "annotate n1-claim", "taint n1", "delete n1-claim", "evict a", "evict kept")
	})
}

func TestTimeOfTheInvocationIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "kept"))
		f.blocked["kept"] = true
		start := time.Now()
		_, err := respond.New(respond.Config{Cluster: f, Log: nop(), ClusterName: cluster, TimeBox: 20 * time.Second}).Handle(t.Context(), []byte(spot("e1", i1, "terminate")))
		if err == nil || !strings.Contains(err.Error(), "drain is not finished") || !strings.Contains(err.Error(), "kept") {
			t.Errorf("error %v, want one that names the pod", err)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("it took %v of 20 s", d)
		}
	})
}

func TestInstanceThatIsGoneEndsTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "kept"))
		f.blocked["kept"] = true
		r := respond.New(respond.Config{Cluster: f, Log: nop(), ClusterName: cluster, TimeBox: 10 * time.Minute})
		got := handle(t, r, []byte(spot("e1", i1, "terminate")))
		if !got[0].Done || !strings.Contains(got[0].Reason, "the instance is gone by now") {
			t.Errorf("outcome %+v", got)
		}
	})
}

func TestHeartbeatRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beat *ledger.Heartbeat // At is an age here
		acts bool
	}{
		"no scaler ever":          {nil, false},
		"a passive one":           {&ledger.Heartbeat{Active: false}, false},
		"active, but a day ago":   {&ledger.Heartbeat{Active: true, At: time.Time{}.Add(24 * time.Hour)}, false},
		"active within the day":   {&ledger.Heartbeat{Active: true, At: time.Time{}.Add(23 * time.Hour)}, true},
		"active until just now":   {&ledger.Heartbeat{Active: true}, true},
		"ledger cannot be read":   {nil, true},
		"no ledger is configured": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(spotNode("n1", i1, "a"))
				var store ledger.Store = mem.New()
				if c.beat != nil {
					b := *c.beat
					b.At = time.Now().Add(-c.beat.At.Sub(time.Time{}))
					if err := ledger.Beat(t.Context(), store, cluster, b); err != nil {
						t.Fatal(err)
					}
				}
				away := name == "ledger cannot be read"
				if away {
					store = &brittle{Store: store, away: true}
				}
				if name == "no ledger is configured" {
					store = nil
				}
				got := failures(t, responder(t, f, store), batch(spot("e1", i1, "terminate")))
				if acted := len(f.writes()) > 0; acted != c.acts {
					t.Errorf("acted %v, want %v: %v", acted, c.acts, f.writes())
				}
				if (len(got) > 0) != away {
					t.Errorf("failures %v: only what was not recorded comes again", got)
				}
			})
		})
	}
}

func TestWhatItDoesByKind(t *testing.T) {
	t.Parallel()
	event := func(detailType, detail string) string {
		return fmt.Sprintf(`{"version":"0","id":"e1","detail-type":%q,"source":"aws.ec2","account":%q,"time":%q,"region":%q,"detail":%s}`, detailType, account, time.Now().UTC().Format(time.RFC3339), region, detail)
	}
	rebalance := func() string { return event("EC2 Instance Rebalance Recommendation", `{"instance-id":"`+i1+`"}`) }
	for name, c := range map[string]struct {
		payload func() string
		pool    string
		node    func(*model.Node)
		action  interrupt.Action
		want    []string
	}{
		"rebalance is recorded":       {rebalance, "", nil, interrupt.Record, nil},
		"rebalance cordons":           {rebalance, "cordon", nil, interrupt.Cordon, []string{"annotate n1-claim", "taint n1"}},
		"rebalance is for the scaler": {rebalance, "replace-then-drain", nil, interrupt.ReplaceThenDrain, []string{"annotate n1-claim"}},
		"terminated":                  {func() string { return stateChange("e1", i1, "terminated") }, "", nil, interrupt.Remove, []string{"annotate n1-claim", "taint n1", "delete n1-claim"}},
		"stopping":                    {func() string { return stateChange("e1", i1, "STOPPING") }, "", nil, interrupt.Drain, []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a"}},
		"running":                     {func() string { return stateChange("e1", i1, "running") }, "", nil, interrupt.Ignore, nil},
		"hibernate":                   {func() string { return spot("e1", i1, "hibernate") }, "", nil, interrupt.Drain, []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a"}},
		"not ours":                    {func() string { return spot("e1", foreign, "terminate") }, "", nil, interrupt.Ignore, nil},
		"without a claim":             {func() string { return spot("e1", i1, "terminate") }, "", func(n *model.Node) { n.Claim = nil }, interrupt.Ignore, nil},
		"of another account":          {func() string { return strings.ReplaceAll(spot("e1", i1, "terminate"), account, "444455556666") }, "", nil, interrupt.Ignore, nil},
		"of another region":           {func() string { return strings.ReplaceAll(spot("e1", i1, "terminate"), `"us-east-2"`, `"eu-west-1"`) }, "", nil, interrupt.Ignore, nil},
		"has not joined":              {func() string { return spot("e1", i1, "terminate") }, "", func(n *model.Node) { n.Name, n.UID = "", "" }, interrupt.Drain, []string{"annotate n1-claim", "delete n1-claim"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := spotNode("n1", i1, "a")
				f := newFake(n)
				if c.node != nil {
					c.node(n)
				}
				f.pools["default"] = map[string]string{model.AnnotationRebalance: c.pool}
				got := handle(t, responder(t, f, living(t)), []byte(c.payload()))
				if len(got) != 1 || got[0].Action != c.action || !got[0].Done || got[0].Reason == "" {
					t.Errorf("outcome %+v, want %s", got, c.action)
				}
				if diff := cmp.Diff(c.want, f.writes(), cmp.Transformer("none", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if c.action == interrupt.Remove && n.Claim.Annotations[model.AnnotationTerminationTimestamp] == "" {
					t.Error("the claim of a dead instance would still wait for budgets")
				}
			})
		})
	}
}

// A notice that came before its node waits for an owner, and not for ever.
func TestUnknownInstanceWaitsForAnOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := living(t)
		handle(t, responder(t, newFake(), store), []byte(spot("e1", i1, "terminate")))
		of := func(c string) int {
			n, err := ledger.Notices(t.Context(), store, c, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return len(n)
		}
		if of(cluster) != 0 || of(ledger.Unowned) != 1 {
			t.Errorf("%d notices of the cluster, %d without an owner; want 0 and 1", of(cluster), of(ledger.Unowned))
		}
		time.Sleep(ledger.UnownedTTL)
		if of(ledger.Unowned) != 0 {
			t.Error("it waits for ever")
		}
	})
}

// A planned change that is days away is for the scaler. Where none gives a sign of life it drains gently.
func TestPlannedChangeDoesNotHurry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scaler time.Duration // age of its heartbeat
		fails  bool          // the notice cannot be recorded
		want   []string
		reason string
	}{
		"a scaler lives":              {0, false, []string{}, "left to the scaler, which lives"},
		"but would not hear of it":    {0, true, []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a"}, "conditional write failed"},
		"the scaler has been silent":  {2 * ledger.HeartbeatStale, false, []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a"}, "the rest of the drain is left to the scaler"},
		"the scaler died hours ago":   {20 * time.Hour, false, []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a"}, "the rest of the drain is left to the scaler"},
		"no scaler for more than day": {25 * time.Hour, false, []string{}, "no scaler of this cluster was active"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(spotNode("n1", i1, "a", "kept"))
				f.blocked["kept"] = true
				store := &brittle{Store: mem.New()}
				if err := ledger.Beat(t.Context(), store, cluster, ledger.Heartbeat{At: time.Now().Add(-c.scaler), Active: true}); err != nil {
					t.Fatal(err)
				}
				if c.fails {
					store.instance = i1
				}
				payload := fmt.Sprintf(`{"version":"0","id":"e1","detail-type":"AWS Health Event","source":"aws.health","account":%q,"time":%q,"region":%q,"detail":{"eventArn":"arn:x","service":"EC2","eventTypeCategory":"scheduledChange",
					"startTime":%q,"affectedEntities":[{"entityValue":%q},{"entityValue":%q}]}}`, account, time.Now().UTC().Format(time.RFC3339), region, time.Now().UTC().Add(72*time.Hour).Format(time.RFC1123), i1, foreign)
				answer, err := responder(t, f, store).Handle(t.Context(), batch(payload))
				if got := answer.(*respond.BatchResponse); err != nil || len(got.BatchItemFailures) > 0 != c.fails {
					t.Errorf("answer %+v, %v", got, err)
				}
				if diff := cmp.Diff(c.want, append([]string{}, f.writes()...)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if c.fails {
					return
				}
				got := handle(t, responder(t, f, store), []byte(payload))
				if len(got) != 2 || !got[0].Done || !strings.Contains(got[0].Reason, c.reason) || got[1].Action == interrupt.Drain {
					t.Errorf("outcomes %+v, want the reason %q", got, c.reason)
				}
			})
		})
	}
}

// The schedule carries on with what no living scaler will.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "kept"))
		f.blocked["kept"] = true
		store := living(t)
		r := respond.New(respond.Config{Cluster: f, Ledger: store, Log: nop(), ClusterName: cluster, Account: account, Region: region, TimeBox: 20 * time.Second})
		if diff := cmp.Diff([]string{"m1"}, failures(t, r, batch(spot("e1", i1, "terminate")))); diff != "" {
			t.Fatalf("failures (-want +got):\n%s", diff)
		}
		tick := []byte(`{"source":"aws.events","detail-type":"Scheduled Event","detail":{}}`)
		before := len(f.log)
		f.blocked["kept"] = false
		if got := handle(t, r, tick); len(got) != 0 || len(f.log) != before {
			t.Errorf("outcomes %+v, writes %v, although a scaler lives", got, f.log[before:])
		}
		time.Sleep(ledger.HeartbeatStale)
		if got := handle(t, r, tick); len(got) != 1 || !got[0].Done || got[0].Evicted != 1 {
			t.Errorf("outcomes %+v, want the drain to be finished", got)
		}
		if got := handle(t, r, tick); len(got) != 0 {
			t.Errorf("outcomes %+v, want nothing left", got)
		}
		if got := handle(t, responder(t, f, nil), tick); len(got) != 0 {
			t.Errorf("outcomes %+v without a ledger", got)
		}
	})
}

func TestClusterThatCannotBeReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"), spotNode("n2", i2, "b"))
		for _, verb := range []string{"find " + i1, "annotate n1-claim", "taint n1", "delete n1-claim", "pods n1"} {
			f.fail = map[string]error{verb: fmt.Errorf("%s: connection refused", verb)}
			if diff := cmp.Diff([]string{"m1"}, failures(t, responder(t, f, nil), batch(spot("e1", i1, "terminate"), spot("e2", i2, "terminate")))); diff != "" {
				t.Errorf("%s fails: failures (-want +got):\n%s", verb, diff)
			}
		}
		f.fail = nil
		if got := failures(t, responder(t, f, nil), batch(spot("e1", i1, "terminate"))); len(got) != 0 {
			t.Errorf("failures %v when all works again", got)
		}
		writes := strings.Join(f.writes(), ",")
		for _, once := range []string{"annotate n1-claim", "taint n1", "delete n1-claim", "evict a", "evict b"} {
			if strings.Count(writes, once) != 1 {
				t.Errorf("%s happened %d times", once, strings.Count(writes, once))
			}
		}
	})
}
