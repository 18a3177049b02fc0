package test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// patience bounds every wait; a wait ends as soon as its condition holds.
const patience = 5 * time.Minute

var (
	nodePools   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodeClasses = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	budgets     = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	rolesOfAll  = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

// installed is a release on a real API server, and what is needed to use it.
type installed struct {
	t      *testing.T
	plane  *controlPlane
	cfg    *rest.Config
	objs   dynamic.Interface
	core   kubernetes.Interface
	helm   *action.Configuration
	bin    string
	values map[string]any
}

// TestReleaseLifeAndRights installs both charts with Helm on a real control plane, runs the
// scaler as a process with nothing but the token of the chart's service account through
// buying, a drain, a drain by force and giving back, and reads in the API server's audit
// log that no call was forbidden and that no right is there for nothing. Then it upgrades
// the release, rolls it back, and uninstalls it.
func TestReleaseLifeAndRights(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	p := shared(t)
	if p.audit == "" {
		t.Skip("KUBECONFIG is set: the audit log of that cluster cannot be read")
	}
	r := newRelease(t, p)
	r.install(crdsDir, release+"-crds", nil)
	r.install(chartDir, release, r.values)

	log := r.scaler()
	r.apply(nodeClasses, "", class)
	r.apply(nodePools, "", pool)
	r.apply(budgets, "default", budget)
	r.apply(deployments, "default", workload)
	r.waits("3 pods run on machines that were bought", func(ctx context.Context) error { return r.running(ctx, 3) })
	first := r.claims()
	if len(first) == 0 {
		t.Fatal("pods run, and there are no NodeClaims")
	}
	r.drains(first[0])
	r.forces()
	r.givesBack()
	r.operates(log)
	log.stop()
	r.rightsWereEnough()

	r.upgradeAndRollback()
	r.uninstall()
}

const class = `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {
  amiSelectorTerms: [{alias: al2023@latest}], role: node, subnetSelectorTerms: [{tags: {d: x}}], securityGroupSelectorTerms: [{tags: {d: x}}]}}`

const pool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {
  template: {spec: {terminationGracePeriod: 5s, expireAfter: Never, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [
    {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]},
    {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i]}, {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4"]}]}},
  disruption: {consolidateAfter: 0s, budgets: [{nodes: "100%"}]}}}`

const budget = `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}}`

const workload = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {
  metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [
    {name: c, image: "pause:3", resources: {requests: {cpu: "1500m", memory: 1Gi}}}]}}}}`

func newRelease(t *testing.T, p *controlPlane) *installed {
	t.Helper()
	r := &installed{t: t, plane: p, cfg: connect(t), bin: programs(t)}
	var err error
	if r.objs, err = dynamic.NewForConfig(r.cfg); err != nil {
		t.Fatal(err)
	}
	if r.core, err = kubernetes.NewForConfig(r.cfg); err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = p.kubeconfig
	settings.SetNamespace(namespace)
	r.helm = &action.Configuration{}
	if err := r.helm.Init(settings.RESTClientGetter(), namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	r.values = with(map[string]any{
		"cloud":  map[string]any{"kind": "sim", "address": r.ec2()},
		"config": map[string]any{"schedulerConfig": spreadDefaults, "region": "us-east-1", "account": "111122223333", "zones": []any{"us-east-1a"}},
	})
	return r
}

// programs is a folder with weir-scaler, weir-strategy and simcloud: that of WEIR_BIN, else they are built.
func programs(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("WEIR_BIN"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./cmd/weir-scaler", "./cmd/weir-strategy", "./integration/simcloud")
	build.Dir = filepath.Join("..", "..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	return dir
}

// process is a program that the test has started.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  string // file of what it said
	done chan error
}

func (r *installed) start(name string, args ...string) *process {
	r.t.Helper()
	p := &process{t: r.t, out: filepath.Join(r.t.TempDir(), name+".log"), done: make(chan error, 1)}
	out, err := os.Create(p.out)
	if err != nil {
		r.t.Fatal(err)
	}
	p.cmd = exec.Command(filepath.Join(r.bin, name), args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") })
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		p.done <- errors.Join(p.cmd.Wait(), out.Close())
		close(p.done)
	}()
	r.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed half-way
		<-p.done
		if text, err := os.ReadFile(p.out); err == nil && r.t.Failed() {
			r.t.Logf("%s said:\n%s", name, text)
		}
	})
	return p
}

// stop asks it to end, which it must do cleanly.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(patience):
		p.t.Fatalf("still running %v after SIGTERM", patience)
	}
}

