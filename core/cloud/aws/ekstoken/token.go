package ekstoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	prefix = "k8s-aws-v1."
	// clusterHeader is signed, so that a token for one cluster is none for another.
	clusterHeader = "x-k8s-aws-id"
	// expires is what the URL asks for; STS honours 15 minutes whatever it says.
	expires = "60"
	// Valid is how long a token is used: the server takes it for 15 minutes.
	Valid = 14 * time.Minute
	// emptyHash is the SHA-256 of no body.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// Source makes tokens for one cluster and keeps each while it is valid. Safe for
// concurrent use.
type Source struct {
	Cluster     string
	Region      string
	Credentials aws.CredentialsProvider
	Now         func() time.Time // nil = the clock

	mu    sync.Mutex // guards the rest
	token string
	made  time.Time
}

// Token is a valid token.
func (s *Source) Token(ctx context.Context) (string, error) {
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && now.Sub(s.made) < Valid && !now.Before(s.made) {
		return s.token, nil
	}
	t, err := s.sign(ctx, now)
	if err != nil {
		return "", err
	}
	s.token, s.made = t, now
	return t, nil
}

func (s *Source) sign(ctx context.Context, now time.Time) (string, error) {
	if s.Cluster == "" || s.Region == "" {
		return "", errors.New("token for EKS: cluster and region must be known")
	}
	creds, err := s.Credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("token for EKS: credentials: %w", err)
	}
	url := "https://sts." + s.Region + "." + domain(s.Region) + "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=" + expires
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("token for EKS: %w", err)
	}
	req.Header.Set(clusterHeader, s.Cluster)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, creds, req, emptyHash, "sts", s.Region, now.UTC())
	if err != nil {
		return "", fmt.Errorf("token for EKS: signing: %w", err)
	}
	return prefix + base64.RawURLEncoding.EncodeToString([]byte(signed)), nil
}

// domain is the DNS suffix of a region's partition.
func domain(region string) string {
	if len(region) > 3 && region[:3] == "cn-" {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// Environment reads credentials from the variables that Lambda sets for its role.
type Environment struct {
	Lookup func(name string) (string, bool)
}

// Retrieve implements aws.CredentialsProvider.
func (e Environment) Retrieve(context.Context) (aws.Credentials, error) {
	get := func(name string) string { v, _ := e.Lookup(name); return v }
	c := aws.Credentials{
		AccessKeyID: get("AWS_ACCESS_KEY_ID"), SecretAccessKey: get("AWS_SECRET_ACCESS_KEY"), SessionToken: get("AWS_SESSION_TOKEN"),
		Source: "environment",
	}
	if !c.HasKeys() {
		return aws.Credentials{}, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
	}
	return c, nil
}
