package ecr

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-containerregistry/pkg/authn"
)

// Keychain knows the credentials of ECR's private registries, by the credentials of AWS.
// It is safe for concurrent use.
type Keychain struct {
	config func(context.Context) (aws.Config, error)
	others authn.Keychain
	// endpoint of a region's ECR; a test has its own.
	endpoint func(region, domain string) string
	client   *http.Client
	now      func() time.Time

	mu     sync.Mutex // guards tokens
	tokens map[string]token
}

type token struct {
	user, password string
	until          time.Time
}

var (
	_ authn.Keychain        = (*Keychain)(nil)
	_ authn.ContextKeychain = (*Keychain)(nil)
)

// New makes a keychain. config is called when the first registry of ECR is to be reached,
// not before; registries that are not of ECR are left to others.
func New(config func(context.Context) (aws.Config, error), others authn.Keychain) *Keychain {
	return &Keychain{config: config, others: others, client: &http.Client{Timeout: 30 * time.Second}, now: time.Now, tokens: map[string]token{},
		endpoint: func(region, domain string) string { return "https://api.ecr." + region + "." + domain + "/" }}
}

// private is the name of a private registry: account, region and domain.
var private = regexp.MustCompile(`^[0-9]{12}\.dkr\.ecr\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)$`)

// early is how long before its end a token is asked for anew.
const early = 10 * time.Minute

// Resolve implements authn.Keychain.
func (k *Keychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain.
func (k *Keychain) ResolveContext(ctx context.Context, r authn.Resource) (authn.Authenticator, error) {
	m := private.FindStringSubmatch(r.RegistryStr())
	if m == nil {
		return authn.Resolve(ctx, k.others, r)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tokens[m[1]]
	if !ok || k.now().After(t.until.Add(-early)) {
		var err error
		if t, err = k.ask(ctx, m[1], m[2]); err != nil {
			return nil, fmt.Errorf("credentials of %s: %w", r.RegistryStr(), err)
		}
		k.tokens[m[1]] = t
	}
	return &authn.Basic{Username: t.user, Password: t.password}, nil
}

// ask calls GetAuthorizationToken. The one call is not worth a client with a hundred others.
func (k *Keychain) ask(ctx context.Context, region, domain string) (t token, err error) {
	cfg, err := k.config(ctx)
	if err != nil {
		return token{}, err
	}
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return token{}, err
	}
	const body = "{}"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.endpoint(region, domain), strings.NewReader(body))
	if err != nil {
		return token{}, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "ecr", region, k.now()); err != nil {
		return token{}, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return token{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return token{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return token{}, refusal(resp.StatusCode, text)
	}
	return parse(text)
}

// refusal is the error of an answer that says no.
func refusal(status int, text []byte) error {
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &said) != nil || said.Type == "" {
		return fmt.Errorf("ECR answered with HTTP status %d", status)
	}
	return fmt.Errorf("ECR answered %s (HTTP status %d): %s", said.Type[strings.LastIndexByte(said.Type, '#')+1:], status, said.Message)
}

func parse(text []byte) (token, error) {
	var got struct {
		AuthorizationData []struct {
			AuthorizationToken string  `json:"authorizationToken"`
			ExpiresAt          float64 `json:"expiresAt"` // seconds since 1970
		} `json:"authorizationData"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return token{}, fmt.Errorf("ECR's answer: %w", err)
	}
	if len(got.AuthorizationData) == 0 {
		return token{}, errors.New("ECR's answer has no token")
	}
	plain, err := base64.StdEncoding.DecodeString(got.AuthorizationData[0].AuthorizationToken)
	user, password, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok {
		return token{}, errors.New("ECR's token is not a user and a password") // which must not be in an error
	}
	return token{user, password, time.Unix(int64(got.AuthorizationData[0].ExpiresAt), 0)}, nil
}
