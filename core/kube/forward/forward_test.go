package forward

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weir-project/weir/integration/fakekubelet"
)

// cluster is an API server of which a lease, a pod's port and a service account's tokens are there.
type cluster struct {
	*httptest.Server
	holder string
	port   string // that the pod listens on, of this host
	scaler *httptest.Server
	seen   chan string // Authorization of what the scaler was asked
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{holder: "weir-7f_1_2_1", seen: make(chan string, 10)}
	c.scaler = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.seen <- r.Header.Get("Authorization")
		fmt.Fprint(w, "answer to "+r.URL.Path)
	}))
	t.Cleanup(c.scaler.Close)
	_, c.port, _ = net.SplitHostPort(strings.TrimPrefix(c.scaler.URL, "http://"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/weir-system/leases/weir-leader-election", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": %q}}`, c.holder)
	})
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/weir-system/leases/secret", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "leases is forbidden: User \"ann\" cannot get it", "reason": "Forbidden", "code": 403}`)
	})
	mux.HandleFunc("POST /api/v1/namespaces/ops/serviceaccounts/ann/token", func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Spec struct{ ExpirationSeconds int }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Spec.ExpirationSeconds != 600 {
			t.Errorf("token asked for with %+v (%v)", asked, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "status": {"token": "ann-token"}}`)
	})
	mux.Handle("POST /api/v1/namespaces/weir-system/pods/weir-7f/portforward", fakekubelet.ForwardPorts(dial))
	c.Server = httptest.NewTLSServer(mux) // without TLS no client sends its token
	t.Cleanup(c.Close)
	return c
}

// dial is how the kubelet reaches a port of the pod.
func dial(_, _, port string) (net.Conn, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, fmt.Errorf("connection refused by port %s", port)
	}
	return c, nil
}

func (c *cluster) kubeconfig(t *testing.T, user clientcmdapi.AuthInfo) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: c.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
	}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *cluster) options(t *testing.T, user clientcmdapi.AuthInfo) Options {
	t.Helper()
	port, err := strconv.Atoi(c.port)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Kubeconfig: c.kubeconfig(t, user), Context: "x", Namespace: "weir-system", Lease: "weir-leader-election", Port: port}
}

func ask(t *testing.T, conn *Conn) (string, error) {
	t.Helper()
	resp, err := conn.HTTP.Get(conn.URL + "/weir/strategies")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestForward(t *testing.T) {
	t.Parallel()
	exec := clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args: []string{"-c", `echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "exec-token"}}'`}}}
	for name, tt := range map[string]struct {
		user    clientcmdapi.AuthInfo
		account string
		token   string
	}{
		"token":              {clientcmdapi.AuthInfo{Token: "user-token"}, "", "Bearer user-token"},
		"token of a program": {exec, "", "Bearer exec-token"},
		"service account":    {clientcmdapi.AuthInfo{Token: "user-token"}, "ops/ann", "Bearer ann-token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			o := c.options(t, tt.user)
			o.ServiceAccount = tt.account
			conn, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for range 2 { // a second connection, too, where the first was closed
				text, err := ask(t, conn)
				if err != nil || text != "answer to /weir/strategies" || conn.Pod != "weir-7f" {
					t.Errorf("pod %s: %q, %v", conn.Pod, text, err)
				}
				if got := <-c.seen; got != tt.token {
					t.Errorf("asked with %q, want %q", got, tt.token)
				}
				conn.HTTP.CloseIdleConnections()
			}
		})
	}
}

func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	user := clientcmdapi.AuthInfo{Token: "user-token"}
	for name, tt := range map[string]struct {
		user   clientcmdapi.AuthInfo
		change func(*cluster, *Options)
		want   string
	}{
		"lease":      {user, func(_ *cluster, o *Options) { o.Lease = "other" }, "there is no lease weir-system/other: is Weir installed"},
		"right":      {user, func(_ *cluster, o *Options) { o.Lease = "secret" }, `lease weir-system/secret: leases is forbidden: User "ann" cannot get it`},
		"leader":     {user, func(c *cluster, _ *Options) { c.holder = "" }, "no scaler leads now"},
		"pod":        {user, func(c *cluster, _ *Options) { c.holder = "gone_1" }, "of pod weir-system/gone"},
		"account":    {user, func(_ *cluster, o *Options) { o.ServiceAccount = "ops/eve" }, "a token of service account ops/eve"},
		"namespace":  {user, func(_ *cluster, o *Options) { o.ServiceAccount = "eve" }, "expected NAMESPACE/NAME"},
		"context":    {user, func(_ *cluster, o *Options) { o.Context = "y" }, `context "y" does not exist`},
		"kubeconfig": {user, func(_ *cluster, o *Options) { o.Kubeconfig = "/does/not/exist" }, "kubeconfig: stat /does/not/exist"},
		"token":      {clientcmdapi.AuthInfo{}, func(*cluster, *Options) {}, "has no token"},
		"port":       {user, func(_ *cluster, o *Options) { o.Port = 1 }, "port 1 of the pod: connection refused by port 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			o := c.options(t, tt.user)
			tt.change(c, &o)
			conn, err := Open(t.Context(), o)
			if err == nil {
				defer conn.Close()
				_, err = ask(t, conn)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "user-token") {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestByURL(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.options(t, clientcmdapi.AuthInfo{Token: "user-token"})
	o.URL, o.Lease = c.scaler.URL+"/", "none"
	conn, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := ask(t, conn); err != nil || text != "answer to /weir/strategies" {
		t.Errorf("%q, %v", text, err)
	}
}
