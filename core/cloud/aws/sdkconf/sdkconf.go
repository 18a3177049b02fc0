package sdkconf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Options say what the SDK's own settings do not.
type Options struct {
	// Region is where calls go to; it is never guessed.
	Region string
	// AttemptTimeout ends one attempt of a call, its answer included; 0 = 30 s.
	AttemptTimeout time.Duration
	// Program stands in the user agent.
	Program string
	// Pacer, where it is set, is the retryer of all clients of this configuration.
	Pacer *Pacer
	// OnCall hears of each call when it ends; may be nil. It is called by the caller's goroutine.
	OnCall func(Call)
}

// Load reads the SDK's settings (environment and files; credentials are fetched with
// the first call) and answers the configuration of all clients.
func Load(ctx context.Context, o Options) (aws.Config, error) {
	if o.Region == "" {
		return aws.Config{}, errors.New("aws: no region is set, expected one such as eu-west-1")
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithAppID(o.Program))
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws settings: %w", err)
	}
	if o.Pacer != nil {
		cfg.Retryer = func() aws.Retryer { return o.Pacer }
	}
	if o.OnCall != nil {
		cfg.APIOptions = append(cfg.APIOptions, watch(o.OnCall))
	}
	// The transport is taken from what was loaded, so that a certificate bundle and a
	// proxy of the SDK's settings stay in force.
	built, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		built = awshttp.NewBuildableClient()
	}
	timeout := o.AttemptTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	cfg.HTTPClient = &http.Client{
		Transport: WholeBody(built.GetTransport()),
		Timeout:   timeout,
		// A signed request means one host and one path.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return cfg, nil
}

// WholeBody reads the body of a request and gives base one that nobody else closes.
//
// The SDK closes the body it handed over as soon as the headers of the answer are
// there. A server may answer before net/http is done with the body; net/http then
// finds it closed and gives up the connection, and the call ends with "use of closed
// network connection" although the work is done. A repeated call is harmless only
// where it is recognised as one, so the fault is kept away instead.
func WholeBody(base http.RoundTripper) http.RoundTripper { return whole{base} }

type whole struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w whole) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return w.base.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the request's body: %w", err)
	}
	own := r.Clone(r.Context())
	own.ContentLength = int64(len(body))
	// With it a connection that the server had closed before is replaced by net/http itself.
	own.GetBody = func() (io.ReadCloser, error) {
		if len(body) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	if own.Body, err = own.GetBody(); err != nil {
		return nil, err
	}
	return w.base.RoundTrip(own)
}
