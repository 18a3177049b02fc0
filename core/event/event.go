package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/model"
)

// Types of events, as verdicts show them.
const (
	SpotInterruption        = "SpotInterruption"
	RebalanceRecommendation = "RebalanceRecommendation"
	StateChange             = "StateChange"
	ScheduledChange         = "ScheduledChange"
	HealthEvent             = "HealthEvent" // of AWS Health, and no scheduled change of EC2
	ReservationInterruption = "CapacityReservationInterruption"
	LifecycleTermination    = "LifecycleTermination"
	Unknown                 = "Unknown"
)

// SpotNotice is how long a spot instance has left when its interruption is announced.
const SpotNotice = 2 * time.Minute

// maxBody is the size of the largest event that is read, in bytes; SQS and
// EventBridge end at 1 MiB.
const maxBody = 1 << 20

// Parsed is an event that could be read.
type Parsed struct {
	ID              string
	Type            string
	Account, Region string         // of the envelope; empty where it does not say
	Notices         []model.Notice // one for each instance, none where Ignored
	Ignored         string         // why there is nothing to do, or empty
	Instance        string         // that an ignored event is about, where it is about one
	Warnings        []string       // parts that were left out, and why
}

// Error says why an event cannot be read.
type Error struct {
	ID     string // of the event, where it could be read
	Type   string
	Reason string
}

// Error is the reason, with the event's id.
func (e *Error) Error() string {
	if e.ID == "" {
		return "event: " + e.Reason
	}
	return "event " + e.ID + ": " + e.Reason
}

// envelope is what EventBridge puts around every event.
type envelope struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account"`
	Time       string          `json:"time"`
	Region     string          `json:"region"`
	Detail     json.RawMessage `json:"detail"`
}

// reader reads the detail of one kind of event.
type reader struct {
	kind string
	read func(p *Parsed, at time.Time, detail json.RawMessage) error
}

// readers by source and detail-type. What is not here asks for nothing.
var readers = map[[2]string]reader{
	{"aws.ec2", "EC2 Spot Instance Interruption Warning"}:                 {SpotInterruption, spot},
	{"aws.ec2", "EC2 Instance Rebalance Recommendation"}:                  {RebalanceRecommendation, rebalance},
	{"aws.ec2", "EC2 Instance State-change Notification"}:                 {StateChange, stateChange},
	{"aws.health", "AWS Health Event"}:                                    {HealthEvent, health},
	{"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"}: {ReservationInterruption, reservation},
	{"aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"}:        {LifecycleTermination, lifecycle},
}

// ID is the id of an event that may otherwise be unreadable, or empty.
func ID(data []byte) string {
	var e struct {
		ID any `json:"id"`
	}
	if json.Unmarshal(data, &e) != nil {
		return ""
	}
	id, _ := e.ID.(string)
	return id
}

// Parse reads one event. received stands in for the time of an event that does not
// carry one. Errors are *Error.
func Parse(data []byte, received time.Time) (*Parsed, error) {
	if len(data) > maxBody {
		return nil, &Error{Type: Unknown, Reason: fmt.Sprintf("is %d bytes long, at most %d are read", len(data), maxBody)}
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, &Error{ID: ID(data), Type: Unknown, Reason: "is not the JSON of an event: " + plain(err)}
	}
	if e.Source == "" || e.DetailType == "" {
		return nil, &Error{ID: e.ID, Type: Unknown, Reason: "has no source or no detail-type, expected an EventBridge event"}
	}
	p := &Parsed{ID: e.ID, Type: Unknown, Account: e.Account, Region: e.Region}
	r, ok := readers[[2]string{e.Source, e.DetailType}]
	if !ok {
		p.Ignored = fmt.Sprintf("events %q of %s are not about interruption", e.DetailType, e.Source)
		return p, nil
	}
	p.Type = r.kind
	if e.Version != "" && e.Version != "0" {
		p.Ignored = fmt.Sprintf("version %q of the event format is not known", e.Version)
		return p, nil
	}
	at := received
	if e.Time != "" {
		t, err := time.Parse(time.RFC3339, e.Time)
		if err != nil {
			return nil, &Error{ID: e.ID, Type: r.kind, Reason: fmt.Sprintf("time is %q, expected RFC 3339", e.Time)}
		}
		at = t
	}
	if err := r.read(p, at.UTC(), e.Detail); err != nil {
		return nil, &Error{ID: e.ID, Type: p.Type, Reason: err.Error()}
	}
	return p, nil
}

// plain says what is wrong with JSON, in words that name the field.
func plain(err error) string {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		if t.Field == "" {
			return fmt.Sprintf("is %s, expected %s", t.Value, jsonKind(t.Type.Kind().String()))
		}
		return fmt.Sprintf("%s is %s, expected %s", t.Field, t.Value, jsonKind(t.Type.Kind().String()))
	}
	return err.Error()
}

func jsonKind(kind string) string {
	switch kind {
	case "string":
		return "text"
	case "struct", "map":
		return "fields"
	case "slice":
		return "a list"
	}
	return kind
}

