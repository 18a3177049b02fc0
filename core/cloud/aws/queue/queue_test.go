package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud/aws/queue"
	"github.com/weir-project/weir/core/model"
)

// box is a queue with SQS's visibility: a message that was received and not deleted comes again.
type box struct {
	mu       sync.Mutex
	missing  bool
	messages map[string]string // id -> body
	hidden   map[string]time.Time
	receipts map[string]string // receipt -> id
	received int
	refuse   int // deletions that fail
	order    []string
}

func newBox(bodies ...string) *box {
	b := &box{messages: map[string]string{}, hidden: map[string]time.Time{}, receipts: map[string]string{}}
	for i, body := range bodies {
		id := fmt.Sprintf("m%d", i)
		b.messages[id], b.order = body, append(b.order, id)
	}
	return b
}

func (b *box) GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing {
		return nil, &smithy.GenericAPIError{Code: "QueueDoesNotExist", Message: "The specified queue does not exist."}
	}
	return &sqs.GetQueueUrlOutput{QueueUrl: sdk.String("https://queue")}, nil
}

func (b *box) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		out := &sqs.ReceiveMessageOutput{}
		b.mu.Lock()
		for _, id := range b.order {
			if body, ok := b.messages[id]; ok && len(out.Messages) < int(in.MaxNumberOfMessages) && !time.Now().Before(b.hidden[id]) {
				b.received++
				receipt := fmt.Sprintf("%s/%d", id, b.received)
				b.receipts[receipt], b.hidden[id] = id, time.Now().Add(time.Duration(in.VisibilityTimeout)*time.Second)
				out.Messages = append(out.Messages, types.Message{MessageId: sdk.String(id), Body: &body, ReceiptHandle: &receipt})
			}
		}
		b.mu.Unlock()
		if len(out.Messages) > 0 || !time.Now().Before(end) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (b *box) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(in.Entries) > 10 {
		return nil, &smithy.GenericAPIError{Code: "TooManyEntriesInBatchRequest"}
	}
	if b.refuse > 0 {
		b.refuse--
		return nil, errors.New("connection reset")
	}
	out := &sqs.DeleteMessageBatchOutput{}
	for _, e := range in.Entries {
		id, ok := b.receipts[*e.ReceiptHandle]
		if !ok {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: sdk.String("ReceiptHandleIsInvalid")})
			continue
		}
		delete(b.messages, id)
	}
	return out, nil
}

func (b *box) left() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, id := range b.order {
		if _, ok := b.messages[id]; ok {
			out = append(out, id)
		}
	}
	return out
}

// heard is what the handlers were told.
type heard struct {
	mu      sync.Mutex
	first   []string // messages, in order
	again   map[string]int
	bad     []string
	states  []string
	deleted int
	failed  int
}

func (h *heard) handlers() queue.Handlers {
	h.again = map[string]int{}
	return queue.Handlers{
		Received: func(r queue.Received) {
			h.mu.Lock()
			defer h.mu.Unlock()
			switch {
			case r.Err != nil:
				h.bad = append(h.bad, r.ID)
			case r.Again:
				h.again[r.ID]++
			default:
				h.first = append(h.first, r.ID)
			}
		},
		State: func(err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.states = append(h.states, fmt.Sprint(err))
		},
		Deleted: func(n int) { h.mu.Lock(); defer h.mu.Unlock(); h.deleted += n },
		Failed:  func(error) { h.mu.Lock(); defer h.mu.Unlock(); h.failed++ },
	}
}

func spot(id, instance string) string {
	return `{"version":"0","id":"` + id + `","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":"111122223333",
"time":"2026-03-01T12:00:00Z","region":"us-east-2","resources":[],"detail":{"instance-id":"` + instance + `","instance-action":"terminate"}}`
}

const (
	i1, i2 = "i-0aaa0000000000001", "i-0aaa0000000000002"
	health = `{"version":"0","id":"e-3","detail-type":"AWS Health Event","source":"aws.health","account":"111122223333","time":"2026-03-01T12:00:00Z","region":"us-east-2",
"resources":[],"detail":{"eventArn":"arn:aws:health:us-east-2::event/EC2/X/X_1","service":"EC2","eventTypeCategory":"scheduledChange","eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
"startTime":"Mon, 02 Mar 2026 12:00:00 GMT","affectedEntities":[{"entityValue":"` + i1 + `"},{"entityValue":"` + i2 + `"}]}}`
	running = `{"version":"0","id":"e-9","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"111122223333","time":"2026-03-01T12:00:00Z",
"region":"us-east-2","resources":[],"detail":{"instance-id":"` + i1 + `","state":"running"}}`
)

