package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answering is a cluster whose API server answers with these codes, the last for ever.
func answering(t *testing.T, codes ...int) (*Cluster, *atomic.Int64) {
	t.Helper()
	asked := &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(asked.Add(1))
		code := codes[min(n, len(codes))-1]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code)}
		switch code {
		case http.StatusUnauthorized:
			status.Reason = metav1.StatusReasonUnauthorized
		case http.StatusForbidden:
			status.Reason = metav1.StatusReasonForbidden
		}
		if err := json.NewEncoder(w).Encode(status); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := Connect(t.Context(), Target{
		Endpoint: server.URL, CertificateAuthority: base64.StdEncoding.EncodeToString(authority),
		Token: func(context.Context) (string, error) { return "token", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, asked
}

func TestAwaitAdmission(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		codes []int
		asked int64
	}{
		"at once":               {[]int{http.StatusOK}, 1},
		"once it is known":      {[]int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusForbidden, http.StatusOK}, 4},
		"other faults are told": {[]int{http.StatusUnauthorized, http.StatusNotFound}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, asked := answering(t, tc.codes...)
			if err := c.AwaitAdmission(t.Context(), time.Millisecond, time.Minute); err != nil {
				t.Fatal(err)
			}
			if n := asked.Load(); n != tc.asked {
				t.Errorf("asked %d times, expected %d", n, tc.asked)
			}
		})
	}
}

func TestAdmissionIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	c, asked := answering(t, http.StatusUnauthorized)
	err := c.AwaitAdmission(t.Context(), time.Millisecond, 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "access entry") {
		t.Errorf("error %v, expected it to name the access entry", err)
	}
	if asked.Load() == 0 {
		t.Error("nobody was asked")
	}
}
