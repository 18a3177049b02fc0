package aws_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud"
	aws "github.com/weir-project/weir/core/cloud/aws"
	"github.com/weir-project/weir/core/cloud/aws/classes"
	"github.com/weir-project/weir/core/cloud/aws/userdata"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/execute"
	"github.com/weir-project/weir/core/execute/executetest"
	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/mem"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/require"
	"github.com/weir-project/weir/core/model/resource"
	"github.com/weir-project/weir/integration/aws/ec2front"
)

// loop is a whole scaler on our EC2 in virtual time: the controller and its executor, the keeper of classes, the provider and
// AWS's SDK, over the wire to the front. The API server, kubelets and the scheduler are those of executetest.
type loop struct {
	*executetest.Cluster
	*account
	t        testing.TB
	front    *ec2front.Server
	provider *aws.Provider
	keeper   *classes.Keeper
	objects  *classObjects
	pair     *pair

	clock     *clock    // shows the cluster's instant to whoever answers calls in goroutines of their own
	keepAt    time.Time // the class is looked at next
	collectAt time.Time // unused launch templates are
	instances map[string]map[string]bool
}

// sold is what the region sells: few types, so that planning takes no time.
var sold = sync.OnceValues(func() (*catalogue.Table, error) {
	var types []*catalogue.Type
	for _, name := range []string{"m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge"} {
		types = append(types, catalogue.Embedded().Get(name))
	}
	text, err := json.Marshal(types) // those of the embedded table are shared
	if err != nil {
		return nil, err
	}
	return catalogue.Load(bytes.NewReader(text), "test")
})

func newLoop(t testing.TB, store ledger.Store, capacity ...string) *loop {
	t.Helper()
	l := &loop{t: t, instances: map[string]map[string]bool{}, clock: &clock{at: executetest.Start}}
	table, err := sold()
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		store = mem.New()
	}
	l.pair = &pair{}
	l.Cluster = executetest.New(nil, store, control.Planners{}, func(epoch int64) executetest.Stepper {
		l.pair.all = []*leader{newLeader("a", epoch)}
		return l.pair
	})
	l.pair.api = l.API
	l.front = startFront(t, ec2front.Options{Now: l.clock.Now, Table: table, Delays: sim.Delays{Run: 20 * time.Second, Terminate: 30 * time.Second, Listed: 2 * time.Second, Keep: time.Hour}})
	l.account = newAccount(t, l.front, executetest.Name)
	l.provider = aws.New(aws.Config{
		Region: ec2front.Region, Now: l.clock.Now,
		Cluster: userdata.Cluster{Name: executetest.Name, Endpoint: "https://cluster.example.com", CA: "Y2E=", ServiceCIDR: "10.100.0.0/16"},
	}, l.ec2, nil)
	if err := l.provider.Refresh(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	l.objects = &classObjects{api: l.API}
	l.keeper = classes.New(classes.Config{Objects: l.objects, Resolver: l.resolver(), Provider: l.provider, CA: "Y2E=", Now: l.Now})
	l.keeper.Learn("default", l.class(t))
	l.EC2, l.Cloud, l.Boots, l.Begins, l.Saw = l.front.EC2(), l.provider, l.boots, l.beside, l.saw
	l.API.PutPool(&model.Pool{
		Name: "default", UID: "uid-default", Labels: map[string]string{"team": "a"},
		Requirements: require.NewSet(require.Must(model.LabelCapacityType, "In", capacity...), require.Must(model.LabelArch, "In", "amd64"),
			require.Must(model.LabelPool, "In", "default"), require.Must("team", "In", "a")),
		NodeClass:   model.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
		ExpireAfter: model.Never, Hash: "1", HashVersion: "v3", Policy: model.WhenEmpty, ConsolidateAfter: 30 * time.Second,
		Budgets: []model.Budget{{Nodes: "100%"}},
	})
	return l
}

// beside is what else the scaler does: it keeps the class, and collects templates.
func (l *loop) beside() {
	l.clock.set(l.Now())
	if !l.Now().Before(l.keepAt) {
		again, err := l.keeper.Keep(l.t.Context(), "default")
		if err != nil {
			l.t.Errorf("keeping the class: %v", err)
		}
		l.keepAt = l.Now().Add(again)
	}
	if l.Now().Before(l.collectAt) {
		return
	}
	l.collectAt = l.Now().Add(5 * time.Minute)
	if _, err := l.provider.CollectTemplates(l.t.Context()); err != nil && cloud.KindOf(err) == cloud.Internal {
		l.t.Errorf("collecting templates: %v", err)
	}
}

// change has a person change the specification of the class.
func (l *loop) change(f func(*awsv1.EC2NodeClassSpec)) {
	c := l.objects.class
	if c == nil {
		c = l.class(l.t)
	}
	c = c.DeepCopy()
	c.Generation++
	f(&c.Spec)
	l.keeper.Learn(c.Name, c)
	l.keepAt = l.Now()
}