func spotKey(event, instance string) queue.Key {
	return queue.Key{EventID: event, Instance: instance, Kind: model.NoticeSpot}
}

// start runs a reader in a bubble of virtual time.
func start(t *testing.T, b *box) (*queue.Queue, *heard) {
	h := &heard{}
	q := queue.New(b, "q-x", time.Now, h.handlers())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); q.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return q, h
}

// Each message is deleted for its own outcome, and what asks for nothing or cannot be read at once (cases B101, B106, B107).
func TestMessagesAreDeletedWhenSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(spot("e-1", i1), spot("e-2", i2), "abcd", running, health)
		q, h := start(t, b)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"m0", "m1", "m3", "m4"}, h.first); diff != "" {
			t.Errorf("handed over (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"m2"}, h.bad); diff != "" {
			t.Errorf("unreadable (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"m0", "m1", "m4"}, b.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		q.Settled(spotKey("e-2", i2), queue.Key{EventID: "e-3", Instance: i2, Kind: model.NoticeScheduled}, spotKey("e-0", i1))
		synctest.Wait()
		if diff := cmp.Diff([]string{"m0", "m4"}, b.left()); diff != "" { // one of the two instances of m4 is not settled
			t.Errorf("left (-want +got):\n%s", diff)
		}
		q.Settled(queue.Key{EventID: "e-3", Instance: i1, Kind: model.NoticeScheduled})
		synctest.Wait()
		if diff := cmp.Diff([]string{"m0"}, b.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if h.deleted != 4 || h.failed != 0 || !slices.Equal(h.states, []string{"<nil>"}) {
			t.Errorf("%d deleted, %d failed, states %q", h.deleted, h.failed, h.states)
		}
	})
}

// What is not settled comes again, and is still deleted by the receipt of its last coming.
func TestUnsettledMessagesComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(spot("e-1", i1))
		q, h := start(t, b)
		time.Sleep(65 * time.Second)
		synctest.Wait()
		if len(h.first) != 1 || h.again["m0"] != 3 {
			t.Errorf("handed over %v, again %v, expected once and three times more", h.first, h.again)
		}
		q.Settled(spotKey("e-1", i1))
		synctest.Wait()
		if left := b.left(); len(left) > 0 || h.deleted != 1 {
			t.Errorf("left %v, %d deleted", left, h.deleted)
		}
	})
}

// A deletion that fails is told, and the message is deleted when it has come again and is settled again.
func TestFailedDeletionsAreMadeGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		for i := range 25 {
			bodies = append(bodies, spot(fmt.Sprintf("e-%d", i), i1))
		}
		b := newBox(bodies...)
		b.refuse = 1
		q, h := start(t, b)
		settle := func() {
			var keys []queue.Key
			for i := range 25 {
				keys = append(keys, spotKey(fmt.Sprintf("e-%d", i), i1))
			}
			q.Settled(keys...)
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		settle()
		if h.failed != 1 || len(b.left()) == 0 {
			t.Fatalf("%d failures, left %v: expected one failure, and messages left by it", h.failed, b.left())
		}
		for range 2 {
			time.Sleep(21 * time.Second)
			synctest.Wait()
			settle()
		}
		if left := b.left(); len(left) > 0 || h.failed != 1 {
			t.Errorf("left %v, %d failures", left, h.failed)
		}
	})
}

// A queue that is missing is told once and asked for again until it is there (case B109).
func TestMissingQueueIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(spot("e-1", i1))
		b.missing = true
		_, h := start(t, b)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(h.states) != 1 {
			t.Fatalf("states %q, expected one", h.states)
		}
		b.mu.Lock()
		b.missing = false
		b.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []string{"queue q-x: GetQueueUrl: QueueDoesNotExist: The specified queue does not exist.", "<nil>"}
		if diff := cmp.Diff(want, h.states); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if len(h.first) != 1 {
			t.Errorf("handed over %v", h.first)
		}
	})
}

// Rules may rewrite events so that they have no id: what is settled of one says nothing of another of the same instance.
func TestEventsWithoutAnID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped := `{"version":"0","id":"","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"111122223333","time":"2026-03-01T12:00:00Z",
"region":"us-east-2","resources":[],"detail":{"instance-id":"` + i1 + `","state":"stopped"}}`
		b := newBox(spot("", i1), stopped)
		q, _ := start(t, b)
		time.Sleep(time.Second)
		synctest.Wait()
		q.Settled(spotKey("", i1))
		synctest.Wait()
		if diff := cmp.Diff([]string{"m1"}, b.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}
