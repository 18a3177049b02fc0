package interrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/modeltest"
)

const (
	i1      = "i-0aaa0000000000001"
	i2      = "i-0aaa0000000000002"
	i3      = "i-0aaa0000000000003"
	foreign = "i-0eee0000000000009"
)

var noon = modeltest.Now

// node is a spot node of a pool whose name says nothing about its instance.
func node(name, instance, pool string, opts ...func(*model.Node)) *model.Node {
	all := append([]func(*model.Node){modeltest.Managed(pool), func(n *model.Node) {
		n.ProviderID = model.ProviderID("us-east-2a", instance)
		n.Claim.ProviderID = n.ProviderID
		n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], n.Labels[model.LabelCapacityType] = "m5.large", "us-east-2a", model.Spot
	}}, opts...)
	return modeltest.Node(name, 2000, 8192, nil, all...)
}

func world(nodes ...*model.Node) *model.World {
	if nodes == nil {
		nodes = []*model.Node{node("web-host", i1, "default"), node("other-host", i2, "default")}
	}
	return &model.World{Now: noon, Nodes: nodes, Pools: []*model.Pool{modeltest.Pool("default")}}
}

func ec2(id, detailType, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":%q,"source":"aws.ec2","account":"111122223333","time":"2026-03-01T12:00:00Z","region":"us-east-2","detail":%s}`, id, detailType, detail)
}

func spot(id, instance, action string) string {
	return ec2(id, "EC2 Spot Instance Interruption Warning", fmt.Sprintf(`{"instance-id":%q,"instance-action":%q}`, instance, action))
}

func state(id, instance, state string) string {
	return ec2(id, "EC2 Instance State-change Notification", fmt.Sprintf(`{"instance-id":%q,"state":%q}`, instance, state))
}

func rebalance(id, instance string) string {
	return ec2(id, "EC2 Instance Rebalance Recommendation", fmt.Sprintf(`{"instance-id":%q}`, instance))
}

// lines writes verdicts as "instance node action deadline marks", for comparison.
func lines(verdicts []interrupt.Verdict) []string {
	var out []string
	for _, v := range verdicts {
		deadline := "-"
		if v.Deadline != nil {
			deadline = v.Deadline.Format(time.TimeOnly)
		}
		name := v.Node
		if name == "" {
			name = "-"
		}
		instance := v.Instance
		if instance == "" {
			instance = "-"
		}
		l := fmt.Sprintf("%s %s %s %s", instance, name, v.Action, deadline)
		if v.Marks {
			l += " marks"
		}
		if v.Message != "" {
			l = v.Message + ": " + l
		}
		out = append(out, l)
	}
	return out
}

func array(events ...string) string { return "[" + strings.Join(events, ",") + "]" }

