package sdkconf

import (
	"context"
	"fmt"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
)

// Call is one call of a service as its caller sees it: with its attempts and their pauses.
type Call struct {
	Service   string // such as EC2
	Operation string // such as CreateFleet
	Err       error
	Took      time.Duration
	Attempts  int // sent; 0 where it ended before the first
	Throttled int // attempts that were answered with "too often"
}

// watch tells f of each call. It stands around everything else, retries included.
func watch(f func(Call)) func(*middleware.Stack) error {
	return func(s *middleware.Stack) error {
		err := s.Initialize.Add(middleware.InitializeMiddlewareFunc("WeirWatch", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			began := time.Now()
			out, meta, err := next.HandleInitialize(ctx, in)
			c := Call{Service: awsmiddleware.GetServiceID(ctx), Operation: awsmiddleware.GetOperationName(ctx), Err: err, Took: time.Since(began)}
			if tries, ok := retry.GetAttemptResults(meta); ok {
				c.Attempts = len(tries.Results)
				for _, r := range tries.Results {
					if throttled(r.Err) {
						c.Throttled++
					}
				}
			}
			f(c)
			return out, meta, err
		}), middleware.After) // after the step that puts service and operation into the context
		if err != nil {
			return fmt.Errorf("watching calls of AWS: %w", err)
		}
		return nil
	}
}
