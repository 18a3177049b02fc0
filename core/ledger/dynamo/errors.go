package dynamo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/weir-project/weir/core/ledger"
)

const (
	attempts   = 6
	firstPause = 50 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// newRetryer tries a call again after throttling, a fault of the service, a cut
// connection, an answer that cannot be read, and a transaction in the way: at most six
// times, with pauses drawn from zero to a bound that doubles. The context of the call
// ends it earlier.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return rand.N(min(firstPause<<min(attempt, 10), longPause)), nil
		})
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(retryable))
	})
}

// retryable knows what the SDK's own rules do not.
func retryable(err error) aws.Ternary {
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return aws.BoolTernary(passing(cancelled.CancellationReasons))
	}
	var conflict *types.TransactionConflictException
	var unreadable *smithy.DeserializationError
	if errors.As(err, &conflict) || errors.As(err, &unreadable) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// passing says whether a transaction failed only for reasons that go away.
func passing(reasons []types.CancellationReason) bool {
	found := false
	for _, r := range reasons {
		switch aws.ToString(r.Code) {
		case "", "None":
		case "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError", "RequestLimitExceeded", "InternalServerError":
			found = true
		default:
			return false
		}
	}
	return found
}

// explain maps what a call ended with to the errors of the port. ctx is the caller's.
func explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" {
		return fmt.Errorf("%w: %s", ledger.ErrInvalid, api.ErrorMessage())
	}
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		for _, r := range cancelled.CancellationReasons {
			if aws.ToString(r.Code) == "ValidationError" {
				return fmt.Errorf("%w: %s", ledger.ErrInvalid, aws.ToString(r.Message))
			}
		}
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}
