package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/model"
)

// The timings of a Karpenter queue's reader, so that one may take the place of the other.
const (
	waitSeconds    = 20 // a call waits so long for a first message
	visibleSeconds = 20 // a message that is not deleted comes again after so long
	batch          = 10 // messages a call: SQS gives no more
	forget         = 15 * time.Minute
	retryFirst     = time.Second // between calls that fail, doubled up to:
	retryLast      = time.Minute
	deleteWithin   = 20 * time.Second
)

// API is what is asked of SQS; *sqs.Client has it.
type API interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Key names one notice: an event says something of each of its instances.
type Key struct {
	EventID, Instance string
	Kind              model.NoticeKind // events that were rewritten on their way may have no id
}

// Received is one message.
type Received struct {
	ID    string        // of the message
	Event *event.Parsed // nil where it cannot be read
	Err   error         // why not
	Again bool          // it was handed over before
}

// Handlers hear what the queue says. Calls come one after the other, from Run's goroutine, except Deleted.
type Handlers struct {
	Received func(Received)
	State    func(err error) // nil: the queue is read; called at first and when it changes
	Deleted  func(n int)
	Failed   func(err error) // deleting failed; the messages come again
}

// Queue is a reader of one queue. Safe for concurrent use.
type Queue struct {
	api  API
	name string
	h    Handlers
	now  func() time.Time

	mu      sync.Mutex // guards what follows
	pending map[string]*message
	byKey   map[Key]map[string]*message
	done    chan struct{} // has one element while something is to be deleted
	settled []*message
}

type message struct {
	id, receipt string
	open        map[Key]bool // not settled yet
	seen        time.Time
	deleting    bool
}

// New makes a reader; it asks nothing yet.
func New(api API, name string, now func() time.Time, h Handlers) *Queue {
	return &Queue{api: api, name: name, h: h, now: now, pending: map[string]*message{}, byKey: map[Key]map[string]*message{}, done: make(chan struct{}, 1)}
}

// Run reads until the context ends. What was received and is not settled then comes again, to whoever reads next.
func (q *Queue) Run(ctx context.Context) {
	q.mu.Lock()
	clear(q.pending) // of a run before
	clear(q.byKey)
	q.settled = nil
	q.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	var url string
	state := "unknown"
	wait := retryFirst
	for ctx.Err() == nil {
		err := q.turn(ctx, &url, &wg)
		if ctx.Err() != nil {
			return
		}
		is := ""
		if err != nil {
			is = err.Error()
		}
		if is != state {
			q.h.State(err)
		}
		state = is
		if err == nil {
			wait = retryFirst
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryLast)
	}
}

// turn reads once; the first that succeeds only learns where the queue is, and starts what deletes.
func (q *Queue) turn(ctx context.Context, url *string, wg *sync.WaitGroup) error {
	if *url == "" {
		out, err := q.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.name})
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.name, awserr.Of("GetQueueUrl", err))
		}
		*url = sdk.ToString(out.QueueUrl)
		at := *url
		wg.Go(func() { q.deleter(ctx, at) })
		return nil
	}
	out, err := q.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: batch, VisibilityTimeout: visibleSeconds, WaitTimeSeconds: waitSeconds,
	})
	if err != nil {
		return fmt.Errorf("queue %s: %w", q.name, awserr.Of("ReceiveMessage", err))
	}
	for _, m := range out.Messages {
		q.take(m)
	}
	q.tidy()
	return nil
}

func (q *Queue) take(m types.Message) {
	id := sdk.ToString(m.MessageId)
	r := Received{ID: id}
	parsed, err := event.Parse([]byte(sdk.ToString(m.Body)), q.now())
	keys := map[Key]bool{}
	if err != nil {
		r.Err = err
	} else {
		r.Event = parsed
		for _, n := range parsed.Notices {
			keys[Key{n.EventID, n.InstanceID, n.Kind}] = true
		}
	}
	q.mu.Lock()
	old := q.pending[id]
	r.Again = old != nil
	if old != nil {
		q.drop(old)
	}
	entry := &message{id: id, receipt: sdk.ToString(m.ReceiptHandle), open: keys, seen: q.now()}
	q.pending[id] = entry
	for k := range keys {
		if q.byKey[k] == nil {
			q.byKey[k] = map[string]*message{}
		}
		q.byKey[k][id] = entry
	}
	if len(keys) == 0 {
		q.finish(entry)
	}
	q.mu.Unlock()
	q.h.Received(r)
}

// Settled says that a notice needs its message no more. Keys that nobody waits for are left alone.
func (q *Queue) Settled(keys ...Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range keys {
		for _, m := range q.byKey[k] {
			delete(m.open, k)
			if len(m.open) == 0 {
				q.finish(m)
			}
		}
		delete(q.byKey, k)
	}
}

// finish has a message deleted. The lock is held.
func (q *Queue) finish(m *message) {
	if m.deleting {
		return
	}
	m.deleting = true
	q.settled = append(q.settled, m)
	select {
	case q.done <- struct{}{}:
	default:
	}
}

// drop forgets a message. The lock is held.
func (q *Queue) drop(m *message) {
	if q.pending[m.id] == m {
		delete(q.pending, m.id)
	}
	for k := range m.open {
		if delete(q.byKey[k], m.id); len(q.byKey[k]) == 0 {
			delete(q.byKey, k)
		}
	}
}

// tidy forgets messages that have not come again for long: somebody else deleted them, or the queue did.
func (q *Queue) tidy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.pending {
		if !m.deleting && q.now().Sub(m.seen) > forget {
			q.drop(m)
		}
	}
}

// deleter deletes what is settled until the context ends.
func (q *Queue) deleter(ctx context.Context, url string) {
	for {
		select {
		case <-ctx.Done():
			q.flush(context.WithoutCancel(ctx), url)
			return
		case <-q.done:
			q.flush(ctx, url)
		}
	}
}

func (q *Queue) flush(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	for {
		q.mu.Lock()
		n := min(len(q.settled), batch)
		list := q.settled[:n:n]
		q.settled = q.settled[n:]
		q.mu.Unlock()
		if n == 0 {
			return
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
		for i, m := range list {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: sdk.String(strconv.Itoa(i)), ReceiptHandle: &m.receipt})
		}
		out, err := q.api.DeleteMessageBatch(ctx, in)
		deleted := n
		switch {
		case err != nil:
			deleted = 0
			q.h.Failed(fmt.Errorf("queue %s: %w", q.name, awserr.Of("DeleteMessageBatch", err)))
		case len(out.Failed) > 0:
			deleted -= len(out.Failed)
			f := out.Failed[0]
			q.h.Failed(fmt.Errorf("queue %s: %d of %d messages were not deleted, the first: %s: %s", q.name, len(out.Failed), n, sdk.ToString(f.Code), sdk.ToString(f.Message)))
		}
		q.mu.Lock()
		for _, m := range list {
			q.drop(m)
		}
		q.mu.Unlock()
		if deleted > 0 {
			q.h.Deleted(deleted)
		}
		if err != nil {
			return // the rest comes again as well
		}
	}
}
