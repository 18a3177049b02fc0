package ecr

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

type others struct{}

func (others) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "of", Password: "others"}, nil
}

func TestKeychain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	asked, answer := 0, http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("X-Amz-Target") != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/ecr/aws4_request") {
			t.Errorf("asked with %v", r.Header)
		}
		w.WriteHeader(answer)
		if answer != http.StatusOK {
			fmt.Fprint(w, `{"__type": "com.amazon#AccessDeniedException", "message": "not authorized to perform: ecr:GetAuthorizationToken"}`)
			return
		}
		fmt.Fprintf(w, `{"authorizationData": [{"authorizationToken": %q, "expiresAt": %d.5}]}`, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "AWS:secret-%d", asked)), now.Add(12*time.Hour).Unix())
	}))
	t.Cleanup(srv.Close)
	k := New(func(context.Context) (aws.Config, error) {
		return aws.Config{Credentials: credentials.NewStaticCredentialsProvider("id", "key", "")}, nil
	}, others{})
	k.endpoint = func(string, string) string { return srv.URL }
	k.now = func() time.Time { return now }
	resolve := func(repository string) (string, error) {
		t.Helper()
		r, err := name.NewRepository(repository)
		if err != nil {
			t.Fatal(err)
		}
		a, err := k.Resolve(r)
		if err != nil {
			return "", err
		}
		c, err := a.Authorization()
		if err != nil {
			t.Fatal(err)
		}
		return c.Username + ":" + c.Password, nil
	}
	const ours = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/carbon"
	for _, tt := range []struct {
		repository, want string
		after            time.Duration
	}{
		{"registry.example/team/carbon", "of:others", 0},
		{"111122223333.dkr.ecr.eu-west-1.amazonaws.com.evil.example/carbon", "of:others", 0},
		{ours, "AWS:secret-1", 0},
		{ours, "AWS:secret-1", 11 * time.Hour},
		{ours, "AWS:secret-2", 55 * time.Minute},
	} {
		now = now.Add(tt.after)
		if got, err := resolve(tt.repository); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.repository, got, err, tt.want)
		}
	}
	now, answer = now.Add(24*time.Hour), http.StatusBadRequest
	if _, err := resolve(ours); err == nil || !strings.Contains(err.Error(), "ECR answered AccessDeniedException (HTTP status 400): not authorized to perform: ecr:GetAuthorizationToken") {
		t.Errorf("refused: %v", err)
	}
	if _, err := parse([]byte(`{"authorizationData": [{"authorizationToken": "c2VjcmV0"}]}`)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a token without a user: %v", err)
	}
}
