package events_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/integration/aws/moto"
)

// stackTemplate is the template that the CDK app makes; a test of infra/cdk holds it to that.
const stackTemplate = "../../../infra/cdk/weircdk/testdata/required.json"

const machine = "i-0b662ef9931388ba0"

// sample is an event that is sent, and what the functions read in what arrives: an
// event's type, or nothing where it must not arrive.
type sample struct {
	source, detailType, detail string
	arrives                    string
}

func samples() map[string]sample {
	const ec2Source, healthSource = "aws.ec2", "aws.health"
	const state, health = "EC2 Instance State-change Notification", "AWS Health Event"
	instance := func(more string) string { return `{"instance-id":"` + machine + `"` + more + `}` }
	inState := func(s string) string { return instance(`,"state":"` + s + `"`) }
	about := func(service, category string) string {
		return `{"eventArn":"arn:aws:health:us-east-1::event/x","service":"` + service + `","eventTypeCategory":"` + category + `","eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
			"startTime":"Wed, 04 Mar 2026 09:00:00 GMT","statusCode":"upcoming","affectedEntities":[{"entityValue":"` + machine + `"}]}`
	}
	return map[string]sample{
		"spot machine ends":       {ec2Source, "EC2 Spot Instance Interruption Warning", instance(`,"instance-action":"terminate"`), event.SpotInterruption},
		"spot machine stops":      {ec2Source, "EC2 Spot Instance Interruption Warning", instance(`,"instance-action":"stop"`), event.SpotInterruption},
		"spot machine hibernates": {ec2Source, "EC2 Spot Instance Interruption Warning", instance(`,"instance-action":"hibernate"`), event.SpotInterruption},
		"spot machine at risk":    {ec2Source, "EC2 Instance Rebalance Recommendation", instance(""), event.RebalanceRecommendation},
		"stopping":                {ec2Source, state, inState("stopping"), event.StateChange},
		"stopped":                 {ec2Source, state, inState("stopped"), event.StateChange},
		"shutting down":           {ec2Source, state, inState("shutting-down"), event.StateChange},
		"terminated":              {ec2Source, state, inState("terminated"), event.StateChange},
		"reserved capacity goes": {ec2Source, "EC2 Capacity Reservation Instance Interruption Warning",
			instance(`,"instance-action":"terminate","instance-termination-time":"2026-03-01T12:02:00Z","azId":"use1-az1"`), event.ReservationInterruption},
		"machine is retired": {healthSource, health, about("EC2", "scheduledChange"), event.ScheduledChange},

		"machine begins":               {ec2Source, state, inState("pending"), ""},
		"machine runs":                 {ec2Source, state, inState("running"), ""},
		"EC2 has a problem":            {healthSource, health, about("EC2", "issue"), ""},
		"EC2 tells the account":        {healthSource, health, about("EC2", "accountNotification"), ""},
		"a database is maintained":     {healthSource, health, about("RDS", "scheduledChange"), ""},
		"an organisation's health":     {"aws.health", "AWS Health Abuse Event", about("EC2", "scheduledChange"), ""},
		"spot request is fulfilled":    {ec2Source, "EC2 Spot Instance Request Fulfillment", instance(""), ""},
		"volume is made":               {ec2Source, "EBS Volume Notification", `{"event":"createVolume","result":"available"}`, ""},
		"somebody imitates EC2":        {"custom.ec2", "EC2 Spot Instance Interruption Warning", instance(`,"instance-action":"terminate"`), ""},
		"auto scaling ends a machine":  {"aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", `{"EC2InstanceId":"` + machine + `"}`, ""},
		"reservation, nobody affected": {ec2Source, "EC2 Capacity Reservation Underutilized Notification", `{}`, ""},
	}
}

func TestMain(m *testing.M) { os.Exit(moto.Shared(m)) }

