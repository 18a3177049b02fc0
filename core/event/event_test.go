package event_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/model"
)

const (
	i1 = "i-0aaa0000000000001"
	i2 = "i-0aaa0000000000002"
)

var (
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	received = noon.Add(5 * time.Second)
)

func at(d time.Duration) *time.Time { t := noon.Add(d); return &t }

// ec2 is an event of EC2 sent at noon.
func ec2(detailType, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":"e-1","detail-type":%q,"source":"aws.ec2","account":"111122223333","time":"2026-03-01T12:00:00Z",
		"region":"us-east-2","resources":["arn:aws:ec2:us-east-2a:instance/i-0bad0000000000009"],"detail":%s}`, detailType, detail)
}

func notice(kind model.NoticeKind, instance string, opts ...func(*model.Notice)) model.Notice {
	n := model.Notice{EventID: "e-1", Kind: kind, InstanceID: instance, Account: "111122223333", Region: "us-east-2", Time: noon}
	for _, o := range opts {
		o(&n)
	}
	return n
}

func until(d time.Duration) func(*model.Notice) { return func(n *model.Notice) { n.Deadline = at(d) } }
func action(a string) func(*model.Notice)       { return func(n *model.Notice) { n.Action = a } }

func health(fields, envelope string) string {
	return fmt.Sprintf(`{"version":"0","id":"e-1","detail-type":"AWS Health Event","source":"aws.health","account":"111122223333",
		"time":"2026-03-01T12:00:00Z","region":"us-east-2"%s,"resources":["i-0bad0000000000009"],"detail":{"service":"EC2","eventTypeCategory":"scheduledChange",%s}}`, envelope, fields)
}

func planned(instance string, opts ...func(*model.Notice)) model.Notice {
	return notice(model.NoticeScheduled, instance, append([]func(*model.Notice){func(n *model.Notice) {
		n.EventARN, n.Action = "arn:x", "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
	}}, opts...)...)
}

const retirement = `"eventArn":"arn:x","eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",`

func TestNotices(t *testing.T) {
	t.Parallel()
	spotType := "EC2 Spot Instance Interruption Warning"
	stateType := "EC2 Instance State-change Notification"
	reservationType := "EC2 Capacity Reservation Instance Interruption Warning"
	both := `"affectedEntities":[{"entityValue":"` + i1 + `"},{"entityValue":"` + i2 + `"},{"entityValue":"` + i1 + `"}]`
	one := `"affectedEntities":[{"entityValue":"` + i1 + `"}]`
	for name, c := range map[string]struct {
		event    string
		kind     string
		want     []model.Notice
		warnings []string
	}{
		"spot terminate": {ec2(spotType, `{"instance-id":"`+i1+`","instance-action":"terminate"}`), event.SpotInterruption,
			[]model.Notice{notice(model.NoticeSpot, i1, action("terminate"), until(2*time.Minute))}, nil},
		"spot stop": {ec2(spotType, `{"instance-id":"`+i1+`","instance-action":"STOP"}`), event.SpotInterruption,
			[]model.Notice{notice(model.NoticeSpot, i1, action("stop"), until(2*time.Minute))}, nil},
		"spot hibernate is at once": {ec2(spotType, `{"instance-id":"`+i1+`","instance-action":"hibernate"}`), event.SpotInterruption,
			[]model.Notice{notice(model.NoticeSpot, i1, action("hibernate"), until(0))}, nil},
		"spot without action": {ec2(spotType, `{"instance-id":"`+i1+`"}`), event.SpotInterruption,
			[]model.Notice{notice(model.NoticeSpot, i1, until(2*time.Minute))}, nil},
		"rebalance": {ec2("EC2 Instance Rebalance Recommendation", `{"instance-id":"`+i1+`"}`), event.RebalanceRecommendation,
			[]model.Notice{notice(model.NoticeRebalance, i1)}, nil},
		"stopping":      {ec2(stateType, `{"instance-id":"`+i1+`","state":"stopping"}`), event.StateChange, []model.Notice{notice(model.NoticeStopped, i1, action("stopping"))}, nil},
		"STOPPED":       {ec2(stateType, `{"instance-id":"`+i1+`","state":"STOPPED"}`), event.StateChange, []model.Notice{notice(model.NoticeStopped, i1, action("stopped"))}, nil},
		"shutting-down": {ec2(stateType, `{"instance-id":"`+i1+`","state":"shutting-down"}`), event.StateChange, []model.Notice{notice(model.NoticeStopped, i1, action("shutting-down"))}, nil},
		"Terminated":    {ec2(stateType, `{"instance-id":"`+i1+`","state":"Terminated"}`), event.StateChange, []model.Notice{notice(model.NoticeTerminated, i1, action("terminated"))}, nil},
		"reservation": {ec2(reservationType, `{"instance-id":"`+i1+`","instance-action":"terminate"}`), event.ReservationInterruption,
			[]model.Notice{notice(model.NoticeReservation, i1, action("terminate"))}, nil},
		"reservation with its end": {ec2(reservationType, `{"instance-id":"`+i1+`","instance-action":"terminate","instance-termination-time":"2026-03-01T12:02:00Z"}`), event.ReservationInterruption,
			[]model.Notice{notice(model.NoticeReservation, i1, action("terminate"), until(2*time.Minute))}, nil},
		"reservation with nonsense for an end": {ec2(reservationType, `{"instance-id":"`+i1+`","instance-termination-time":"soon"}`), event.ReservationInterruption,
			[]model.Notice{notice(model.NoticeReservation, i1)}, []string{`detail.instance-termination-time is "soon", which is no instant`}},
		"lifecycle": {strings.Replace(ec2("EC2 Instance-terminate Lifecycle Action", `{"EC2InstanceId":"`+i1+`","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"}`), "aws.ec2", "aws.autoscaling", 1),
			event.LifecycleTermination, []model.Notice{notice(model.NoticeLifecycle, i1, action("terminate"))}, nil},
		"health, each instance once": {health(retirement+`"startTime":"Mon, 02 Mar 2026 12:00:00 GMT",`+both, ""), event.ScheduledChange,
			[]model.Notice{planned(i1, until(24*time.Hour)), planned(i2, until(24*time.Hour))}, nil},
		"health, RFC 3339":              {health(retirement+`"startTime":"2026-03-02T13:00:00+01:00",`+one, ""), event.ScheduledChange, []model.Notice{planned(i1, until(24*time.Hour))}, nil},
		"health, one digit for the day": {health(retirement+`"startTime":"Mon, 2 Mar 2026 12:00:00 GMT",`+one, ""), event.ScheduledChange, []model.Notice{planned(i1, until(24*time.Hour))}, nil},
		"health, wrong weekday":         {health(retirement+`"startTime":"Sat, 02 Mar 2026 12:00:00 GMT",`+one, ""), event.ScheduledChange, []model.Notice{planned(i1, until(24*time.Hour))}, nil},
		"health, no start":              {health(retirement+one, ""), event.ScheduledChange, []model.Notice{planned(i1)}, nil},
		"health, nonsense for a start": {health(retirement+`"startTime":"tomorrow",`+one, ""), event.ScheduledChange, []model.Notice{planned(i1)},
			[]string{`detail.startTime is "tomorrow", which is no instant: treated as not known`}},
		"health of another region and account": {health(retirement+`"eventRegion":"us-west-1","affectedAccount":"444455556666","statusCode":"Upcoming",`+one, ""), event.ScheduledChange,
			[]model.Notice{planned(i1, func(n *model.Notice) { n.Region, n.Account, n.State = "us-west-1", "444455556666", "upcoming" })}, nil},
		"health, odd entities": {health(retirement+`"affectedEntities":[{"entityValue":"vol-1"},{"entityValue":7},7,{"entityValue":"arn:aws:ec2:us-east-2:111122223333:instance/`+i1+`"},{"entityValue":"`+i2+`","status":"RESOLVED"}]`, ""), event.ScheduledChange,
			[]model.Notice{planned(i1)}, []string{`detail.affectedEntities[0] is "vol-1", which is no instance`, "detail.affectedEntities[1] has no entityValue",
				"detail.affectedEntities[2] cannot be read", "detail.affectedEntities[4] " + i2 + " is resolved"}},
		"bare event": {`{"source":"aws.ec2","detail-type":"` + spotType + `","detail":{"instance-id":"` + i1 + `","instance-action":"terminate"}}`, event.SpotInterruption,
			[]model.Notice{{Kind: model.NoticeSpot, InstanceID: i1, Action: "terminate", Time: received, Deadline: func() *time.Time { t := received.Add(2 * time.Minute); return &t }()}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := event.Parse([]byte(c.event), received)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.Notices); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.warnings, p.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if p.Type != c.kind || p.Ignored != "" {
				t.Errorf("type %s, ignored %q; want %s", p.Type, p.Ignored, c.kind)
			}
		})
	}
}

func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"pending":            {ec2("EC2 Instance State-change Notification", `{"instance-id":"`+i1+`","state":"pending"}`), "instance " + i1 + " is pending: nothing ends"},
		"Running":            {ec2("EC2 Instance State-change Notification", `{"instance-id":"`+i1+`","state":"Running"}`), "instance " + i1 + " is running: nothing ends"},
		"other event of EC2": {ec2("EBS Volume Notification", `{}`), `events "EBS Volume Notification" of aws.ec2 are not about interruption`},
		"other source":       {`{"source":"aws.s3","detail-type":"x","detail":1}`, `events "x" of aws.s3 are not about interruption`},
		"same text, other source": {`{"source":"my.app","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"` + i1 + `"}}`,
			`events "EC2 Spot Instance Interruption Warning" of my.app are not about interruption`},
		"later format":        {strings.Replace(ec2("EC2 Instance Rebalance Recommendation", `{"instance-id":"`+i1+`"}`), `"0"`, `"1"`, 1), `version "1" of the event format is not known`},
		"launch of a group":   {`{"source":"aws.autoscaling","detail-type":"EC2 Instance-terminate Lifecycle Action","detail":{"EC2InstanceId":"` + i1 + `","LifecycleTransition":"autoscaling:EC2_INSTANCE_LAUNCHING"}}`, `lifecycle transition "autoscaling:EC2_INSTANCE_LAUNCHING" ends no instance`},
		"health of RDS":       {`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"db-1"}]}}`, "health event of service RDS, category scheduledChange: only scheduled changes of EC2 end nodes"},
		"health issue":        {`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"issue","affectedEntities":[]}}`, "health event of service EC2, category issue: only scheduled changes of EC2 end nodes"},
		"health notification": {`{"source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"accountNotification","affectedEntities":[{"entityValue":"` + i1 + `"}]}}`, "health event of service EC2, category accountNotification: only scheduled changes of EC2 end nodes"},
		"health of nobody":    {health(retirement+`"affectedEntities":[]`, ""), "no entity is affected"},
		"health of a volume":  {health(retirement+`"affectedEntities":[{"entityValue":"vol-1"}]`, ""), `none of the affected entities is an instance: detail.affectedEntities[0] is "vol-1", which is no instance`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := event.Parse([]byte(c[0]), received)
			if err != nil {
				t.Fatal(err)
			}
			if p.Ignored != c[1] || len(p.Notices) != 0 {
				t.Errorf("ignored %q with %v, want %q", p.Ignored, p.Notices, c[1])
			}
		})
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	spot := func(detail string) string { return ec2("EC2 Spot Instance Interruption Warning", detail) }
	for name, c := range map[string][2]string{
		"text":          {`abcd`, "event: is not the JSON of an event: invalid character 'a' looking for beginning of value"},
		"empty":         {``, "event: is not the JSON of an event: unexpected end of JSON input"},
		"no fields":     {`{}`, "event: has no source or no detail-type, expected an EventBridge event"},
		"number":        {`42`, "event: is not the JSON of an event: is number, expected fields"},
		"wrong field":   {`{"id":"e","source":1}`, "event e: is not the JSON of an event: source is number, expected text"},
		"no detail":     {strings.Replace(spot("null"), `,"detail":null`, "", 1), "event e-1: has no detail"},
		"null detail":   {spot("null"), "event e-1: has no detail"},
		"text detail":   {spot(`"x"`), "event e-1: detail: is string, expected fields"},
		"number for id": {spot(`{"instance-id":42}`), "event e-1: detail: instance-id is number, expected text"},
		"no id":         {spot(`{"instance-action":"terminate"}`), "event e-1: detail.instance-id is missing"},
		"ARN for id":    {spot(`{"instance-id":"arn:aws:ec2:us-east-2a:instance/i-1"}`), `event e-1: detail.instance-id is "arn:aws:ec2:us-east-2a:instance/i-1", expected one such as i-0123456789abcdef0`},
		"bad time":      {strings.Replace(spot(`{"instance-id":"i-1"}`), "2026-03-01T12:00:00Z", "noon", 1), `event e-1: time is "noon", expected RFC 3339`},
		"no state":      {ec2("EC2 Instance State-change Notification", `{"instance-id":"i-1"}`), "event e-1: detail.state is missing"},
		"no group id":   {`{"id":"e-1","source":"aws.autoscaling","detail-type":"EC2 Instance-terminate Lifecycle Action","detail":{}}`, "event e-1: detail.EC2InstanceId is missing"},
		"empty health":  {`{"id":"e-1","source":"aws.health","detail-type":"AWS Health Event","detail":{}}`, "event e-1: detail.service or detail.eventTypeCategory is missing"},
		"entities":      {health(`"affectedEntities":"i-1"`, ""), "event e-1: detail: affectedEntities is string, expected a list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := event.Parse([]byte(c[0]), received)
			var e *event.Error
			if !errors.As(err, &e) || err.Error() != c[1] {
				t.Errorf("%+v with error %v, want %q", p, err, c[1])
			}
		})
	}
	if _, err := event.Parse([]byte(spot(`{"x":"`+strings.Repeat("x", 1<<20)+`"}`)), received); err == nil || !strings.Contains(err.Error(), "at most 1048576 are read") {
		t.Errorf("a huge event: %v", err)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []event.Message
		err  string
	}{
		"one event":   {in: `{"id":"e"}`, want: []event.Message{{Body: []byte(`{"id":"e"}`)}}},
		"an array":    {in: ` [{"id":"e"},7]`, want: []event.Message{{Body: []byte(`{"id":"e"}`)}, {Body: []byte(`7`)}}},
		"empty array": {in: `[]`},
		"a batch": {in: `{"Records":[{"messageId":"m1","body":"abcd","attributes":{"SentTimestamp":"1772366400000"}},{"messageId":"m2","body":{"a":1}},{"messageId":"m3"},7]}`,
			want: []event.Message{{ID: "m1", SQS: true, Body: []byte("abcd"), Sent: noon}, {ID: "m2", SQS: true, Body: []byte(`{"a":1}`)}, {ID: "m3", SQS: true, Body: []byte("null")}, {SQS: true, Body: []byte("7")}}},
		"empty batch":     {in: `{"Records":[]}`},
		"nothing":         {in: " ", err: "event: is empty"},
		"text":            {in: "abcd", err: "event: is not the JSON of an event, an array of events or an SQS batch: invalid character 'a' looking for beginning of value"},
		"number":          {in: "7", err: "event: is not the JSON of an event, an array of events or an SQS batch: is number, expected fields"},
		"half an array":   {in: "[{}", err: "event: is not JSON: unexpected end of JSON input"},
		"records no list": {in: `{"Records":{}}`, err: "event: Records is not a list: is object, expected a list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := event.Split([]byte(c.in))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != c.err {
				t.Errorf("error %q, want %q", text, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSamples reads the sample events, which are the corpus of the fuzz test as well.
func TestSamples(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"spot.json":         "SpotInterruption: spot i-0b662ef9931388ba0 12:02:00",
		"rebalance.json":    "RebalanceRecommendation: rebalance i-0b662ef9931388ba0 -",
		"state-change.json": "StateChange: stopped i-0b662ef9931388ba0 -",
		"health.json":       "ScheduledChange: scheduled i-0b662ef9931388ba0 09:00:00, scheduled i-0b662ef9931388ba1 09:00:00",
		"reservation.json":  "CapacityReservationInterruption: reservation i-0b662ef9931388ba0 12:02:00",
		"lifecycle.json":    "LifecycleTermination: lifecycle i-0b662ef9931388ba0 -",
		"batch.json":        "error; SpotInterruption: spot i-0b662ef9931388ba0 12:00:00",
	}
	got := map[string]string{}
	for name, data := range samples(t) {
		messages, err := event.Split(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var events []string
		for _, m := range messages {
			p, err := event.Parse(m.Body, m.Sent)
			if err != nil {
				events = append(events, "error")
				continue
			}
			var notices []string
			for _, n := range p.Notices {
				deadline := "-"
				if n.Deadline != nil {
					deadline = n.Deadline.Format(time.TimeOnly)
				}
				notices = append(notices, fmt.Sprintf("%s %s %s", n.Kind, n.InstanceID, deadline))
			}
			events = append(events, p.Type+": "+strings.Join(notices, ", "))
		}
		got[name] = strings.Join(events, "; ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = data
	}
	return out
}

func FuzzParse(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Add([]byte(ec2("EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1","instance-action":"terminate"}`)))
	f.Add([]byte(ec2("EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"STOPPED"}`)))
	f.Add([]byte(ec2("EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"i-1","instance-termination-time":"x"}`)))
	f.Add([]byte(health(retirement+`"startTime":"Mon, 02 Mar 2026 12:00:00 GMT","affectedEntities":[{"entityValue":"i-1"},{"entityValue":"arn:x/i-1"},{}]`, "")))
	f.Add([]byte(`[{"id":"e"},7]`))
	f.Add([]byte(`{"Records":[{"messageId":"m1","body":"{}","attributes":{"SentTimestamp":"-1"}},null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := event.Split(data)
		if err != nil {
			messages = []event.Message{{Body: data}}
		}
		for _, m := range messages {
			p, err := event.Parse(m.Body, received)
			var e *event.Error
			switch {
			case err != nil && (p != nil || !errors.As(err, &e) || e.Reason == ""):
				t.Errorf("%q: %+v with error %v", m.Body, p, err)
			case err == nil && (len(p.Notices) == 0) == (p.Ignored == ""):
				t.Errorf("%q: %d notices and ignored %q", m.Body, len(p.Notices), p.Ignored)
			}
			if err != nil {
				continue
			}
			for _, n := range p.Notices {
				if n.InstanceID == "" || n.Kind == "" || n.Time.IsZero() && !strings.Contains(string(m.Body), "0001-01-01") {
					t.Errorf("%q: notice %+v", m.Body, n)
				}
			}
		}
	})
}
