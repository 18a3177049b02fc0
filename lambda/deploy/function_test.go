package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/integration/harness"
)

// packed is the folder of the function as it is deployed, made once for all tests.
var packed struct {
	once     sync.Once
	dir      string
	emulator string
	err      error
}

// pack builds the function, and puts the charts and a small image beside it.
func pack(t *testing.T) (dir, emulator string) {
	t.Helper()
	packed.once.Do(func() {
		if packed.emulator = os.Getenv("WEIR_RIE"); packed.emulator == "" {
			tool := exec.Command("go", "tool", "-n", "-modfile=tools.mod", "aws-lambda-rie") // builds it, and says where it is
			tool.Dir = filepath.Join("..", "..")
			out, err := tool.Output()
			if packed.emulator, packed.err = strings.TrimSpace(string(out)), err; err != nil {
				return
			}
		}
		if packed.dir, packed.err = os.MkdirTemp("", "weir-deploy-"); packed.err != nil {
			return
		}
		packed.err = packInto(packed.dir)
	})
	if packed.err != nil {
		t.Fatalf("pack the function: %v", packed.err)
	}
	return packed.dir, packed.emulator
}

func packInto(dir string) error {
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", filepath.Join(dir, "bootstrap"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return errors.New(string(out))
	}
	charts := filepath.Join(dir, "charts")
	if err := os.Mkdir(charts, 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{"chart": "weir", "chart-crds": "weir-crds"} {
		if out, err := exec.Command("cp", "-RL", filepath.Join("..", "..", "infra", from), filepath.Join(charts, to)).CombinedOutput(); err != nil {
			return errors.New(string(out))
		}
	}
	index, err := random.Index(1024, 2, 2)
	if err != nil {
		return err
	}
	l, err := layout.Write(filepath.Join(dir, "image"), empty.Index)
	if err != nil {
		return err
	}
	return l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v1.0.0+test"}))
}

// packLater is a function whose chart has that version.
func packLater(t *testing.T, version string) string {
	t.Helper()
	from, _ := pack(t)
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-RL", filepath.Join(from, "charts"), filepath.Join(from, "bootstrap"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path := filepath.Join(dir, "charts", "weir", "Chart.yaml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(b, []byte("version: "+version))
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stand is what the function meets: the API server through a front that takes only
// tokens of EKS, and CloudFormation's place for answers.
type stand struct {
	*harness.ControlPlane
	t     *testing.T
	ns    string
	front *httptest.Server
	eks   *httptest.Server
	// described is what EKS says of the cluster; nil = that it is there, behind front.
	described atomic.Pointer[http.HandlerFunc]
	sink      *httptest.Server
	answers   chan cfn.Response
	// meddle sees each request before it is passed on; false swallows it until the test ends.
	meddle atomic.Pointer[func(*http.Request) bool]
	ended  chan struct{}
}

const clusterName = "demo"

func newStand(t *testing.T, ns string) *stand {
	s := &stand{ControlPlane: harness.Cluster(t), t: t, ns: ns, answers: make(chan cfn.Response, 100), ended: make(chan struct{})}
	target, err := url.Parse(s.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization") // the transport has the administrator's certificate
	}}
	s.front = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ofEKS(r.Header.Get("Authorization")) {
			http.Error(w, "no token of EKS for "+clusterName, http.StatusUnauthorized)
			return
		}
		if f := s.meddle.Load(); f != nil && !(*f)(r) {
			select {
			case <-s.ended:
			case <-r.Context().Done():
			}
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	s.sink = httptest.NewServer(http.HandlerFunc(s.take))
	s.eks = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/clusters/"+clusterName {
			t.Errorf("EKS is asked for %s %s", r.Method, r.URL)
		}
		if f := s.described.Load(); f != nil {
			(*f)(w, r)
			return
		}
		fmt.Fprintf(w, `{"cluster": {"name": %q, "endpoint": %q}}`, clusterName, s.front.URL)
	}))
	t.Cleanup(func() {
		close(s.ended)
		s.front.Close()
		s.sink.Close()
		s.eks.Close()
	})
	return s
}

// ofEKS says whether the token is what EKS would take for our cluster, its signature apart.
func ofEKS(authorization string) bool {
	text, ok := strings.CutPrefix(authorization, "Bearer k8s-aws-v1.")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return false
	}
	u, err := url.Parse(string(b))
	return err == nil && u.Host == "sts.eu-west-1.amazonaws.com" && u.Query().Get("Action") == "GetCallerIdentity" &&
		strings.Contains(u.Query().Get("X-Amz-SignedHeaders"), "x-k8s-aws-id") && strings.HasPrefix(u.Query().Get("X-Amz-Credential"), "AKIDEXAMPLE/")
}

// take is CloudFormation's side of an answer.
func (s *stand) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
		return
	}
	var a cfn.Response
	if err := json.Unmarshal(body, &a); err != nil {
		s.t.Errorf("answer %s: %v", body, err)
	}
	if r.Method != http.MethodPut || r.Header.Get("Content-Type") != "" || len(body) > 4096 || r.URL.RawQuery != "signed=yes" {
		s.t.Errorf("answer by %s, type %q, %d bytes, to %s", r.Method, r.Header.Get("Content-Type"), len(body), r.URL)
	}
	s.answers <- a
}