// TestCases replays reported faults; the names are those of the case book.
func TestCases(t *testing.T) {
	t.Parallel()
	health := `{"version":"0","id":"e-3","detail-type":"AWS Health Event","source":"aws.health","account":"111122223333","time":"2026-03-01T12:00:00Z","region":"us-east-2",
		"resources":["` + i1 + `","` + i2 + `"],"detail":{"eventArn":"arn:aws:health:us-east-2::event/EC2/X/X_1","service":"EC2","eventTypeCategory":"scheduledChange",
		"eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","startTime":"Mon, 02 Mar 2026 12:30:00 GMT",
		"affectedEntities":[{"entityValue":"` + i1 + `"},{"entityValue":"` + i2 + `"},{"entityValue":"` + foreign + `"}]}}`
	for name, c := range map[string]struct {
		in   string
		w    *model.World
		want []string
	}{
		"B098 terminate": {strings.Replace(spot("e-1", i1, "terminate"), `"detail":`, `"resources":["arn:aws:ec2:us-east-2a:instance/`+foreign+`"],"detail":`, 1), world(),
			[]string{i1 + " web-host drain 12:02:00 marks"}},
		"B098 stop":      {spot("e-1", i1, "stop"), world(), []string{i1 + " web-host drain 12:02:00 marks"}},
		"B098 hibernate": {spot("e-1", i1, "hibernate"), world(), []string{i1 + " web-host drain 12:00:00 marks"}},
		"B100":           {health, world(), []string{i1 + " web-host drain 12:30:00", i2 + " other-host drain 12:30:00", foreign + " - ignore 12:30:00"}},
		"B101": {array(
			`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"db-1"}]}}`,
			`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"issue","affectedEntities":[]}}`,
			`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"accountNotification","affectedEntities":[{"entityValue":"`+i1+`"}]}}`), world(),
			[]string{"- - ignore -", "- - ignore -", "- - ignore -"}},
		"B103 pending, running": {array(state("a", i1, "pending"), state("b", i1, "running")), world(), []string{i1 + " web-host ignore -", i1 + " web-host ignore -"}},
		"B103 stopping":         {state("c", i1, "stopping"), world(), []string{i1 + " web-host drain -"}},
		"B103 STOPPED":          {state("d", i1, "STOPPED"), world(), []string{i1 + " web-host drain -"}},
		"B103 shutting-down":    {state("e", i1, "shutting-down"), world(), []string{i1 + " web-host drain -"}},
		"B103 terminated":       {state("f", i1, "terminated"), world(), []string{i1 + " web-host remove -"}},
		"B103 one after the other": {array(state("c", i1, "stopping"), state("d", i1, "STOPPED"), state("e", i1, "shutting-down"), state("f", i1, "terminated")), world(),
			[]string{i1 + " web-host drain -", i1 + " web-host record -", i1 + " web-host record -", i1 + " web-host remove -"}},
		"B104": {array(`{"id":"e-7a","detail-type":"EC2 Instance-terminate Lifecycle Action","source":"aws.autoscaling","detail":{"EC2InstanceId":"`+i1+`","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"}}`,
			`{"id":"e-7b","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","detail":{"instance-id":"`+i1+`","state":"shutting-down"}}`,
			`{"id":"e-7b","redelivery":true}`), world(),
			[]string{i1 + " web-host drain -", i1 + " web-host record -", "- - ignore -"}},
		"B106": {`{"Records":[{"messageId":"m1","body":"abcd"},{"messageId":"m2","body":"{}"},
			{"messageId":"m3","body":"{\"source\":\"aws.ec2\",\"detail-type\":\"EC2 Spot Instance Interruption Warning\",\"detail\":{\"instance-id\":42}}"},
			{"messageId":"m4","body":"{\"source\":\"aws.ec2\",\"detail-type\":\"EC2 Spot Instance Interruption Warning\",\"detail\":{\"instance-id\":\"` + i1 + `\",\"instance-action\":\"terminate\"}}"}]}`, world(),
			[]string{"m1: - - dead-letter -", "m2: - - dead-letter -", "m3: - - dead-letter -", "m4: " + i1 + " web-host drain 12:02:00 marks"}},
		"B113": {spot("e-1", i1, "terminate"), world(node("i-0bbb.us-east-2.compute.internal", i1, "default"), node("ip-10-0-0-1.ec2.internal", i2, "default")),
			[]string{i1 + " i-0bbb.us-east-2.compute.internal drain 12:02:00 marks"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := interrupt.Explain([]byte(c.in), c.w, interrupt.Options{Account: "111122223333", Region: "us-east-2", Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lines(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, v := range got {
				if v.Reason == "" {
					t.Errorf("verdict without a reason: %+v", v)
				}
			}
		})
	}
}

// B110: a broken machine is not asked to co-operate, a planned change is.
func TestStatusChecksAndPlannedChanges(t *testing.T) {
	t.Parallel()
	soon := noon.Add(72 * time.Hour)
	d := interrupt.NewDecider(world(node("a", i1, "default"), node("b", i2, "default"), node("c", i3, "default")), interrupt.Options{Now: noon})
	var got []interrupt.Verdict
	for _, n := range []model.Notice{
		{Kind: model.NoticeStatus, InstanceID: i1, Time: noon},
		{Kind: model.NoticeScheduled, InstanceID: i2, Time: noon, Deadline: &soon},
		{Kind: model.NoticeStatus, InstanceID: i3, Time: noon},
		{Kind: model.NoticeScheduled, InstanceID: i3, Time: noon},
		{Kind: model.NoticeStatus, InstanceID: i1, Time: noon.Add(time.Minute)},
	} {
		got = append(got, d.Notice(event.ScheduledChange, n))
	}
	want := []string{i1 + " a remove -", i2 + " b drain 12:00:00", i3 + " c remove -", i3 + " c record -", i1 + " a record -"}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhoseItIs(t *testing.T) {
	t.Parallel()
	unmanaged := modeltest.Node("their-host", 2000, 8192, nil, func(n *model.Node) { n.ProviderID = model.ProviderID("us-east-2a", i1) })
	onDemand := node("web-host", i1, "default", func(n *model.Node) { n.Labels[model.LabelCapacityType] = model.OnDemand })
	draining := node("web-host", i1, "default", func(n *model.Node) { n.Taints = []model.Taint{{Key: model.TaintDisrupted, Effect: model.NoSchedule}} })
	joining := node("", i1, "default", func(n *model.Node) { n.Name = "" })
	bare := node("web-host", i1, "default", func(n *model.Node) { delete(n.Labels, model.LabelInstanceType) })
	for name, c := range map[string]struct {
		w      *model.World
		o      interrupt.Options
		in     string
		want   string
		reason string
	}{
		"ours":               {world(), interrupt.Options{Account: "111122223333", Region: "us-east-2"}, spot("e", i1, "terminate"), i1 + " web-host drain 12:02:00 marks", "AWS takes the spot instance back"},
		"no cluster given":   {nil, interrupt.Options{}, spot("e", i1, "terminate"), i1 + " - drain 12:02:00 marks", "no cluster was given"},
		"other account":      {world(), interrupt.Options{Account: "444455556666"}, spot("e", i1, "terminate"), i1 + " - ignore 12:02:00", "it is about account 111122223333, this is 444455556666"},
		"other region":       {world(), interrupt.Options{Region: "eu-west-1"}, spot("e", i1, "terminate"), i1 + " - ignore 12:02:00", "it is about region us-east-2, this is eu-west-1"},
		"not of the cluster": {world(), interrupt.Options{}, spot("e", foreign, "terminate"), foreign + " - ignore 12:02:00", "is no node of this cluster"},
		"without a claim":    {world(unmanaged), interrupt.Options{}, spot("e", i1, "terminate"), i1 + " their-host ignore 12:02:00", "has no NodeClaim"},
		"on demand":          {world(onDemand), interrupt.Options{}, spot("e", i1, "terminate"), i1 + " web-host drain 12:02:00", "AWS takes"},
		"draining already":   {world(draining), interrupt.Options{}, spot("e", i1, "terminate"), i1 + " web-host record 12:02:00 marks", "is being drained already"},
		"draining, now gone": {world(draining), interrupt.Options{}, state("e", i1, "terminated"), i1 + " web-host remove -", "the instance is gone"},
		"has not joined":     {world(joining), interrupt.Options{}, spot("e", i1, "terminate"), i1 + " -claim drain 12:02:00 marks", "AWS takes"},
		"labels are missing": {world(bare), interrupt.Options{}, spot("e", i1, "terminate"), i1 + " web-host drain 12:02:00", "AWS takes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.o.Now = noon
			got, err := interrupt.Explain([]byte(c.in), c.w, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want}, lines(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.Contains(got[0].Reason, c.reason) {
				t.Errorf("reason %q, want %q in it", got[0].Reason, c.reason)
			}
		})
	}
}

func TestRebalanceChoices(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]string{
		"": "record", "record": "record", "cordon": "cordon", "replace-then-drain": "replace-then-drain", "drain": "record",
	} {
		w := world()
		w.Pools[0].Annotations = map[string]string{model.AnnotationRebalance: choice}
		got, err := interrupt.Explain([]byte(array(rebalance("a", i1), spot("b", i1, "terminate"))), w, interrupt.Options{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{i1 + " web-host " + want + " -", i1 + " web-host drain 12:02:00 marks"}, lines(got)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", choice, diff)
		}
	}
}

func TestScheduledChangeCalledOff(t *testing.T) {
	t.Parallel()
	d := interrupt.NewDecider(world(), interrupt.Options{Now: noon})
	if v := d.Notice(event.ScheduledChange, model.Notice{Kind: model.NoticeScheduled, InstanceID: i1, State: "closed"}); v.Action != interrupt.Record {
		t.Errorf("%+v", v)
	}
}

func TestNoEventsAtAll(t *testing.T) {
	t.Parallel()
	if v, err := interrupt.Explain([]byte("abcd"), nil, interrupt.Options{}); err == nil {
		t.Errorf("no error for text, but %v", v)
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	deadline := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		n    model.Notice
		want string
	}{
		"its deadline":        {model.Notice{Kind: model.NoticeScheduled, Time: noon, Deadline: &deadline}, "13:00:00"},
		"a reservation's two": {model.Notice{Kind: model.NoticeReservation, Time: noon}, "12:02:00"},
		"ends now":            {model.Notice{Kind: model.NoticeStopped, Time: noon}, "12:00:00"},
		"nothing presses":     {model.Notice{Kind: model.NoticeRebalance, Time: noon}, "-"},
	} {
		got := "-"
		if at, ok := interrupt.Until(c.n); ok {
			got = at.Format(time.TimeOnly)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestFace(t *testing.T) {
	t.Parallel()
	deadline := noon.Add(2 * time.Minute)
	f := interrupt.FaceOf(model.Notice{Kind: model.NoticeSpot, EventID: "e", Time: noon, Deadline: &deadline}, interrupt.Drain)
	const text = `{"kind":"spot","action":"drain","deadline":"2026-03-01T12:02:00Z","eventId":"e"}`
	if f.Text() != text {
		t.Errorf("text %s, want %s", f.Text(), text)
	}
	back, ok, err := interrupt.ReadFace(map[string]string{model.AnnotationInterruption: text})
	if diff := cmp.Diff(f, back); diff != "" || !ok || err != nil {
		t.Errorf("read back %v, %v (-want +got):\n%s", ok, err, diff)
	}
	if _, ok, err := interrupt.ReadFace(nil); ok || err != nil {
		t.Errorf("no annotation: %v, %v", ok, err)
	}
	if _, _, err := interrupt.ReadFace(map[string]string{model.AnnotationInterruption: "x"}); err == nil {
		t.Error("nonsense was read")
	}
	later := interrupt.Face{Kind: model.NoticeStopped, Action: interrupt.Drain, Deadline: deadline.Add(time.Hour), EventID: "later"}
	if _, changed := f.Merge(later); changed {
		t.Error("a later deadline changed the face")
	}
	sooner := interrupt.Face{Kind: model.NoticeStopped, Action: interrupt.Drain, Deadline: noon, EventID: "sooner"}
	if m, changed := f.Merge(sooner); !changed || !m.Deadline.Equal(noon) || m.EventID != "e" {
		t.Errorf("a sooner deadline: %+v", m)
	}
	if m, changed := f.Merge(interrupt.Face{Kind: model.NoticeTerminated, Action: interrupt.Remove, EventID: "gone"}); !changed || m.Action != interrupt.Remove || !m.Deadline.Equal(deadline) {
		t.Errorf("a stronger action: %+v", m)
	}
}
