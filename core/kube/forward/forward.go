package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/kube/raw"
)

// Options say which scaler is reached, and as whom.
type Options struct {
	Kubeconfig string // path; empty = KUBECONFIG, else ~/.kube/config
	Context    string // of the kubeconfig; empty = its current one
	Namespace  string // of the scaler
	Lease      string // that the leader holds
	Port       int    // of the leader's pod
	// URL of a scaler that can be reached by itself: no lease is read and no port opened.
	URL string
	// ServiceAccount, NAMESPACE/NAME, is asked a token of ten minutes for; empty = the
	// kubeconfig's user must have a token.
	ServiceAccount string
}

// Conn is a way to a scaler.
type Conn struct {
	HTTP *http.Client // adds the token
	URL  string
	Pod  string // empty where no port was opened
	stop func()
}

// Close ends it.
func (c *Conn) Close() { c.stop() }

// tokenSeconds is for how long a token is asked for, the least that there is.
const tokenSeconds = 600

// Open reaches the scaler. Errors say what is missing: a lease, a leader, a right, a token.
func Open(ctx context.Context, o Options) (*Conn, error) {
	cfg, err := raw.Config(o.Kubeconfig, o.Context)
	if err != nil {
		return nil, err
	}
	api, err := raw.Client(cfg)
	if err != nil {
		return nil, err
	}
	// The scaler is on a loopback address at both ends; no proxy has a part in it.
	base := &http.Transport{}
	conn := &Conn{URL: strings.TrimSuffix(o.URL, "/"), stop: base.CloseIdleConnections}
	if conn.HTTP, err = withToken(ctx, api, cfg, o.ServiceAccount, base); err != nil || o.URL != "" {
		return conn, err
	}
	if conn.Pod, err = leader(ctx, api, o); err != nil {
		return nil, err
	}
	p, err := open(api, cfg, o.Namespace, conn.Pod, o.Port)
	if err != nil {
		return nil, fmt.Errorf("port %d of pod %s/%s: %w", o.Port, o.Namespace, conn.Pod, err)
	}
	base.DialContext = p.dial
	conn.URL, conn.stop = fmt.Sprintf("http://127.0.0.1:%d", o.Port), func() {
		base.CloseIdleConnections()
		p.close()
	}
	return conn, nil
}

// leader is the pod that leads: the first part of what it writes into the lease.
func leader(ctx context.Context, api rest.Interface, o Options) (string, error) {
	name := o.Namespace + "/" + o.Lease
	answer, err := raw.Bytes(api.Get().AbsPath("/apis/coordination.k8s.io/v1/namespaces", o.Namespace, "leases", o.Lease).Do(ctx))
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no lease %s: is Weir installed in this cluster, in this namespace, under this name?", name)
	}
	if err != nil {
		return "", fmt.Errorf("lease %s: %w", name, err)
	}
	var l coordinationv1.Lease
	if err := json.Unmarshal(answer, &l); err != nil {
		return "", fmt.Errorf("lease %s: %w", name, err)
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("nobody holds lease %s: no scaler leads now", name)
	}
	pod, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return pod, nil
}

// errNoToken is why a request is not sent.
var errNoToken = errors.New("the user of the kubeconfig has no token, a client certificate perhaps, which ends at the API server: " +
	"name a service account whose token is to be used (--service-account NAMESPACE/NAME)")

// mustHave sends only what has a token.
type mustHave struct{ next http.RoundTripper }

func (m mustHave) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		return nil, errNoToken
	}
	return m.next.RoundTrip(r)
}

// withToken is a client that adds the token of the kubeconfig's user, or of a service account.
func withToken(ctx context.Context, api rest.Interface, cfg *rest.Config, account string, base http.RoundTripper) (*http.Client, error) {
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{}
	if account != "" {
		token, err := tokenOf(ctx, api, account)
		if err != nil {
			return nil, err
		}
		as = &rest.Config{BearerToken: token}
	}
	rt, err := rest.HTTPWrappersForConfig(as, mustHave{base})
	if err != nil {
		return nil, fmt.Errorf("token of the kubeconfig's user: %w", err)
	}
	return &http.Client{Transport: rt}, nil
}

func tokenOf(ctx context.Context, api rest.Interface, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" {
		return "", fmt.Errorf("service account %q: expected NAMESPACE/NAME", account)
	}
	seconds := int64(tokenSeconds)
	body, err := json.Marshal(&authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}})
	if err != nil {
		return "", err
	}
	answer, err := raw.Bytes(api.Post().AbsPath("/api/v1/namespaces", namespace, "serviceaccounts", name, "token").SetHeader("Content-Type", "application/json").Body(body).Do(ctx))
	if err != nil {
		return "", fmt.Errorf("a token of service account %s: %w", account, err)
	}
	var got authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &got); err != nil {
		return "", fmt.Errorf("a token of service account %s: %w", account, err)
	}
	return got.Status.Token, nil
}