// saw holds what must never be: a claim with two instances.
func (l *loop) saw(time.Time, execute.Result) {
	for _, c := range l.API.Claims {
		if c.ProviderID == "" {
			continue
		}
		if l.instances[c.UID] == nil {
			l.instances[c.UID] = map[string]bool{}
		}
		if l.instances[c.UID][c.ProviderID] = true; len(l.instances[c.UID]) > 1 {
			l.t.Errorf("claim %s has had the instances %v", c.Name, slices.Sorted(maps.Keys(l.instances[c.UID])))
		}
	}
}

// run wants so many pods running within the time.
func (l *loop) run(pods int, within time.Duration) {
	l.t.Helper()
	if !l.Until(within, func() bool { return l.Running("web") == pods }) {
		l.t.Fatalf("%d of %d pods run after %s; %s", l.Running("web"), pods, within, l.story())
	}
}

// web is pods of which one fits on a machine of the smallest size.
func (l *loop) web(replicas int) *executetest.Workload {
	w := &executetest.Workload{Name: "web", Replicas: replicas, Requests: resource.New(1500, 2<<30, 0, 0)}
	l.Workloads = append(l.Workloads, w)
	return w
}

// story is what objects and events say, for failures.
func (l *loop) story() string {
	var b strings.Builder
	for _, c := range l.API.Claims {
		fmt.Fprintf(&b, "\nclaim %s: %s %+v", c.Name, c.ProviderID, c.Conditions)
	}
	for _, m := range l.EC2.Machines() {
		fmt.Fprintf(&b, "\ninstance %s: %s %s %s %s", m.ID, m.Type, m.Zone, m.CapacityType, m.State)
	}
	for _, e := range l.API.Events {
		fmt.Fprintf(&b, "\nevent %s %s: %s: %s", e.Object.Kind, e.Object.Name, e.Reason, e.Message)
	}
	return b.String()
}

// tells wants an event of that reason with the text in it.
func (l *loop) tells(reason, text string) {
	l.t.Helper()
	if !slices.ContainsFunc(l.API.Events, func(e execute.Event) bool { return e.Reason == reason && strings.Contains(e.Message, text) }) {
		l.t.Errorf("no event %s tells of %q: %s", reason, text, l.story())
	}
}

// waits runs until a claim says, by a reason and a message with the text in it, why it has no instance.
func (l *loop) waits(reason, text string) {
	l.t.Helper()
	if !l.Until(2*time.Minute, func() bool {
		for _, c := range l.API.Claims {
			if is := c.Condition(model.CondLaunched); is.Reason == reason && is.Status == "Unknown" && strings.Contains(is.Message, text) {
				return true
			}
		}
		return false
	}) {
		l.t.Errorf("no claim says %s, %s: %s", reason, text, l.story())
	}
}

// living are the instances that have not begun to end.
func (l *loop) living() (out []sim.Machine) {
	for _, m := range l.EC2.Machines() {
		if !m.Gone() {
			out = append(out, m)
		}
	}
	return out
}

// ends lets what is under way come to its end, and compares: so many instances live and were ever bought, each with a claim and
// a ready node, no claim without an instance, nothing open in the ledger, and no step that spins.
func (l *loop) ends(living, bought int) {
	l.t.Helper()
	l.Run(3 * time.Minute)
	claims := map[string]string{}
	for _, c := range l.API.Claims {
		if c.ProviderID == "" || c.Deleting != nil || !c.Is(model.CondInitialized) || claims[c.ProviderID] != "" {
			l.t.Errorf("claim %s: %+v", c.Name, c)
		}
		claims[c.ProviderID] = c.Name
	}
	machines := l.living()
	for _, m := range machines {
		n := l.API.Nodes[m.NodeName]
		if claims[m.ProviderID()] == "" || n == nil || !n.Ready {
			l.t.Errorf("instance %s: claim %q, node %+v", m.ID, claims[m.ProviderID()], n)
		}
		if m.Tags[execute.TagCluster] != executetest.Name || m.Tags[execute.TagPool] != "default" {
			l.t.Errorf("instance %s has the tags %v", m.ID, m.Tags)
		}
	}
	if all := l.EC2.Machines(); len(machines) != living || len(claims) != living || len(all) != bought {
		l.t.Errorf("%d instances live with %d claims, %d were bought; want %d and %d: %s", len(machines), len(claims), len(all), living, bought, l.story())
	}
	open, err := ledger.List[ledger.Launch](l.t.Context(), l.Ledger, ledger.LaunchKey(executetest.Name, "").Partition, "", l.Now())
	if err != nil {
		l.t.Error(err)
	}
	for _, r := range open {
		if r.State == ledger.LaunchOpen {
			l.t.Errorf("launch %s is still open: %+v", r.ID, r)
		}
	}
	for _, x := range l.pair.all {
		if len(x.spins) > 0 {
			l.t.Errorf("%d steps of %s had nothing to do and wanted to be called again at once", len(x.spins), x.name)
		}
	}
}

// leader drives a Controller as a loop does.
type leader struct {
	name  string
	c     *control.Controller
	epoch int64
	led   bool
	held  []execute.Effect          // until they are let go
	hold  func(execute.Effect) bool // which are to be held back; nil = none
	asked int                       // effects that went out with the step before
	spins []time.Time
}