func decode(detail json.RawMessage, v any) error {
	if len(detail) == 0 || bytes.Equal(detail, []byte("null")) {
		return errors.New("has no detail")
	}
	if err := json.Unmarshal(detail, v); err != nil {
		return errors.New("detail: " + plain(err))
	}
	return nil
}

var instanceID = regexp.MustCompile(`^i-[0-9A-Za-z-]{1,64}$`)

// instance checks an id of a detail. Ids are never taken out of the resources of
// an envelope: the ARN there may hold a zone where a region should be.
func instance(id string) error {
	if id == "" {
		return errors.New("detail.instance-id is missing")
	}
	if !instanceID.MatchString(id) {
		return fmt.Errorf("detail.instance-id is %q, expected one such as i-0123456789abcdef0", cut(id))
	}
	return nil
}

func cut(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}

func (p *Parsed) add(at time.Time, n model.Notice) {
	n.EventID, n.Account, n.Time = p.ID, p.Account, at
	if n.Region == "" {
		n.Region = p.Region
	}
	p.Notices = append(p.Notices, n)
}

type instanceDetail struct {
	InstanceID string `json:"instance-id"`
	Action     string `json:"instance-action"`
	State      string `json:"state"`
	Ends       string `json:"instance-termination-time"`
}

func spot(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d instanceDetail
	if err := decode(detail, &d); err != nil {
		return err
	}
	if err := instance(d.InstanceID); err != nil {
		return err
	}
	// Hibernation starts at once; every other action, known or not, leaves two minutes.
	action := strings.ToLower(d.Action)
	deadline := at.Add(SpotNotice)
	if action == "hibernate" {
		deadline = at
	}
	p.add(at, model.Notice{Kind: model.NoticeSpot, InstanceID: d.InstanceID, Action: action, Deadline: &deadline})
	return nil
}

func rebalance(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d instanceDetail
	if err := decode(detail, &d); err != nil {
		return err
	}
	if err := instance(d.InstanceID); err != nil {
		return err
	}
	p.add(at, model.Notice{Kind: model.NoticeRebalance, InstanceID: d.InstanceID})
	return nil
}

func stateChange(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d instanceDetail
	if err := decode(detail, &d); err != nil {
		return err
	}
	if err := instance(d.InstanceID); err != nil {
		return err
	}
	state := strings.ToLower(strings.TrimSpace(d.State))
	n := model.Notice{InstanceID: d.InstanceID, Action: state}
	switch state {
	case "":
		return errors.New("detail.state is missing")
	case "stopping", "stopped", "shutting-down":
		n.Kind = model.NoticeStopped
	case "terminated":
		n.Kind = model.NoticeTerminated
	default:
		p.Instance = d.InstanceID
		p.Ignored = fmt.Sprintf("instance %s is %s: nothing ends", d.InstanceID, cut(state))
		return nil
	}
	p.add(at, n)
	return nil
}

func reservation(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d instanceDetail
	if err := decode(detail, &d); err != nil {
		return err
	}
	if err := instance(d.InstanceID); err != nil {
		return err
	}
	n := model.Notice{Kind: model.NoticeReservation, InstanceID: d.InstanceID, Action: strings.ToLower(d.Action)}
	if d.Ends != "" {
		if t, ok := instant(d.Ends); ok {
			n.Deadline = &t
		} else {
			p.Warnings = append(p.Warnings, fmt.Sprintf("detail.instance-termination-time is %q, which is no instant", cut(d.Ends)))
		}
	}
	p.add(at, n)
	return nil
}

func lifecycle(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d struct {
		InstanceID string `json:"EC2InstanceId"`
		Transition string `json:"LifecycleTransition"`
	}
	if err := decode(detail, &d); err != nil {
		return err
	}
	if d.Transition != "" && d.Transition != "autoscaling:EC2_INSTANCE_TERMINATING" {
		p.Ignored = fmt.Sprintf("lifecycle transition %q ends no instance", cut(d.Transition))
		return nil
	}
	if err := instance(d.InstanceID); err != nil {
		return errors.New(strings.Replace(err.Error(), "instance-id", "EC2InstanceId", 1))
	}
	p.add(at, model.Notice{Kind: model.NoticeLifecycle, InstanceID: d.InstanceID, Action: "terminate"})
	return nil
}

type healthDetail struct {
	ARN      string            `json:"eventArn"`
	Service  string            `json:"service"`
	Category string            `json:"eventTypeCategory"`
	Code     string            `json:"eventTypeCode"`
	Region   string            `json:"eventRegion"`
	Account  string            `json:"affectedAccount"`
	Start    string            `json:"startTime"`
	Status   string            `json:"statusCode"`
	Entities []json.RawMessage `json:"affectedEntities"`
}