// The rules of the stack, in moto's EventBridge, send what the functions act on to both
// targets, once, and nothing else. (Asking EventBridge whether a pattern matches would
// prove nothing: moto says no to everything.)
func TestRulesDeliver(t *testing.T) {
	t.Parallel()
	server := moto.Start(t)
	bus, queues := eventbridge.NewFromConfig(server.Config()), sqs.NewFromConfig(server.Config())
	targets := putRules(t, bus, queues)
	if len(targets) != 2 {
		t.Fatalf("rules have the targets %v, expected the responder and the drain queue", slices.Sorted(maps.Keys(targets)))
	}
	want := send(t, bus)
	for name, url := range targets {
		got := map[string]string{}
		for _, body := range received(t, queues, url) {
			var e struct {
				Detail struct {
					Sample string `json:"weir-sample"`
				} `json:"detail"`
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%s: %v in %s", name, err, body)
			}
			parsed, err := event.Parse([]byte(body), time.Now())
			switch {
			case err != nil:
				t.Errorf("%s: %s arrives and cannot be read: %v", name, e.Detail.Sample, err)
			case parsed.Ignored != "" || len(parsed.Notices) != 1 || parsed.Notices[0].InstanceID != machine:
				t.Errorf("%s: %s arrives and is read as %+v, expected a notice about %s", name, e.Detail.Sample, parsed, machine)
			default:
				got[e.Detail.Sample] += parsed.Type // twice, if it arrives twice
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-expected +arrived):\n%s", name, diff)
		}
	}
}

// putRules puts the template's rules for events into EventBridge. A queue stands in for
// each target; they are answered by the target's name.
func putRules(t *testing.T, bus *eventbridge.Client, queues *sqs.Client) map[string]string {
	t.Helper()
	text, err := os.ReadFile(stackTemplate)
	if err != nil {
		t.Fatal(err)
	}
	var stack struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				EventPattern json.RawMessage
				State        eventtypes.RuleState
				Targets      []struct {
					Id  string
					Arn map[string][]string // Fn::GetAtt
				}
			}
		}
	}
	// Properties of other types are of other shapes.
	var rough struct {
		Resources map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &rough); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(rough.Resources, func(_ string, r map[string]json.RawMessage) bool { return string(r["Type"]) != `"AWS::Events::Rule"` })
	if text, err = json.Marshal(rough); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &stack); err != nil {
		t.Fatal(err)
	}
	urls, arns := map[string]string{}, map[string]string{}
	for id, r := range stack.Resources {
		if r.Properties.EventPattern == nil {
			continue // a schedule
		}
		pattern := string(r.Properties.EventPattern)
		if _, err := bus.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &id, EventPattern: &pattern, State: r.Properties.State}); err != nil {
			t.Fatalf("rule %s: %v", id, err)
		}
		var targets []eventtypes.Target
		for _, target := range r.Properties.Targets {
			name := target.Arn["Fn::GetAtt"][0]
			if urls[name] == "" {
				urls[name], arns[name] = newEventQueue(t, queues, name)
			}
			targets = append(targets, eventtypes.Target{Id: &target.Id, Arn: sdk.String(arns[name])})
		}
		out, err := bus.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: &id, Targets: targets})
		if err != nil || out.FailedEntryCount > 0 {
			t.Fatalf("targets of %s: %v, %v", id, out, err)
		}
	}
	return urls
}

func newEventQueue(t *testing.T, queues *sqs.Client, name string) (url, arn string) {
	t.Helper()
	made, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	out, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn}})
	if err != nil {
		t.Fatal(err)
	}
	return *made.QueueUrl, out.Attributes[string(sqstypes.QueueAttributeNameQueueArn)]
}

// send sends all samples and answers those that must arrive, with their type.
func send(t *testing.T, bus *eventbridge.Client) map[string]string {
	t.Helper()
	want := map[string]string{}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(samples())), 10) {
		var entries []eventtypes.PutEventsRequestEntry
		for _, name := range batch {
			s := samples()[name]
			if s.arrives != "" {
				want[name] = s.arrives
			}
			detail := strings.TrimSuffix(strings.TrimPrefix(s.detail, "{"), "}")
			if detail != "" {
				detail += ","
			}
			entries = append(entries, eventtypes.PutEventsRequestEntry{
				Source: sdk.String(s.source), DetailType: sdk.String(s.detailType), Detail: sdk.String(fmt.Sprintf(`{%s"weir-sample":%q}`, detail, name)),
			})
		}
		out, err := bus.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: entries})
		if err != nil || out.FailedEntryCount > 0 {
			t.Fatalf("events %v: %+v, %v", batch, out, err)
		}
	}
	return want
}

// received reads a queue until it is empty: moto has delivered an event when PutEvents
// returns, so that nothing comes later.
func received(t *testing.T, queues *sqs.Client, url string) []string {
	t.Helper()
	var bodies []string
	for empty := false; !empty; {
		out, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 600})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			bodies = append(bodies, *m.Body)
		}
		empty = len(out.Messages) == 0
	}
	return bodies
}
