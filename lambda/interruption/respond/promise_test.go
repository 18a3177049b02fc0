package respond_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/drain"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

// when waits for a write of the fake, in virtual time, and says how long after start it came.
func when(f *fake, write string, start time.Time) time.Duration {
	for !slices.Contains(f.writes(), write) {
		time.Sleep(10 * time.Millisecond)
		if time.Since(start) > 10*time.Minute {
			return -1
		}
	}
	return time.Since(start)
}

// A table that answers nothing at all holds up neither a taint nor an eviction, not even with garbage before it and foreign
// instances beside it; what could not be recorded comes again.
func TestLedgerThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := []string{"abcd", "{}", spot("f", foreign, "terminate")}
		var nodes []*model.Node
		for i := range 40 {
			id := fmt.Sprintf("i-0aaa%03d", i)
			nodes = append(nodes, spotNode(fmt.Sprintf("n%d", i), id, fmt.Sprintf("p%d", i)))
			bodies = append(bodies, spot(fmt.Sprintf("e%d", i), id, "terminate"))
		}
		f := newFake(nodes...)
		r := responder(t, f, &brittle{hangs: true})
		start := time.Now()
		failed := make(chan []string, 1)
		go func() { failed <- failures(t, r, batch(bodies...)) }()
		for i := range 40 {
			for _, write := range []string{"taint n%d", "evict p%d"} {
				if d := when(f, fmt.Sprintf(write, i), start); d < 0 || d > time.Second {
					t.Errorf("%s came after %v, want it within a second", fmt.Sprintf(write, i), d)
				}
			}
		}
		if got := <-failed; len(got) != 41 || slices.Contains(got, "m1") || slices.Contains(got, "m2") {
			t.Errorf("failures %v: all that could not be recorded comes again, and nothing else", got)
		}
	})
}

// What fails for a moment is tried again while there is time, within the invocation.
func TestFailureThatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"find " + i1, "annotate n1-claim", "taint n1", "delete n1-claim", "pods n1"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(spotNode("n1", i1, "a"))
				f.fail = map[string]error{verb: errors.New("connection refused")}
				go func() {
					time.Sleep(3 * time.Second)
					f.mu.Lock()
					defer f.mu.Unlock()
					f.fail = nil
				}()
				got := handle(t, responder(t, f, living(t)), []byte(spot("e1", i1, "terminate")))
				if len(got) != 1 || !got[0].Done || got[0].Evicted != 1 {
					t.Errorf("outcome %+v", got)
				}
				wantWrites(t, f, "annotate n1-claim", "taint n1", "delete n1-claim", "evict a")
				events := slices.DeleteFunc(slices.Clone(f.log), func(s string) bool { return !strings.HasPrefix(s, "emit ") })
				if len(events) != 2 {
					t.Errorf("events %v, want one about the claim and one about the node", events)
				}
			})
		})
	}
}

// The ledger says whose an instance is: nobody looks for one of another cluster, and for one that nobody knows not all nodes are read.
func TestInstancesOfOthersAreNotLookedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		store := living(t)
		if _, err := ledger.Save(t.Context(), store, ledger.InstanceKey(account, region, foreign), ledger.InstanceOwner{Cluster: "other", Claim: "c"}, ledger.Meta{}, ledger.Any, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := handle(t, responder(t, f, store), []byte("["+spot("e1", foreign, "terminate")+","+spot("e2", "i-0bbb", "terminate")+"]"))
		if len(got) != 2 || !strings.Contains(got[0].Reason, "belongs to cluster other") || got[0].Action != interrupt.Ignore || got[1].Action != interrupt.Ignore {
			t.Errorf("outcomes %+v", got)
		}
		if diff := cmp.Diff([]string{"i-0bbb"}, f.looked); diff != "" || f.scans > 0 || len(f.writes()) > 0 {
			t.Errorf("%d scans, writes %v, looked for (-want +got):\n%s", f.scans, f.writes(), diff)
		}
	})
}