// function is the function under the emulator of its runtime.
type function struct {
	s     *stand
	url   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts the function; seconds is its time limit.
func (s *stand) start(seconds string, env ...string) *function {
	s.t.Helper()
	dir, _ := pack(s.t)
	return s.startFrom(dir, seconds, env...)
}

// startFrom starts the function that is packed in dir.
func (s *stand) startFrom(dir, seconds string, env ...string) *function {
	s.t.Helper()
	_, emulator := pack(s.t)
	address := harness.FreeAddress(s.t)
	cmd := exec.Command(emulator, "--runtime-interface-emulator-address", address, "--runtime-api-address", harness.FreeAddress(s.t), filepath.Join(dir, "bootstrap"))
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.t.TempDir(), "AWS_REGION=eu-west-1", "AWS_LAMBDA_FUNCTION_TIMEOUT=" + seconds,
		"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=session", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL_EKS=" + s.eks.URL,
	}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	f := &function{s: s, url: "http://" + address + "/2015-03-31/functions/function/invocations", cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		_ = cmd.Wait() // by a signal, or its output says why
	}()
	s.t.Cleanup(func() {
		f.kill()
		<-f.ended
		if s.t.Failed() {
			s.t.Logf("emulator and function said:\n%s", out.String())
		}
	})
	harness.Eventually(s.t, "emulator", patience, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return f
}

// kill ends the function and its emulator at once. The emulator gives the function a
// process group of its own, so that each is ended by its id.
func (f *function) kill() {
	emulator := f.cmd.Process.Pid
	for _, pid := range append(childrenOf(f.s.t, emulator), emulator) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			f.s.t.Errorf("end process %d: %v", pid, err)
		}
	}
}

// childrenOf are the processes that a process has started.
func childrenOf(t *testing.T, pid int) (children []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Error(err)
	}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
		for field := range strings.FieldsSeq(string(b)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Error(err)
				continue
			}
			children = append(children, child)
		}
	}
	return children
}

// properties are those of a resource that a test deploys, with changes.
func (s *stand) properties(changes map[string]any) map[string]any {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.front.Certificate().Raw})
	p := map[string]any{
		"ServiceToken": "arn:aws:lambda:eu-west-1:111122223333:function:deploy",
		"clusterName":  clusterName, "endpoint": s.front.URL, "certificateAuthority": base64.StdEncoding.EncodeToString(ca),
		"namespace": s.ns, "image": "registry.example/weir:v1", "wait": "false", "values": s.values(nil),
	}
	maps.Copy(p, changes)
	return p
}

// values are those of the chart, as the text of a property, with changes. What they put
// outside of the namespace is kept inside, so that tests are out of each other's way.
func (s *stand) values(changes map[string]any) string {
	v := map[string]any{
		"cloud":          map[string]any{"kind": "sim", "address": "http://simcloud.example:8090"},
		"karpenterLease": map[string]any{"name": "karpenter-leader-election", "namespace": s.ns},
	}
	maps.Copy(v, changes)
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// event is a request of CloudFormation's.
func (s *stand) event(kind cfn.RequestType, id string, now, old map[string]any) cfn.Event {
	return cfn.Event{
		RequestType: kind, RequestID: "request-1", ResponseURL: s.sink.URL + "/answer?signed=yes", ResourceType: "Custom::WeirRelease",
		PhysicalResourceID: id, LogicalResourceID: "Release", StackID: "arn:aws:cloudformation:eu-west-1:111122223333:stack/Weir/1",
		ResourceProperties: now, OldResourceProperties: old,
	}
}

// send hands the event to the function and waits until that has ended, in whatever way.
func (f *function) send(event cfn.Event) {
	t := f.s.t
	t.Helper()
	body, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // killed
	}
	said, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return
	}
	if strings.Contains(string(said), "errorMessage") {
		t.Errorf("the function failed: %s", said)
	}
}

// ask sends the event and takes the one answer that it must get.
func (f *function) ask(event cfn.Event) cfn.Response {
	t := f.s.t
	t.Helper()
	f.send(event)
	select {
	case a := <-f.s.answers:
		if a.RequestID != event.RequestID || a.StackID != event.StackID || a.LogicalResourceID != event.LogicalResourceID || a.PhysicalResourceID == "" {
			t.Errorf("answer %+v to %s of %s", a, event.RequestID, event.LogicalResourceID)
		}
		return a
	default:
		t.Fatalf("no answer to %s", event.RequestType)
		return cfn.Response{}
	}
}

// must asks for what must succeed.
func (f *function) must(event cfn.Event) cfn.Response {
	f.s.t.Helper()
	a := f.ask(event)
	if a.Status != cfn.StatusSuccess {
		f.s.t.Fatalf("%s has failed: %s", event.RequestType, a.Reason)
	}
	return a
}

// mustFail asks for what must fail, for that reason, and keep its id.
func (f *function) mustFail(event cfn.Event, reason string) cfn.Response {
	f.s.t.Helper()
	a := f.ask(event)
	f.s.t.Logf("%s: %s", event.RequestType, a.Reason)
	if a.Status != cfn.StatusFailed || !strings.Contains(a.Reason, reason) {
		f.s.t.Fatalf("%s: %s, reason %q, expected it to fail and say %q", event.RequestType, a.Status, a.Reason, reason)
	}
	if event.PhysicalResourceID != "" && a.PhysicalResourceID != event.PhysicalResourceID {
		f.s.t.Errorf("id %q became %q: CloudFormation would delete the old one", event.PhysicalResourceID, a.PhysicalResourceID)
	}
	return a
}