// ec2 starts the simulated EC2, whose machines join the cluster, and answers its URL.
func (r *installed) ec2() string {
	r.t.Helper()
	p := r.start("simcloud", "--kubeconfig", r.plane.kubeconfig, "--listen", "127.0.0.1:0", "--cluster", "demo", "--zones", "us-east-1a",
		"--run-delay", "1s", "--terminate-delay", "1s", "--listed-delay", "100ms", "--join-delay", "100ms", "--ready-delay", "100ms", "--latency", "10ms")
	var url string
	r.waits("the simulated EC2 serves", func(context.Context) error {
		text, err := os.ReadFile(p.out)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if u, ok := strings.CutPrefix(line, "READY url="); ok {
				url = strings.TrimSpace(u)
				return nil
			}
		}
		return fmt.Errorf("it said %q", text)
	})
	return url
}

func (r *installed) waits(what string, f func(context.Context) error) {
	r.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(r.t.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		return last == nil, nil
	})
	if err != nil {
		r.t.Fatalf("%s: %v; last: %v", what, err, last)
	}
}

func (r *installed) install(dir, name string, values map[string]any) {
	r.t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	i := action.NewInstall(r.helm)
	i.ReleaseName, i.Namespace, i.CreateNamespace = name, namespace, true
	if _, err := i.RunWithContext(r.t.Context(), c, values); err != nil {
		r.t.Fatalf("helm install %s: %v", name, err)
	}
}

