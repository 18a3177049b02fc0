package live

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/kube/load"
)

// server is an API server whose lists are empty where a test does not say otherwise.
type server struct {
	answers map[string][]func(http.ResponseWriter) // by path; the last one stays

	mu    sync.Mutex
	asked []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := r.URL.Path
	if c := r.URL.Query().Get("continue"); c != "" {
		at += " " + c
	}
	s.asked = append(s.asked, at)
	w.Header().Set("Content-Type", "application/json")
	list := s.answers[at]
	if len(list) == 0 {
		fmt.Fprint(w, `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`)
		return
	}
	if len(list) > 1 {
		s.answers[at] = list[1:]
	}
	list[0](w)
}

func (s *server) read(t *testing.T, o load.Options) (*load.Input, error) {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return Read(t.Context(), &rest.Config{Host: srv.URL}, o)
}

func says(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
}

// status is a refusal as an API server words it.
func status(code int, reason, message, next string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "metadata": {"continue": %q}, "status": "Failure", "message": %q, "reason": %q, "code": %d}`, next, message, reason, code)
	}
}

func nodes(next string, names ...string) func(http.ResponseWriter) {
	var items []string
	for _, n := range names {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": %q}}`, n))
	}
	return says(fmt.Sprintf(`{"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": %q}, "items": [%s]}`, next, strings.Join(items, ", ")))
}

const nodesPath = "/api/v1/nodes"

func names(in *load.Input) (out []string) {
	for _, n := range in.Nodes {
		out = append(out, n.Name)
	}
	return out
}

func TestPages(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]map[string][]func(http.ResponseWriter){
		"all at once":   {nodesPath: {nodes("", "a", "b", "c")}},
		"three pages":   {nodesPath: {nodes("1", "a")}, nodesPath + " 1": {nodes("2", "b")}, nodesPath + " 2": {nodes("", "c")}},
		"an empty page": {nodesPath: {nodes("1", "a", "b", "c")}, nodesPath + " 1": {nodes("")}},
		"the snapshot is forgotten": {nodesPath: {nodes("1", "a")}, nodesPath + " 1": {status(410, "Expired", "too old", "later")},
			nodesPath + " later": {nodes("", "b", "c")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := (&server{answers: answers}).read(t, load.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"a", "b", "c"}, names(in)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Each kind is asked for once; selectors of services and controllers only where they count.
func TestKinds(t *testing.T) {
	t.Parallel()
	s := &server{}
	if _, err := s.read(t, load.Options{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"/api/v1/pods", "/apis/apps/v1/daemonsets", "/apis/policy/v1/poddisruptionbudgets", "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes",
		"/apis/storage.k8s.io/v1/storageclasses", "/api/v1/namespaces", "/api/v1/limitranges", "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/node.k8s.io/v1/runtimeclasses",
		"/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "/apis/storage.k8s.io/v1/csinodes", "/api/v1/nodes", "/apis/karpenter.sh/v1/nodeclaims"}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	s.asked = nil
	if _, err := s.read(t, load.Options{SpreadDefaults: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "ScheduleAnyway"}}}); err != nil {
		t.Fatal(err)
	}
	want = append(want, "/api/v1/services", "/api/v1/replicationcontrollers", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets")
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("asked for with default spread constraints (-want +got):\n%s", diff)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	const pdbs, pools, claims = "/apis/policy/v1/poddisruptionbudgets", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
	no := func(resource string) []func(http.ResponseWriter) {
		return []func(http.ResponseWriter){status(403, "Forbidden", resource+` is forbidden: User "ann" cannot list it`, "")}
	}
	absent := []func(http.ResponseWriter){func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "404 page not found")
	}}
	for name, tt := range map[string]struct {
		answers map[string][]func(http.ResponseWriter)
		want    []string
		right   bool
	}{
		"a right": {map[string][]func(http.ResponseWriter){pdbs: no("poddisruptionbudgets.policy")},
			[]string{`the right is missing to list poddisruptionbudgets.policy in the whole cluster: poddisruptionbudgets.policy is forbidden: User "ann" cannot list it`}, true},
		"rights and kinds": {map[string][]func(http.ResponseWriter){pdbs: no("poddisruptionbudgets.policy"), nodesPath: no("nodes"), pools: absent, claims: absent},
			[]string{"to list poddisruptionbudgets.policy", "to list nodes in", "does not serve NodePool of karpenter.sh/v1: is CustomResourceDefinition nodepools.karpenter.sh installed?", "nodeclaims.karpenter.sh"}, true},
		"kinds": {map[string][]func(http.ResponseWriter){pools: absent}, []string{"does not serve NodePool"}, false},
		"credentials": {map[string][]func(http.ResponseWriter){"/api/v1/pods": {status(401, "Unauthorized", "Unauthorized", "")}},
			[]string{"does not know the user of the kubeconfig"}, false},
		"the server": {map[string][]func(http.ResponseWriter){nodesPath: {status(500, "InternalError", "etcd is away", "")}}, []string{"listing nodes: etcd is away"}, false},
		"a snapshot twice": {map[string][]func(http.ResponseWriter){nodesPath: {nodes("1", "a")}, nodesPath + " 1": {status(410, "Expired", "too old", "1")}},
			[]string{"listing nodes: too old"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := (&server{answers: tt.answers}).read(t, load.Options{})
			if err == nil || errors.Is(err, ErrRight) != tt.right {
				t.Fatalf("%v, want one of a right: %v", err, tt.right)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v, want %q", err, w)
				}
			}
		})
	}
}

func TestAnObjectThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := (&server{answers: map[string][]func(http.ResponseWriter){nodesPath: {nodes("1", "a"), nodes("")}, nodesPath + " 1": {nodes("", "a")}}}).read(t, load.Options{})
	var le *load.Error
	if !errors.As(err, &le) || le.File != "nodes of the cluster, page 2" {
		t.Errorf("%v", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	if _, err := Read(t.Context(), &rest.Config{Host: srv.URL}, load.Options{}); err == nil || !strings.Contains(err.Error(), "listing pods: ") {
		t.Errorf("%v", err)
	}
}