// The only ready pod of a workload waits for the machine of its successor, which a living scaler buys: at the latest it goes
// its grace period and 15 s before the deadline. Without a scaler there is nothing to wait for.
func TestLonePodWaitsForItsSuccessor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		living    bool
		successor time.Duration // when another pod is ready, 0 = never
		min, max  time.Duration
	}{
		"nobody buys a machine":  {false, 0, 0, time.Second},
		"its successor is ready": {true, 20 * time.Second, 20 * time.Second, 24 * time.Second},
		"no successor comes":     {true, 0, 2*time.Minute - 30*time.Second - drain.SingleLead - 2*time.Second, 2*time.Minute - 30*time.Second - drain.SingleLead + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := spotNode("n1", i1, "alone", "one-of-many")
				for _, p := range n.Pods {
					p.GracePeriod = 30 * time.Second
				}
				f := newFake(n)
				f.lone = map[string]bool{"alone": true}
				if c.successor > 0 {
					go func() {
						time.Sleep(c.successor)
						f.mu.Lock()
						defer f.mu.Unlock()
						f.lone = nil
					}()
				}
				store := living(t)
				if !c.living {
					time.Sleep(ledger.HeartbeatStale)
				}
				start := time.Now()
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					handle(t, responder(t, f, store), []byte(spot("e1", i1, "terminate")))
				}()
				if d := when(f, "evict one-of-many", start); d > time.Second {
					t.Errorf("the other pod went after %v", d)
				}
				if d := when(f, "evict alone", start); d < c.min || d > c.max {
					t.Errorf("it went after %v, want %v to %v", d, c.min, c.max)
				}
				<-answered
			})
		})
	}
}

// The cordon of a rebalance recommendation ends after half an hour, also where no scaler is left to end it; the cordon of
// something worse does not.
func TestCordonOfARecommendationEnds(t *testing.T) {
	t.Parallel()
	for name, worse := range map[string]bool{"alone": false, "before a spot warning": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(spotNode("n1", i1))
				f.pools["default"] = map[string]string{model.AnnotationRebalance: "cordon"}
				store := living(t)
				r := responder(t, f, store)
				e := fmt.Sprintf(`{"version":"0","id":"e1","detail-type":"EC2 Instance Rebalance Recommendation","source":"aws.ec2","account":%q,"time":%q,"region":%q,"detail":{"instance-id":%q}}`,
					account, time.Now().UTC().Format(time.RFC3339), region, i1)
				tick := []byte(`{"source":"aws.events","detail-type":"Scheduled Event","detail":{}}`)
				handle(t, r, []byte(e))
				want := []string{"annotate n1-claim", "taint n1"}
				time.Sleep(10 * time.Minute)
				if worse {
					handle(t, r, []byte(spot("e2", i1, "terminate")))
					want = append(want, "annotate n1-claim", "delete n1-claim")
				}
				handle(t, r, tick)
				wantWrites(t, f, want...)
				time.Sleep(20 * time.Minute)
				if !worse {
					want = append(want, "annotate n1-claim", "untaint n1")
				}
				for range 2 {
					handle(t, r, tick)
					wantWrites(t, f, want...)
				}
				if tainted := slices.Contains(f.nodes["n1"].Taints, drain.Taint); tainted != worse {
					t.Errorf("tainted %v, want %v", tainted, worse)
				}
				if _, ok, _ := interrupt.ReadFace(f.nodes["n1"].Claim.Annotations); ok != worse {
					t.Errorf("the claim shows a notice: %v, want %v", ok, worse)
				}
				handle(t, r, []byte(e)) // it comes again, late
				wantWrites(t, f, want...)
			})
		})
	}
}

// Where a queue brings every event as well, a drain without the time to end is no error of the invocation, nor what cannot be
// read; what could not be tainted still is.
func TestRelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "kept"))
		f.blocked["kept"] = true
		r := respond.New(respond.Config{Cluster: f, Log: nop(), ClusterName: cluster, TimeBox: 20 * time.Second, Relay: true})
		if got := handle(t, r, []byte(spot("e1", i1, "terminate"))); len(got) != 1 || got[0].Done || !strings.Contains(got[0].Reason, "kept") {
			t.Errorf("outcome %+v", got)
		}
		f.fail = map[string]error{"find " + i1: errors.New("connection refused")}
		if got, err := r.Handle(t.Context(), []byte(spot("e2", i1, "terminate"))); err == nil {
			t.Errorf("%+v, want an error", got)
		}
		if got, err := r.Handle(t.Context(), []byte("abcd")); err != nil {
			t.Errorf("%+v, %v: it is a dead letter of the queue", got, err)
		}
	})
}

