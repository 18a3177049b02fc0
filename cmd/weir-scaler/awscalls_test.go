package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/metric"
)

func TestCallsOfAWSAreCounted(t *testing.T) {
	t.Parallel()
	m, err := metric.New(metric.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tell := countAWS(m)
	api := func(code string) error {
		return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code})
	}
	for _, c := range []sdkconf.Call{
		{Attempts: 2, Throttled: 1, Took: time.Second},
		{Attempts: 3, Throttled: 3, Err: api("RequestLimitExceeded")},
		{Attempts: 1, Err: api("ExpiredToken")},
		{Attempts: 1, Err: fmt.Errorf("canceled: %w", context.DeadlineExceeded)},
	} {
		c.Service, c.Operation = "EC2", "CreateFleet"
		tell(c)
	}
	for outcome, want := range map[string]float64{"ok": 1, "throttled": 1, "auth": 1, "deadline": 1, "shortage": 0} {
		if got := testutil.ToFloat64(m.AWSCalls.WithLabelValues("EC2", "CreateFleet", outcome)); got != want {
			t.Errorf("%s: %v calls, want %v", outcome, got, want)
		}
	}
	if got := testutil.ToFloat64(m.AWSThrottled.WithLabelValues("EC2", "CreateFleet")); got != 4 {
		t.Errorf("%v throttled attempts, want 4", got)
	}
}
