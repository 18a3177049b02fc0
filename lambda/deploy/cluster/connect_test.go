package cluster_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/lambda/deploy/cluster"
)

// TestFence: a run whose time is over sends nothing any more, whoever still works for it.
func TestFence(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer token" || r.UserAgent() != "weir-deploy" {
			t.Errorf("request of %q with %q", r.UserAgent(), r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New("no credentials")
	var token atomic.Pointer[error]
	c, err := cluster.Connect(ctx, cluster.Target{
		Endpoint: server.URL, CertificateAuthority: base64.StdEncoding.EncodeToString(ca),
		Token: func(context.Context) (string, error) {
			if err := token.Load(); err != nil {
				return "", *err
			}
			return "token", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	version := func() error {
		_, err := c.Core().Discovery().ServerVersion()
		return err
	}
	if err := version(); err == nil || calls.Load() == 0 {
		t.Fatalf("%d requests, %v", calls.Load(), err)
	}
	before := calls.Load()
	token.Store(&refused)
	if err := version(); !errors.Is(err, refused) {
		t.Errorf("error %v, expected that of the token", err)
	}
	token.Store(nil)
	cancel()
	if err := version(); err == nil || !strings.Contains(err.Error(), "the time of this run is over") {
		t.Errorf("error %v", err)
	}
	if now := calls.Load(); now != before {
		t.Errorf("%d requests after the run's end", now-before)
	}
}

func TestBadAuthority(t *testing.T) {
	t.Parallel()
	if _, err := cluster.Connect(t.Context(), cluster.Target{Endpoint: "https://api.example", CertificateAuthority: "*"}); err == nil {
		t.Error("it is taken")
	}
}
