package sdkconf_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
)

var errThrottled = &smithy.GenericAPIError{Code: "RequestLimitExceeded", Message: "Request limit exceeded."}

// of is the context that the SDK asks the retryer with.
func of(t *testing.T, operation string) context.Context {
	t.Helper()
	var out context.Context
	s := awsmiddleware.RegisterServiceMetadata{ServiceID: "EC2", OperationName: operation}
	if _, _, err := s.HandleInitialize(t.Context(), middleware.InitializeInput{}, middleware.InitializeHandlerFunc(func(ctx context.Context, _ middleware.InitializeInput) (o middleware.InitializeOutput, m middleware.Metadata, err error) {
		out = ctx
		return
	})); err != nil {
		t.Fatal(err)
	}
	return out
}

// attempt makes one attempt of an operation that is answered with err at once, and says how long it waited for its token.
func attempt(t *testing.T, p *sdkconf.Pacer, operation string, err error) time.Duration {
	t.Helper()
	began := time.Now()
	release, terr := p.GetAttemptToken(of(t, operation))
	if terr != nil {
		t.Fatalf("%s: %v", operation, terr)
	}
	took := time.Since(began)
	if rerr := release(err); rerr != nil {
		t.Fatalf("%s: %v", operation, rerr)
	}
	return took
}

// rate is how many attempts of an operation get a token within a minute.
func rate(t *testing.T, p *sdkconf.Pacer, operation string) int {
	n := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); n++ {
		attempt(t, p, operation, nil)
		time.Sleep(50 * time.Millisecond) // the call itself
	}
	return n
}

func TestAnOperationThatIsThrottledSlowsDownAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sdkconf.NewPacer(0)
		free := rate(t, p, "DescribeInstances")
		for range 20 {
			attempt(t, p, "DescribeInstances", errThrottled)
		}
		began := time.Now()
		for range 20 {
			attempt(t, p, "DescribeInstances", nil)
		}
		if slow := time.Since(began); slow < 2*time.Second {
			t.Errorf("twenty attempts after twenty throttled ones took %v, want them to be slowed down", slow)
		}
		if d := attempt(t, p, "CreateFleet", nil); d != 0 {
			t.Errorf("a throttled DescribeInstances kept CreateFleet waiting for %v", d)
		}
		rate(t, p, "DescribeInstances") // without a complaint
		if again := rate(t, p, "DescribeInstances"); again < free*8/10 {
			t.Errorf("%d attempts a minute long after, %d before", again, free)
		}
	})
}

func TestTheLessUrgentStandsBackWhileTheMoreUrgentIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sdkconf.NewPacer(0)
		attempt(t, p, "CreateFleet", errThrottled)
		if d := attempt(t, p, "DescribeSubnets", nil); d < time.Second || d > 5*time.Second {
			t.Errorf("DescribeSubnets waited %v, want it to stand back, yet not for ever", d)
		}
		if d := attempt(t, p, "DescribeSubnets", nil); d != 0 {
			t.Errorf("and then again for %v", d)
		}
		attempt(t, p, "CreateFleet", errThrottled)
		done := make(chan time.Duration)
		go func() { done <- attempt(t, p, "CreateTags", nil) }()
		synctest.Wait()
		time.Sleep(time.Second / 2)
		release, err := p.GetAttemptToken(of(t, "CreateFleet"))
		if err == nil {
			err = release(nil) // the launch went through
		}
		if err != nil {
			t.Fatal(err)
		}
		if d := <-done; d > 2*time.Second {
			t.Errorf("CreateTags waited %v although nothing stood before it any more", d)
		}
	})
}

func TestStandingBackEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sdkconf.NewPacer(0)
		attempt(t, p, "CreateFleet", errThrottled)
		ctx, cancel := context.WithTimeout(of(t, "DescribeInstances"), 100*time.Millisecond)
		defer cancel()
		if _, err := p.GetAttemptToken(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNothingIsStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sdkconf.NewPacer(0)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					attempt(t, p, "CreateFleet", errThrottled)
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
		time.Sleep(time.Second)
		if d := attempt(t, p, "DescribeInstances", nil); d > 6*time.Second {
			t.Errorf("DescribeInstances waited %v", d)
		}
		close(stop)
		<-ended
	})
}

// How often calls may be tried again is counted for each operation, and comes back with calls that succeed.
func TestRetriesOfAnOperationAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sdkconf.NewPacer(0)
		again := func(operation string) error {
			release, err := p.GetRetryToken(of(t, operation), errThrottled)
			if err != nil {
				return err
			}
			return release(errThrottled) // in vain as well
		}
		n := 0
		for again("DescribeInstances") == nil {
			if n++; n > 10000 {
				t.Fatal("an operation that is always throttled is tried again without end")
			}
		}
		if err := again("CreateFleet"); err != nil {
			t.Errorf("the retries of DescribeInstances were those of CreateFleet: %v", err)
		}
		for range 20 {
			attempt(t, p, "DescribeInstances", nil)
		}
		if err := again("DescribeInstances"); err != nil {
			t.Errorf("after twenty calls that succeeded: %v", err)
		}
	})
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	order := []string{"CreateFleet", "CreateLaunchTemplate", "DescribeInstances", "DescribeSpotPriceHistory"}
	for i := range order[1:] {
		if a, b := sdkconf.PriorityOf("EC2", order[i]), sdkconf.PriorityOf("EC2", order[i+1]); a >= b {
			t.Errorf("%s (%d) does not go before %s (%d)", order[i], a, order[i+1], b)
		}
	}
	if sdkconf.PriorityOf("DynamoDB", "PutItem") != sdkconf.Following {
		t.Error("other services have no order")
	}
}

// answers is a transport that throttles the first answers.
type answers struct{ throttle int }

func (a *answers) Do(*http.Request) (*http.Response, error) {
	status, body := 200, `<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><subnetSet/></DescribeSubnetsResponse>`
	if a.throttle > 0 {
		a.throttle--
		status, body = 503, `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>`
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func TestEachCallIsTold(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	var calls []sdkconf.Call
	cfg, err := sdkconf.Load(t.Context(), sdkconf.Options{Region: "eu-west-1", Pacer: sdkconf.NewPacer(3), OnCall: func(c sdkconf.Call) { calls = append(calls, c) }})
	if err != nil {
		t.Fatal(err)
	}
	a := &answers{throttle: 1}
	cfg.HTTPClient = a
	synctest.Test(t, func(t *testing.T) {
		client := ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.BaseEndpoint = aws.String("http://ec2.test") })
		if _, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
			t.Error(err)
		}
		a.throttle = 100
		if _, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err == nil {
			t.Error("a call that is always throttled came through")
		}
	})
	if len(calls) != 2 {
		t.Fatalf("told of %+v", calls)
	}
	for i, want := range []struct{ attempts, throttled int }{{2, 1}, {3, 3}} {
		c := calls[i]
		if c.Service != "EC2" || c.Operation != "DescribeSubnets" || c.Attempts != want.attempts || c.Throttled != want.throttled || (c.Err != nil) != (i == 1) {
			t.Errorf("call %d: %+v, want %+v", i, c, want)
		}
	}
}