func (r *installed) apply(kind schema.GroupVersionResource, ns, text string) {
	r.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.objs.Resource(kind).Namespace(ns).Apply(r.t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "chart-test", Force: true}); err != nil {
		r.t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

func (r *installed) list(ctx context.Context, kind schema.GroupVersionResource, selector string) ([]unstructured.Unstructured, error) {
	l, err := r.objs.Resource(kind).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

func (r *installed) claims() []string {
	r.t.Helper()
	all, err := r.list(r.t.Context(), nodeClaims, "")
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range all {
		out = append(out, c.GetName())
	}
	return out
}

// running says whether exactly so many pods of the workload are there and ready.
func (r *installed) running(ctx context.Context, want int) error {
	all, err := r.list(ctx, pods, "app=web")
	if err != nil {
		return err
	}
	ready := 0
	for _, p := range all {
		conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == "True" && p.GetDeletionTimestamp() == nil {
				ready++
			}
		}
	}
	if ready != want || len(all) != want {
		return fmt.Errorf("%d pods, %d of them ready", len(all), ready)
	}
	return nil
}

func (r *installed) gone(kind schema.GroupVersionResource, name string) {
	r.t.Helper()
	r.waits(kind.Resource+" "+name+" is gone", func(ctx context.Context) error {
		_, err := r.objs.Resource(kind).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// scaler starts it as the chart would: with the chart's configuration file and the service
// account's token. Only what is of this machine (files, ports) is set by flags.
func (r *installed) scaler() *process {
	r.t.Helper()
	ctx := r.t.Context()
	cm, err := r.core.CoreV1().ConfigMaps(namespace).Get(ctx, release, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(cm.Data["config.yaml"]), 0o600); err != nil {
		r.t.Fatal(err)
	}
	seconds := int64(3600)
	token, err := r.core.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, release, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: r.cfg.Host, CertificateAuthority: r.cfg.CAFile, CertificateAuthorityData: r.cfg.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, kubeconfig); err != nil {
		r.t.Fatal(err)
	}
	return r.start("weir-scaler", "--config", config, "--kubeconfig", kubeconfig, "--ledger-path", filepath.Join(dir, "ledger.db"),
		"--strategy-binary", filepath.Join(r.bin, "weir-strategy"), "--metrics-port", "0", "--health-probe-port", "0", "--admin-port", "0")
}

// drains deletes a claim: its pods are evicted under their budget and replaced elsewhere.
func (r *installed) drains(claim string) {
	r.t.Helper()
	if err := r.objs.Resource(nodeClaims).Delete(r.t.Context(), claim, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.gone(nodeClaims, claim)
	r.waits("3 pods run again", func(ctx context.Context) error { return r.running(ctx, 3) })
}

// forces has a drain come up against a budget that never allows anything, so that the
// deadline of the node, terminationGracePeriod, wins.
func (r *installed) forces() {
	r.t.Helper()
	r.apply(budgets, "default", strings.Replace(budget, "maxUnavailable: 1", "maxUnavailable: 0", 1))
	r.waits("the budget allows nothing", func(ctx context.Context) error {
		b, err := r.objs.Resource(budgets).Namespace("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		allowed, _, _ := unstructured.NestedInt64(b.Object, "status", "disruptionsAllowed")
		seen, _, _ := unstructured.NestedInt64(b.Object, "status", "observedGeneration")
		if allowed != 0 || seen != b.GetGeneration() {
			return fmt.Errorf("status is %v", b.Object["status"])
		}
		return nil
	})
	all := r.claims()
	if err := r.objs.Resource(nodeClaims).Delete(r.t.Context(), all[0], metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.gone(nodeClaims, all[0])
	r.waits("3 pods run again", func(ctx context.Context) error { return r.running(ctx, 3) })
}

// givesBack has nothing to run any more: all machines go.
func (r *installed) givesBack() {
	r.t.Helper()
	r.apply(deployments, "default", strings.Replace(workload, "replicas: 3", "replicas: 0", 1))
	r.waits("all machines are given back", func(ctx context.Context) error {
		claims, err := r.list(ctx, nodeClaims, "")
		if err != nil {
			return err
		}
		left, err := r.list(ctx, nodes, "")
		if err != nil {
			return err
		}
		if len(claims)+len(left) > 0 {
			return fmt.Errorf("%d NodeClaims and %d nodes are left", len(claims), len(left))
		}
		return nil
	})
}

// rightsWereEnough reads what the scaler called: nothing was forbidden, and every right was used.
func (r *installed) rightsWereEnough() {
	r.t.Helper()
	used := map[string]bool{}
	for _, e := range r.calls() {
		id := e.id()
		if e.Response.Code == 403 {
			r.t.Errorf("forbidden: %s: %s", id, e.Response.Message)
			continue
		}
		used[id] = true
		// A watch that begins with the list needs no list; older API servers have no such.
		if what, ok := strings.CutSuffix(id, " watch"); ok {
			used[what+" list"] = true
		}
	}
	// OwnerReferencesPermissionEnforcement asks the authorizer itself, which is no call of
	// its own: without these rights no claim would have been made and no node owned.
	used["karpenter.sh/nodepools/finalizers update"] = true
	used["karpenter.sh/nodeclaims/finalizers update"] = true
	var granted []string
	for _, u := range must(r.t, chartDir, r.values) {
		if u.GetKind() != "ClusterRole" && u.GetKind() != "Role" {
			continue
		}
		for _, rule := range rules(r.t, u) {
			what, rest, _ := strings.Cut(rule, "[")
			if _, verb, ok := strings.Cut(rest, "] "); ok {
				what += " " + verb
			}
			granted = append(granted, what)
		}
	}
	slices.Sort(granted)
	var idle []string
	for _, g := range slices.Compact(granted) {
		if !used[g] {
			idle = append(idle, g)
		}
	}
	if diff := cmp.Diff([]string(nil), idle); diff != "" {
		r.t.Errorf("rights that were not used in a whole round (-none +is):\n%s", diff)
	}
	if len(used) < 40 {
		r.t.Errorf("only %d kinds of calls are in the audit log, so that this proves little", len(used))
	}
}

// call is a line of the audit log.
type call struct {
	Verb   string `json:"verb"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	URI string `json:"requestURI"`
}

func (c call) id() string {
	if c.Object.Resource == "" {
		return c.Verb + " " + c.URI
	}
	id := strings.TrimPrefix(c.Object.Group+"/"+c.Object.Resource, "/")
	if c.Object.Subresource != "" {
		id += "/" + c.Object.Subresource
	}
	return id + " " + c.Verb
}

func (r *installed) calls() []call {
	r.t.Helper()
	f, err := os.Open(r.plane.audit)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	var out []call
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			r.t.Fatal(err)
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			r.t.Fatalf("audit log: %v: %s", err, line)
		}
		out = append(out, c)
	}
}

// upgradeAndRollback: other values, then back; nothing of the users' is touched.
func (r *installed) upgradeAndRollback() {
	r.t.Helper()
	ctx := r.t.Context()
	before := r.users()
	c, err := loader.Load(chartDir)
	if err != nil {
		r.t.Fatal(err)
	}
	more := copied(r.values)
	more["interruption"], more["networkPolicy"] = map[string]any{"enabled": true}, map[string]any{"enabled": true}
	up := action.NewUpgrade(r.helm)
	up.Namespace = namespace
	if _, err := up.RunWithContext(ctx, release, c, more); err != nil {
		r.t.Fatalf("helm upgrade: %v", err)
	}
	if _, err := r.objs.Resource(rolesOfAll).Get(ctx, namespace+":"+release+":interruption", metav1.GetOptions{}); err != nil {
		r.t.Errorf("after the upgrade: %v", err)
	}
	defs, err := loader.Load(crdsDir)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := up.RunWithContext(ctx, release+"-crds", defs, nil); err != nil {
		r.t.Fatalf("helm upgrade of the definitions: %v", err)
	}
	r.editedDefinitionsStay(up, defs)
	back := action.NewRollback(r.helm)
	back.Version = 1
	for _, name := range []string{release, release + "-crds"} {
		if err := back.Run(name); err != nil {
			r.t.Fatalf("helm rollback %s: %v", name, err)
		}
	}
	if _, err := r.objs.Resource(rolesOfAll).Get(ctx, namespace+":"+release+":interruption", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		r.t.Errorf("after the rollback the functions' role is there (error %v)", err)
	}
	if diff := cmp.Diff(before, r.users()); diff != "" {
		r.t.Errorf("upgrade and rollback have touched (-before +after):\n%s", diff)
	}
}

// editedDefinitionsStay changes a definition in a way that no list of fields shows, and
// looks whether an upgrade leaves that alone, and takes it up again once it is undone.
func (r *installed) editedDefinitionsStay(up *action.Upgrade, chart *chart.Chart) {
	r.t.Helper()
	const name = "nodepools.karpenter.sh"
	ctx := r.t.Context()
	shortNames := func(names any) {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": names}}})
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.objs.Resource(definitions).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	upgrade := func() (manifest, notes string, have []string) {
		rel, err := up.RunWithContext(ctx, release+"-crds", chart, nil)
		if err != nil {
			r.t.Fatalf("helm upgrade of the definitions: %v", err)
		}
		u, err := r.objs.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		have, _, err = unstructured.NestedStringSlice(u.Object, "spec", "names", "shortNames")
		if err != nil {
			r.t.Fatal(err)
		}
		return rel.Manifest, rel.Info.Notes, have
	}
	const line = "  name: " + name + "\n"
	if manifest, notes, _ := upgrade(); !strings.Contains(manifest, line) || strings.Contains(notes, name) {
		r.t.Fatalf("a definition that nobody has edited is not in the release; notes %q", notes)
	}
	shortNames([]string{"pools"})
	manifest, notes, have := upgrade()
	if diff := cmp.Diff([]string{"pools"}, have); diff != "" || strings.Contains(manifest, line) {
		r.t.Errorf("the upgrade has taken an edit back (-edited +now):\n%s", diff)
	}
	if !strings.Contains(notes, name+" was left alone: edited since") {
		r.t.Errorf("notes %q do not say that %s was left alone", notes, name)
	}
	shortNames(nil)
	if manifest, notes, _ := upgrade(); !strings.Contains(manifest, line) || strings.Contains(notes, name) {
		r.t.Errorf("a definition whose edit was undone is not taken up again; notes %q", notes)
	}
}

// users are the uids of what belongs to users: definitions, classes, pools and claims.
func (r *installed) users() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, kind := range []schema.GroupVersionResource{definitions, nodeClasses, nodePools, nodeClaims} {
		all, err := r.list(r.t.Context(), kind, "")
		if err != nil {
			r.t.Fatal(err)
		}
		for _, u := range all {
			out[kind.Resource+" "+u.GetName()] = string(u.GetUID())
		}
	}
	return out
}

// uninstall takes both releases away, with a claim that nobody looks after: what is the users' stays.
func (r *installed) uninstall() {
	r.t.Helper()
	r.apply(nodeClaims, "", `{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: kept, finalizers: [karpenter.sh/termination]}, spec: {
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}}`)
	before := r.users()
	for _, want := range []string{"nodeclaims kept", "nodepools default", "ec2nodeclasses default", "customresourcedefinitions nodeclaims.karpenter.sh"} {
		if before[want] == "" {
			r.t.Fatalf("%s is not there, so that this would prove nothing: %v", want, before)
		}
	}
	for _, name := range []string{release, release + "-crds"} {
		if _, err := action.NewUninstall(r.helm).Run(name); err != nil {
			r.t.Fatalf("helm uninstall %s: %v", name, err)
		}
	}
	if _, err := r.core.CoreV1().ServiceAccounts(namespace).Get(r.t.Context(), release, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		r.t.Errorf("after the uninstall the service account is there (error %v)", err)
	}
	after := r.users()
	if diff := cmp.Diff(before, after); diff != "" {
		r.t.Errorf("the uninstall has touched (-before +after):\n%s", diff)
	}
	claims, err := r.list(r.t.Context(), nodeClaims, "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range claims {
		if c.GetDeletionTimestamp() != nil {
			r.t.Errorf("claim %s is being deleted", c.GetName())
		}
	}
}
