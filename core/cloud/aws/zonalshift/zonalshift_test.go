package zonalshift_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud/aws/zonalshift"
)

const cluster = "arn:aws:eks:us-east-1:123456789012:cluster/prod"

// api is a client whose every call is answered with the status and body.
func api(t *testing.T, status int, code, body string) *arczonalshift.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/managedresources/") {
			t.Errorf("asked for %s %s", r.Method, r.URL.Path)
		}
		if code != "" {
			w.Header().Set("X-Amzn-ErrorType", code)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return arczonalshift.New(arczonalshift.Options{Region: "us-east-1", BaseEndpoint: &s.URL, Retryer: sdk.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
}

func TestZonesThatTheClusterIsShiftedAwayFrom(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		status     int
		code, body string
		want       []string
		again      time.Duration
		fails      bool
	}{
		"none": {status: 200, body: `{"name":"prod","zonalShifts":[],"appliedWeights":{}}`, again: zonalshift.Every},
		"shifts": {status: 200, again: zonalshift.Every, want: []string{"use1-az1", "use1-az4"}, body: `{"name":"prod","appliedWeights":{},"zonalShifts":[
			{"appliedStatus":"APPLIED","awayFrom":"use1-az4","expiryTime":1800000060},{"appliedStatus":"NOT_APPLIED","awayFrom":"use1-az2","expiryTime":1800000060},
			{"appliedStatus":"APPLIED","awayFrom":"use1-az6","expiryTime":1800000000}],"autoshifts":[{"appliedStatus":"APPLIED","awayFrom":"use1-az1"},
			{"appliedStatus":"APPLIED","awayFrom":"use1-az4"},{"appliedStatus":"NOT_APPLIED","awayFrom":"use1-az5"}]}`},
		"not registered": {status: 404, code: "ResourceNotFoundException", body: `{"message":"no"}`, again: zonalshift.EveryOther},
		"no right":       {status: 403, code: "AccessDeniedException", body: `{"message":"no"}`, fails: true},
		"away":           {status: 500, code: "InternalServerException", body: `{"message":"no"}`, again: zonalshift.Every, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, again, err := zonalshift.Read(context.Background(), api(t, c.status, c.code, c.body), cluster, now)
			if (err != nil) != c.fails || again != c.again {
				t.Errorf("again in %v, %v", again, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("zones (-want +got):\n%s", diff)
			}
		})
	}
}