// health reads an event of AWS Health, which may be about many instances, of an
// account and a region that are not those of the envelope.
func health(p *Parsed, at time.Time, detail json.RawMessage) error {
	var d healthDetail
	if err := decode(detail, &d); err != nil {
		return err
	}
	if !strings.EqualFold(d.Service, "EC2") || !strings.EqualFold(d.Category, "scheduledChange") {
		if d.Service == "" || d.Category == "" {
			return errors.New("detail.service or detail.eventTypeCategory is missing")
		}
		p.Ignored = fmt.Sprintf("health event of service %s, category %s: only scheduled changes of EC2 end nodes", cut(d.Service), cut(d.Category))
		return nil
	}
	p.Type = ScheduledChange
	if d.Account != "" {
		p.Account = d.Account
	}
	if d.Region != "" {
		p.Region = d.Region
	}
	n := model.Notice{Kind: model.NoticeScheduled, Action: d.Code, EventARN: d.ARN, State: strings.ToLower(d.Status)}
	if d.Start != "" {
		if t, ok := instant(d.Start); ok {
			n.Deadline = &t
		} else {
			p.Warnings = append(p.Warnings, fmt.Sprintf("detail.startTime is %q, which is no instant: treated as not known", cut(d.Start)))
		}
	}
	for i, raw := range d.Entities {
		id, why := entity(raw)
		if why != "" {
			p.Warnings = append(p.Warnings, fmt.Sprintf("detail.affectedEntities[%d] %s", i, why))
			continue
		}
		if !slices.ContainsFunc(p.Notices, func(o model.Notice) bool { return o.InstanceID == id }) {
			n.InstanceID = id
			p.add(at, n)
		}
	}
	if len(p.Notices) == 0 {
		if len(d.Entities) > 0 {
			p.Ignored = "none of the affected entities is an instance: " + strings.Join(p.Warnings, "; ")
			return nil
		}
		p.Ignored = "no entity is affected"
	}
	return nil
}

// entity reads one affected entity: the instance's id, or why it is left out.
func entity(raw json.RawMessage) (id, why string) {
	var e struct {
		Value  any    `json:"entityValue"`
		Status string `json:"status"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return "", "cannot be read"
	}
	v, ok := e.Value.(string)
	if !ok {
		return "", "has no entityValue"
	}
	if i := strings.LastIndexByte(v, '/'); strings.HasPrefix(v, "arn:") && i >= 0 {
		v = v[i+1:]
	}
	switch {
	case !instanceID.MatchString(v):
		return "", fmt.Sprintf("is %q, which is no instance", cut(v))
	case strings.EqualFold(e.Status, "RESOLVED"):
		return "", v + " is resolved"
	}
	return v, ""
}

// layouts of instants that AWS was seen to use. A weekday that does not fit its
// date, as in AWS' own sample, is no reason to refuse one.
var layouts = []string{
	time.RFC1123, time.RFC1123Z, "Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 -0700",
	time.RFC3339, "2006-01-02T15:04:05.000-0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05 MST", time.RFC850,
}

func instant(s string) (time.Time, bool) {
	for _, l := range layouts {
		if t, err := time.Parse(l, strings.TrimSpace(s)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Message is one event of what was handed in.
type Message struct {
	ID   string // of the SQS message; empty for an event that came alone
	Body []byte
	Sent time.Time // when it was put into the queue, zero where not known
	SQS  bool
}

type sqsRecord struct {
	ID         string `json:"messageId"`
	Body       any    `json:"body"`
	Source     string `json:"eventSource"`
	Attributes struct {
		Sent string `json:"SentTimestamp"` // milliseconds since 1970
	} `json:"attributes"`
}

// Split takes apart what a Lambda or a command is handed: one event, an array of
// events or a batch of SQS messages. Bodies are not looked at: an unreadable one is
// a message like any other. Errors are *Error: there is nothing in it to take apart.
func Split(data []byte) ([]Message, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, &Error{Type: Unknown, Reason: "is empty"}
	}
	if trimmed[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(trimmed, &list); err != nil {
			return nil, &Error{Type: Unknown, Reason: "is not JSON: " + err.Error()}
		}
		var out []Message
		for _, raw := range list {
			out = append(out, Message{Body: raw})
		}
		return out, nil
	}
	var batch map[string]json.RawMessage
	if err := json.Unmarshal(trimmed, &batch); err != nil {
		return nil, &Error{Type: Unknown, Reason: "is not the JSON of an event, an array of events or an SQS batch: " + plain(err)}
	}
	records, ok := batch["Records"]
	if !ok {
		return []Message{{Body: data}}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(records, &list); err != nil {
		return nil, &Error{Type: Unknown, Reason: "Records is not a list: " + plain(err)}
	}
	var out []Message
	for _, raw := range list {
		out = append(out, record(raw))
	}
	return out, nil
}

// record reads one SQS message. A body that is no text is handed on as it is, for
// Parse to refuse.
func record(raw json.RawMessage) Message {
	var r sqsRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return Message{Body: raw, SQS: true}
	}
	m := Message{ID: r.ID, SQS: true}
	switch body := r.Body.(type) {
	case string:
		m.Body = []byte(body)
	default:
		if b, err := json.Marshal(body); err == nil {
			m.Body = b
		}
	}
	var ms int64
	if _, err := fmt.Sscan(r.Attributes.Sent, &ms); err == nil && ms > 0 {
		m.Sent = time.UnixMilli(ms).UTC()
	}
	return m
}
