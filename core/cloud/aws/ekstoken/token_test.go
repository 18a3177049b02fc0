package ekstoken_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud/aws/ekstoken"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func environment(vars map[string]string) ekstoken.Environment {
	return ekstoken.Environment{Lookup: func(n string) (string, bool) { v, ok := vars[n]; return v, ok }}
}

var role = map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "AWS_SESSION_TOKEN": "session+token/="}

func decode(t *testing.T, token string) *url.URL {
	t.Helper()
	text, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	if !ok || strings.ContainsAny(text, "=+/") {
		t.Fatalf("token %q is not k8s-aws-v1. and base64url without padding", token)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// signature computes the signature of the request on another way than the library:
// straight from the description of AWS Signature Version 4.
func signature(u *url.URL, cluster, region, secret string) string {
	q := u.Query()
	var parts []string
	for k, v := range q {
		if k != "X-Amz-Signature" {
			parts = append(parts, url.QueryEscape(k)+"="+strings.ReplaceAll(url.QueryEscape(v[0]), "+", "%20"))
		}
	}
	sort.Strings(parts)
	empty := sha256.Sum256(nil)
	canonical := "GET\n/\n" + strings.Join(parts, "&") + "\nhost:" + u.Host + "\nx-k8s-aws-id:" + cluster + "\n\nhost;x-k8s-aws-id\n" + hex.EncodeToString(empty[:])
	hash := sha256.Sum256([]byte(canonical))
	date := q.Get("X-Amz-Date")
	scope := date[:8] + "/" + region + "/sts/aws4_request"
	key := sign(sign(sign(sign([]byte("AWS4"+secret), date[:8]), region), "sts"), "aws4_request")
	return hex.EncodeToString(sign(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hex.EncodeToString(hash[:])))
}

func TestToken(t *testing.T) {
	t.Parallel()
	s := &ekstoken.Source{Cluster: "prod", Region: "us-east-2", Credentials: environment(role), Now: func() time.Time { return noon }}
	token, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := decode(t, token)
	if u.Scheme != "https" || u.Host != "sts.us-east-2.amazonaws.com" || u.Path != "/" || len(token) > 4096 {
		t.Errorf("URL %s of a token of %d bytes", u, len(token))
	}
	got := map[string]string{}
	for k, v := range u.Query() {
		got[k] = strings.Join(v, ",")
	}
	want := map[string]string{
		"Action": "GetCallerIdentity", "Version": "2011-06-15", "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
		"X-Amz-Credential": "AKIDEXAMPLE/20260301/us-east-2/sts/aws4_request", "X-Amz-Date": "20260301T120000Z", "X-Amz-Expires": "60",
		"X-Amz-Security-Token": "session+token/=", "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
		"X-Amz-Signature": signature(u, "prod", "us-east-2", role["AWS_SECRET_ACCESS_KEY"]),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

func TestTokenIsForOneCluster(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return noon }
	a, err := (&ekstoken.Source{Cluster: "a", Region: "us-east-2", Credentials: environment(role), Now: now}).Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&ekstoken.Source{Cluster: "b", Region: "us-east-2", Credentials: environment(role), Now: now}).Token(t.Context())
	if err != nil || a == b {
		t.Errorf("the tokens of two clusters are the same (%v)", err)
	}
}

func TestChina(t *testing.T) {
	t.Parallel()
	token, err := (&ekstoken.Source{Cluster: "a", Region: "cn-north-1", Credentials: environment(role)}).Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h := decode(t, token).Host; h != "sts.cn-north-1.amazonaws.com.cn" {
		t.Errorf("host %s", h)
	}
}

func TestTokenIsKeptWhileItIsValid(t *testing.T) {
	t.Parallel()
	now, calls := noon, 0
	creds := aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		calls++
		return environment(role).Retrieve(ctx)
	})
	s := &ekstoken.Source{Cluster: "a", Region: "us-east-2", Credentials: creds, Now: func() time.Time { return now }}
	first, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now = noon.Add(14*time.Minute - time.Second)
	if again, err := s.Token(t.Context()); again != first || calls != 1 || err != nil {
		t.Errorf("a valid token was made anew, %d calls, %v", calls, err)
	}
	now = noon.Add(14 * time.Minute)
	if next, err := s.Token(t.Context()); next == first || calls != 2 || err != nil {
		t.Errorf("an old token was used, %d calls, %v", calls, err)
	}
	now = noon.Add(-time.Hour) // the clock was set back: the token is from the future
	if _, err := s.Token(t.Context()); calls != 3 || err != nil {
		t.Errorf("a token of the future was used, %d calls, %v", calls, err)
	}
}

func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	failing := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no role") })
	for name, c := range map[string]struct {
		s    *ekstoken.Source
		want string
	}{
		"no cluster":  {&ekstoken.Source{Region: "us-east-2", Credentials: environment(role)}, "token for EKS: cluster and region must be known"},
		"no region":   {&ekstoken.Source{Cluster: "a", Credentials: environment(role)}, "token for EKS: cluster and region must be known"},
		"provider":    {&ekstoken.Source{Cluster: "a", Region: "us-east-2", Credentials: failing}, "token for EKS: credentials: no role"},
		"environment": {&ekstoken.Source{Cluster: "a", Region: "us-east-2", Credentials: environment(map[string]string{"AWS_ACCESS_KEY_ID": "AKID"})}, "token for EKS: credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"},
	} {
		if _, err := c.s.Token(t.Context()); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
