package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// probeTimeout bounds one look, so that one that hangs is not the last.
const probeTimeout = 10 * time.Second

// prober makes the probes that tell when the cluster is ready.
type prober struct {
	http   *http.Client
	client kubernetes.Interface
}

func newProber(c *cluster) (*prober, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.adminKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read own kubeconfig: %w", err)
	}
	cfg.Timeout = probeTimeout
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	return &prober{http: hc, client: client}, nil
}

// httpOK asks for status 200 of url.
func (p *prober) httpOK(url string) probe {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := p.http.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close() // read only
		body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
		if err != nil {
			return fmt.Errorf("GET %s: %w", url, err)
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}

// serviceAccount asks that a service account exists.
func (p *prober) serviceAccount(namespace, name string) probe {
	return func(ctx context.Context) error {
		_, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

// namespace asks that a namespace exists.
func (p *prober) namespace(name string) probe {
	return func(ctx context.Context) error {
		_, err := p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err
	}
}
