package sdkconf

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// AWS throttles by account, region and operation. The SDK's adaptive retryer is a token
// bucket that slows down when it is throttled and speeds up again; but one of it serves a
// whole client, so that a throttled DescribeInstances would hold up CreateFleet. A Pacer
// has one of them for each operation, and lets the less urgent wait for the more urgent.

// Priority is how urgent an operation is; the lower, the earlier it goes.
type Priority int

// The priorities.
const (
	Launching  Priority = iota // pods wait for it, or money is spent until it is done
	Preparing                  // a launch waits for it
	Following                  // what happens without it is only late
	Collecting                 // nobody waits for it
)

// priorities of operations by service; reads that are not named are Following.
var priorities = map[string]map[string]Priority{
	"EC2": {
		"CreateFleet": Launching, "TerminateInstances": Launching,
		"CreateLaunchTemplate": Preparing, "DescribeLaunchTemplates": Preparing,
		"CreateTags": Collecting, "DeleteLaunchTemplate": Collecting,
		"DescribeInstanceTypes": Collecting, "DescribeInstanceTypeOfferings": Collecting, "DescribeSpotPriceHistory": Collecting,
	},
}

// PriorityOf is how urgent an operation of a service is.
func PriorityOf(service, operation string) Priority {
	if p, ok := priorities[service][operation]; ok {
		return p
	}
	return Following
}

const (
	// yieldFor is how long the less urgent stand back after the more urgent was throttled.
	yieldFor = 2 * time.Second
	// tokenEvery is how often a bucket without a token is asked again.
	tokenEvery = 10 * time.Millisecond
	// yieldMost is how long one attempt stands back at most: nothing is starved.
	yieldMost = 5 * time.Second
)

// Pacer is the retryer of all clients of a process. It is safe for concurrent use.
type Pacer struct {
	*retry.Standard // what is tried again, and when

	mu      sync.Mutex
	buckets map[string]*retry.AdaptiveMode // by service and operation
	busy    map[string]*urgent             // by service
}

// urgent is what the more urgent calls of a service are up to.
type urgent struct {
	waiting [Collecting + 1]int       // attempts without a token
	until   [Collecting + 1]time.Time // throttled not long ago
	changed chan struct{}             // closed when one of them goes on
}

var _ aws.RetryerV2 = (*Pacer)(nil)

// NewPacer makes a pacer. Attempts is how often a call is tried in all, 0 = as the SDK does.
func NewPacer(attempts int) *Pacer {
	return &Pacer{
		Standard: retry.NewStandard(func(o *retry.StandardOptions) {
			if attempts > 0 {
				o.MaxAttempts = attempts
			}
		}),
		buckets: map[string]*retry.AdaptiveMode{}, busy: map[string]*urgent{},
	}
}

func (p *Pacer) bucket(service, operation string) (*retry.AdaptiveMode, *urgent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.buckets[service+"/"+operation]
	if b == nil {
		b = retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) { o.FailOnNoAttemptTokens = true }) // waiting is ours, see token
		p.buckets[service+"/"+operation] = b
	}
	u := p.busy[service]
	if u == nil {
		u = &urgent{changed: make(chan struct{})}
		p.busy[service] = u
	}
	return b, u
}

// GetAttemptToken implements aws.RetryerV2: it waits until the operation's bucket has a token
// and nothing more urgent stands in line.
func (p *Pacer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	own := PriorityOf(service, operation)
	bucket, u := p.bucket(service, operation)
	if err := p.yield(ctx, u, own); err != nil {
		return nil, err
	}
	p.mu.Lock()
	u.waiting[own]++
	p.mu.Unlock()
	release, err := token(ctx, bucket)
	p.mu.Lock()
	u.waiting[own]--
	u.tell()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return func(err error) error {
		p.mu.Lock()
		switch {
		case throttled(err):
			u.until[own] = time.Now().Add(yieldFor)
		case err == nil:
			u.until[own] = time.Time{}
			u.tell()
		}
		p.mu.Unlock()
		return release(err)
	}, nil
}

// GetRetryToken implements aws.RetryerV2. How often may be tried again is the bucket's as well: it is what is told of
// the attempts that succeed, by which retries that were used up come back.
func (p *Pacer) GetRetryToken(ctx context.Context, err error) (func(error) error, error) {
	bucket, _ := p.bucket(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx))
	return bucket.GetRetryToken(ctx, err)
}

// token waits for a token of a bucket. The SDK's own wait ends a rounding error too early, again and again.
func token(ctx context.Context, b *retry.AdaptiveMode) (func(error) error, error) {
	for {
		release, err := b.GetAttemptToken(ctx)
		if err == nil {
			return release, nil
		}
		t := time.NewTimer(tokenEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// throttled says whether AWS was asked too often.
func throttled(err error) bool {
	return err != nil && retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err) == aws.TrueTernary
}

func (u *urgent) tell() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// ahead says whether something more urgent stands in line, and when to look again.
func (u *urgent) ahead(own Priority, now time.Time) (wait time.Duration, yes bool) {
	for p := range own {
		if u.waiting[p] > 0 {
			return yieldMost, true
		}
		if d := u.until[p].Sub(now); d > 0 {
			return d, true
		}
	}
	return 0, false
}

// yield stands back while something more urgent waits.
func (p *Pacer) yield(ctx context.Context, u *urgent, own Priority) error {
	end := time.Now().Add(yieldMost)
	for {
		now := time.Now()
		p.mu.Lock()
		wait, yes := u.ahead(own, now)
		changed := u.changed
		p.mu.Unlock()
		if !yes || !now.Before(end) {
			return nil
		}
		t := time.NewTimer(min(wait, end.Sub(now)))
		select {
		case <-changed:
			t.Stop()
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
