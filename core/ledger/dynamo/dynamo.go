package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/ledger"
)

// Names in the table; infra/cdk makes it with the same ones.
const (
	AttributePartition = "pk"
	AttributeSort      = "sk"
	AttributeInstance  = "instance"
	AttributeExpires   = "expires"
	IndexInstance      = "instance"

	attributeVersion = "version"
	attributeData    = "data"
	attributeUntil   = "until"
	attributeWrite   = "write"
	attributeBefore  = "writeBefore"
)

// How long a call may take where its context says nothing stricter. Whoever waits for
// the ledger can go on without it, so it is better told soon that it is away.
const (
	attemptTimeout = 3 * time.Second
	callTimeout    = 8 * time.Second
)

// Options of a store.
type Options struct {
	Table  string
	Region string
	// Program stands in the user agent.
	Program string
	// Config replaces the SDK's own settings; nil = they are loaded (environment, files,
	// role), AWS_ENDPOINT_URL_DYNAMODB included.
	Config *aws.Config
}

// Store is a ledger in a table. It is safe for concurrent use.
type Store struct {
	client *dynamodb.Client
	table  string
	region string
	closed atomic.Bool
}

var _ ledger.Store = (*Store)(nil)

// Open makes the store. It calls nobody: see Check for whether the table is one.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Table == "" {
		return nil, errors.New("opening ledger: no table given")
	}
	cfg := o.Config
	if cfg == nil {
		loaded, err := sdkconf.Load(ctx, sdkconf.Options{Region: o.Region, AttemptTimeout: attemptTimeout, Program: o.Program})
		if err != nil {
			return nil, fmt.Errorf("opening ledger table %s: %w", o.Table, err)
		}
		cfg = &loaded
	}
	client := dynamodb.NewFromConfig(*cfg, func(d *dynamodb.Options) { d.Retryer = newRetryer() })
	return &Store{client: client, table: o.Table, region: cfg.Region}, nil
}

// Close implements ledger.Store; later calls answer ledger.ErrUnavailable.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// begin bounds a call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if s.closed.Load() {
		return nil, nil, fmt.Errorf("%w: closed", ledger.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	return ctx, cancel, nil
}
