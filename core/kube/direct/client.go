package direct

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNotFound says that there is no such object.
var ErrNotFound = errors.New("object not found")

// Connection says how the API server is reached. One of Kubeconfig and Endpoint;
// neither means the service account of the pod that this runs in.
type Connection struct {
	Kubeconfig string
	Endpoint   string
	CABundle   string // certificate authority of Endpoint, PEM in base64
	// Token answers a bearer token for Endpoint, a fresh one when the last one gets old.
	Token     func(ctx context.Context) (string, error)
	UserAgent string
	Timeout   time.Duration // of one request, 0 = 10 s
}

// Client reads and writes a few objects. Safe for concurrent use.
type Client struct {
	core    corev1client.CoreV1Interface
	dynamic dynamic.Interface
}

// Connect makes a client; nothing is sent yet.
func Connect(c Connection) (*Client, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = c.UserAgent
	cfg.Timeout = c.Timeout
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	cfg.QPS = -1 // a drain is short; the API server's own fairness bounds it
	return New(cfg)
}

// New makes a client of a REST configuration.
func New(cfg *rest.Config) (*Client, error) {
	// Several clients on one transport: one handshake.
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &Client{core: core, dynamic: dyn}, nil
}

func (c Connection) config() (*rest.Config, error) {
	switch {
	case c.Kubeconfig != "":
		cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
		}
		return cfg, nil
	case c.Endpoint != "":
		ca, err := base64.StdEncoding.DecodeString(c.CABundle)
		if err != nil {
			return nil, fmt.Errorf("certificate authority of %s: not base64: %w", c.Endpoint, err)
		}
		cfg := &rest.Config{Host: c.Endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
		if c.Token != nil {
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &bearer{next: rt, token: c.Token} })
		}
		return cfg, nil
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("no kubeconfig, no endpoint, and not in a pod: %w", err)
	}
	return cfg, nil
}

// bearer puts a token on each request. The token goes nowhere else.
type bearer struct {
	next  http.RoundTripper
	token func(ctx context.Context) (string, error)
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := b.token(r.Context())
	if err != nil {
		return nil, fmt.Errorf("token for the API server: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t)
	return b.next.RoundTrip(r)
}