// Everything is counted, in lines that CloudWatch reads by itself.
func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a", "b"))
		var out bytes.Buffer
		r := respond.New(respond.Config{Cluster: f, Log: nop(), Metrics: &out, ClusterName: cluster, Account: account, Region: region, TimeBox: time.Minute})
		unknown := `{"source":"aws.ec2","detail-type":"EC2 Fleet State Change","detail":{}}`
		rds := `{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"db-1"}]}}`
		if got := failures(t, r, batch("abcd", "{}", unknown, unknown, rds, spot("e1", i1, "terminate"), spot("e1", i1, "terminate"), spot("e2", foreign, "terminate"))); len(got) != 0 {
			t.Errorf("failures %v", got)
		}
		var lines []string
		for line := range strings.Lines(out.String()) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			var d struct {
				AWS struct {
					Timestamp int64
					Metrics   []struct {
						Namespace  string
						Dimensions [][]string
						Metrics    []struct{ Name, Unit string }
					} `json:"CloudWatchMetrics"`
				} `json:"_aws"`
			}
			if err := json.Unmarshal([]byte(line), &d); err != nil || d.AWS.Timestamp != time.Now().UnixMilli() || len(d.AWS.Metrics) != 1 || d.AWS.Metrics[0].Namespace != respond.Namespace {
				t.Fatalf("%s: %v", line, err)
			}
			m := d.AWS.Metrics[0]
			text := m.Metrics[0].Name + " " + m.Metrics[0].Unit
			for _, k := range m.Dimensions[0] {
				text += fmt.Sprint(" ", l[k])
			}
			lines = append(lines, fmt.Sprint(text, " = ", l[m.Metrics[0].Name]))
		}
		want := []string{
			"Events Count prod HealthEvent ignore = 1",
			"Events Count prod SpotInterruption drain = 1",
			"Events Count prod SpotInterruption ignore = 1",
			"Events Count prod Unknown dead-letter = 2",
			"Events Count prod Unknown ignore = 3", // two of an unknown kind, one that came twice
			"DeadLetters Count prod = 2",
			"Evictions Count prod = 2",
			"TimeToCordon Milliseconds prod = [0]",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Two events that say the same of one instance are one piece of work; each message is answered by what became of it.
func TestEventsThatSayTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(spotNode("n1", i1, "a"))
		store := &brittle{Store: living(t), instance: i1}
		r := responder(t, f, store)
		messages := batch(spot("e1", i1, "terminate"), spot("e2", i1, "terminate"), stateChange("e3", i1, "stopping"))
		if diff := cmp.Diff([]string{"m1", "m2", "m3"}, failures(t, r, messages)); diff != "" {
			t.Errorf("failures while nothing can be recorded (-want +got):\n%s", diff)
		}
		store.instance = ""
		if got := failures(t, r, messages); len(got) != 0 {
			t.Errorf("failures %v", got)
		}
		if n := len(f.looked); n != 4 {
			t.Errorf("the node was looked for %d times, want once for each kind", n)
		}
		if strings.Count(strings.Join(f.writes(), ","), "evict a") != 1 {
			t.Errorf("writes %v", f.writes())
		}
		notices, err := ledger.Notices(t.Context(), store, cluster, time.Now())
		if err != nil || len(notices) != 2 {
			t.Errorf("the ledger has %+v (%v)", notices, err)
		}
	})
}

// letters is a queue for dead letters, or one that takes none.
type letters struct {
	got []string
	err error
}

func (l *letters) Keep(_ context.Context, d respond.DeadLetter) error {
	if l.err == nil {
		l.got = append(l.got, d.Message+" "+d.Body+" "+d.Reason)
	}
	return l.err
}

// What cannot be read goes into the queue for dead letters; where that takes none, into the ledger; nothing comes again for it.
func TestDeadLetterQueue(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]error{"takes it": nil, "is away": errors.New("connection refused")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				queue, store := &letters{err: full}, living(t)
				r := respond.New(respond.Config{Cluster: newFake(), Ledger: store, DeadLetters: queue, Log: nop(), ClusterName: cluster, TimeBox: time.Minute})
				if got := failures(t, r, batch("{}", spot("e1", i1, "terminate"))); len(got) != 0 {
					t.Errorf("failures %v", got)
				}
				if _, err := r.Handle(t.Context(), []byte("abcd")); err != nil {
					t.Error(err)
				}
				kept, err := ledger.List[respond.DeadLetter](t.Context(), store, cluster+"/deadletter", "", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				want := []string{"m1 {} event: has no source or no detail-type, expected an EventBridge event", " abcd event: is not the JSON of an event, an array of events or an SQS batch: invalid character 'a' looking for beginning of value"}
				if full != nil {
					if len(kept) != 2 {
						t.Errorf("the ledger has %+v", kept)
					}
				} else if diff := cmp.Diff(want, queue.got); diff != "" || len(kept) != 0 {
					t.Errorf("the ledger has %+v, the queue (-want +got):\n%s", kept, diff)
				}
			})
		})
	}
}
