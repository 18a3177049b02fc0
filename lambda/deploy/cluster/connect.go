package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Target says where the API server is.
type Target struct {
	Endpoint             string
	CertificateAuthority string // PEM in base64
	// Token answers a bearer token, a fresh one when the last one gets old.
	Token func(ctx context.Context) (string, error)
}

// Cluster is the connection of one run.
type Cluster struct {
	Config *rest.Config

	core      kubernetes.Interface
	dynamic   dynamic.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

// userAgent names this program in the API server's audit log.
const userAgent = "weir-deploy"

// Connect makes the clients of one run, which ends with the context; nothing is sent yet.
func Connect(ctx context.Context, t Target) (*Cluster, error) {
	authority, err := base64.StdEncoding.DecodeString(t.CertificateAuthority)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of the cluster: %w", err)
	}
	cfg := &rest.Config{Host: t.Endpoint, UserAgent: userAgent, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
	cfg.QPS = -1 // a release has some dozens of objects; the API server's own fairness bounds it
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{run: ctx, token: t.Token, next: next} })
	c := &Cluster{Config: cfg}
	if c.core, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	c.discovery = memory.NewMemCacheClient(c.core.Discovery())
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	return c, nil
}

// fence lets requests through, with a token, as long as the run has not ended.
type fence struct {
	run   context.Context
	token func(ctx context.Context) (string, error)
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := f.run.Err(); err != nil {
		return nil, fmt.Errorf("the time of this run is over: %w", err)
	}
	token, err := f.token(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return f.next.RoundTrip(req)
}

// Discovery is what the API server serves, remembered for the run.
func (c *Cluster) Discovery() discovery.CachedDiscoveryInterface { return c.discovery }

// Mapper finds the resources of kinds.
func (c *Cluster) Mapper() *restmapper.DeferredDiscoveryRESTMapper { return c.mapper }

// Core is the client of built-in kinds.
func (c *Cluster) Core() kubernetes.Interface { return c.core }