func newLeader(name string, epoch int64) *leader {
	return &leader{name: name, epoch: epoch, c: control.New(control.Config{
		Cluster: executetest.Name, Account: ec2front.Account, Region: ec2front.Region, Holder: name, Version: "test"})}
}

func (x *leader) step(now time.Time, changes []cluster.Change, results []execute.Result) []execute.Effect {
	var in []control.Input
	for _, c := range changes {
		in = append(in, c)
	}
	for _, r := range results {
		in = append(in, r)
	}
	if !x.led {
		in, x.led = append(in, control.Leading{Epoch: x.epoch}), true
	}
	out := x.c.Step(now, in...)
	if at := x.c.NextWake(); len(out) == 0 && len(in) == 0 && !at.IsZero() && !at.After(now) {
		x.spins = append(x.spins, now)
	}
	if x.hold == nil {
		out, x.held = append(x.held, out...), nil
	} else {
		for _, e := range out {
			if x.hold(e) {
				x.held = append(x.held, e)
			}
		}
		out = slices.DeleteFunc(out, x.hold)
	}
	x.asked = len(out)
	return out
}

// pair is one scaler, or two that know nothing of each other.
type pair struct {
	api   *executetest.API
	all   []*leader
	fresh []*leader // begin with the next step
}

// Step implements executetest.Stepper. Results come in the order of the effects.
func (p *pair) Step(now time.Time, changes []cluster.Change, results []execute.Result) []execute.Effect {
	var out []execute.Effect
	for _, x := range p.all {
		n := min(x.asked, len(results))
		out = append(out, x.step(now, changes, results[:n])...)
		results = results[n:]
	}
	for _, x := range p.fresh {
		out = append(out, x.step(now, p.api.Everything(), nil)...)
	}
	p.all, p.fresh = append(p.all, p.fresh...), nil
	return out
}

// NextWake implements executetest.Stepper.
func (p *pair) NextWake() time.Time {
	var at time.Time
	for _, x := range p.all {
		if n := x.c.NextWake(); at.IsZero() || !n.IsZero() && n.Before(at) {
			at = n
		}
	}
	return at
}

// classObjects is the API server's part of the keeper.
type classObjects struct {
	api   *executetest.API
	class *awsv1.EC2NodeClass // as it was written last
}

// Follow implements classes.Objects; the loop tells the keeper itself.
func (o *classObjects) Follow(context.Context, func(string, *awsv1.EC2NodeClass)) {}

func (o *classObjects) put(c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	c = c.DeepCopy()
	o.class = c
	o.api.PutClass(convert.NodeClass(c))
	return c, nil
}

// SetStatus implements classes.Objects.
func (o *classObjects) SetStatus(_ context.Context, c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return o.put(c)
}

// SetMetadata implements classes.Objects.
func (o *classObjects) SetMetadata(_ context.Context, c *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return o.put(c)
}

// Claims implements classes.Objects.
func (o *classObjects) Claims(context.Context, string) (int, []string, error) {
	return len(o.api.Claims), nil, nil
}

// boots is a machine as the user data that was really sent starts it.
func (l *loop) boots(m sim.Machine) sim.Machine {
	l.t.Helper()
	out, err := l.ec2.DescribeInstanceAttribute(l.t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: &m.ID, Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		l.t.Fatalf("user data of %s: %v", m.ID, err)
	}
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(out.UserData.Value))
	if err != nil {
		l.t.Fatal(err)
	}
	config, err := nodeConfigOf(string(text))
	if err != nil || config.Spec.Cluster.Name != executetest.Name {
		l.t.Fatalf("user data of %s: %+v, %v\n%s", m.ID, config, err, text)
	}
	for _, flag := range config.Spec.Kubelet.Flags {
		if list, ok := strings.CutPrefix(flag, "--node-labels="); ok {
			if list, err = strconv.Unquote(list); err != nil {
				l.t.Fatal(err)
			}
			for _, pair := range strings.Split(list, ",") {
				k, v, _ := strings.Cut(pair, "=")
				m.Labels[k] = v
			}
		}
	}
	m.Taints = config.Spec.Kubelet.Config.RegisterWithTaints
	return m
}

// nodeConfig is what nodeadm takes from user data.
type nodeConfig struct {
	Spec struct {
		Cluster struct{ Name string } `json:"cluster"`
		Kubelet struct {
			Config struct {
				RegisterWithTaints []model.Taint `json:"registerWithTaints"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// nodeConfigOf reads the last NodeConfig of a multipart document.
func nodeConfigOf(text string) (out nodeConfig, err error) {
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return out, err
	}
	_, boundary, _ := strings.Cut(msg.Header.Get("Content-Type"), `boundary="`)
	for r, found := multipart.NewReader(msg.Body, strings.TrimSuffix(boundary, `"`)), false; ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) && found {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return out, err
		}
		if p.Header.Get("Content-Type") == "application/node.eks.aws" {
			out, found = nodeConfig{}, true
			if err := yaml.Unmarshal(body, &out); err != nil {
				return out, err
			}
		}
	}
}
