package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-project/weir/core/kube/forward"
	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
)

// forwarders are two service accounts: ann may forward ports, bob may only read the lease.
const forwarders = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: forward-ann}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: forward-bob}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: forward-lease}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: forward-port}
rules: [{apiGroups: [""], resources: [pods/portforward], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: forward-lease}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: forward-lease}
subjects: [{kind: ServiceAccount, name: forward-ann, namespace: default}, {kind: ServiceAccount, name: forward-bob, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: forward-port}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: forward-port}
subjects: [{kind: ServiceAccount, name: forward-ann, namespace: default}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: forward-leader-election}
spec: {holderIdentity: forward-pod_1}
`

// kubeletOf serves ports of the pod forward-pod on a node of its own, and is where the API server finds it.
func kubeletOf(t *testing.T, c *harness.ControlPlane) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /portForward/{namespace}/{pod}", fakekubelet.ForwardPorts(func(namespace, pod, port string) (net.Conn, error) {
		if namespace != metav1.NamespaceDefault || pod != "forward-pod" {
			return nil, fmt.Errorf("no pod %s/%s here", namespace, pod)
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return nil, fmt.Errorf("connection refused by port %s", port)
		}
		return conn, nil
	}))
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	nodes, pods := c.Client.CoreV1().Nodes(), c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "forward-node"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := int64(0)
		for name, err := range map[string]error{
			"pod":  pods.Delete(context.Background(), "forward-pod", metav1.DeleteOptions{GracePeriodSeconds: &now}),
			"node": nodes.Delete(context.Background(), "forward-node", metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	status := fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, port)
	if _, err := nodes.Patch(t.Context(), "forward-node", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	c.Apply(t, metav1.NamespaceDefault, `
apiVersion: v1
kind: Pod
metadata: {name: forward-pod}
spec: {nodeName: forward-node, tolerations: [{operator: Exists}], containers: [{name: scaler, image: i}]}
`)
	if _, err := pods.Patch(t.Context(), "forward-pod", types.MergePatchType, []byte(`{"status": {"phase": "Running"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// TestForwardThroughAnAPIServer reaches a port of the pod that leads through a real API
// server, which reaches a kubelet: that of ours is a double, all before it is not.
func TestForwardThroughAnAPIServer(t *testing.T) {
	t.Parallel()
	c := harness.Cluster(t)
	o := &operated{killed: &killed{ControlPlane: c}}
	c.Apply(t, metav1.NamespaceDefault, forwarders)
	kubeletOf(t, c)
	scaler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		if _, err := fmt.Fprint(w, strings.Repeat("long ", 100_000), r.URL.Path); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(scaler.Close)
	_, port, err := net.SplitHostPort(scaler.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}

	ask := func(account string, port int) (string, error) {
		conn, err := forward.Open(t.Context(), forward.Options{Kubeconfig: o.kubeconfig(t, account), Namespace: metav1.NamespaceDefault, Lease: "forward-leader-election", Port: port})
		if err != nil {
			return "", err
		}
		defer conn.Close()
		conn.HTTP.Timeout = time.Minute
		text := ""
		for range 2 { // over a second connection, too
			resp, err := conn.HTTP.Get(conn.URL + "/weir/strategies")
			if err != nil {
				return "", err
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				return "", err
			}
			if err := resp.Body.Close(); err != nil {
				return "", err
			}
			text = resp.Status + " " + string(b)
			conn.HTTP.CloseIdleConnections()
		}
		return text, nil
	}
	if text, err := ask("forward-ann", number); err != nil || !strings.HasPrefix(text, "200 OK long ") || !strings.HasSuffix(text, "/weir/strategies") || len(text) < 500_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := ask("forward-ann", 1); err == nil || !strings.Contains(err.Error(), "port 1 of the pod: connection refused by port 1") {
		t.Errorf("a closed port: %v", err)
	}
	if _, err := ask("forward-bob", number); err == nil || !strings.Contains(err.Error(), `cannot create resource "pods/portforward"`) {
		t.Errorf("without the right: %v", err)
	}
}
