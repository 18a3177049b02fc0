package main

import (
	"context"
	"errors"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/metric"
)

// countAWS counts and times calls of AWS.
func countAWS(m *metric.Metrics) func(sdkconf.Call) {
	return func(c sdkconf.Call) {
		m.AWSCalls.WithLabelValues(c.Service, c.Operation, awsOutcome(c.Err)).Inc()
		m.AWSDuration.WithLabelValues(c.Service, c.Operation).Observe(c.Took.Seconds())
		if c.Throttled > 0 {
			m.AWSThrottled.WithLabelValues(c.Service, c.Operation).Add(float64(c.Throttled))
		}
	}
}

func awsOutcome(err error) string {
	switch sorted := awserr.Of("", err); {
	case err == nil:
		return "ok"
	case errors.Is(sorted, context.DeadlineExceeded), errors.Is(sorted, context.Canceled):
		return "deadline"
	default:
		return string(cloud.KindOf(sorted))
	}
}
