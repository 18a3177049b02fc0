package sim

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/model"
)

// Operations whose calls can be made to fail, to lose their answer or to be throttled.
const (
	OpRender    = "Render"
	OpLaunch    = "CreateFleet"
	OpTerminate = "TerminateInstances"
	OpTag       = "CreateTags"
	OpDescribe  = "DescribeInstances"
	OpList      = "ListInstances"
	OpOfferings = "DescribeOfferings"
)

// States of an instance.
const (
	Pending      = "pending"
	Running      = "running"
	ShuttingDown = "shutting-down"
	Terminated   = "terminated"
)

// Delays say how long things take. A zero field takes its default, a negative one is no delay at all.
type Delays struct {
	Run       time.Duration // pending to running, default 20 s
	Terminate time.Duration // shutting-down to terminated, default 30 s
	Listed    time.Duration // until a new instance shows up in Describe and List, default 3 s
	Keep      time.Duration // how long Describe still knows a terminated instance, default 1 h
	Notice    time.Duration // spot warning to the end, default 2 min
}

func (d Delays) withDefaults() Delays {
	def := func(x *time.Duration, v time.Duration) {
		if *x == 0 {
			*x = v
		}
		*x = max(*x, 0)
	}
	def(&d.Run, 20*time.Second)
	def(&d.Terminate, 30*time.Second)
	def(&d.Listed, 3*time.Second)
	def(&d.Keep, time.Hour)
	def(&d.Notice, 2*time.Minute)
	return d
}

// Config of an EC2.
type Config struct {
	Seed            uint64
	Now             func() time.Time // UTC; must not go backwards
	Account, Region string           // default 111122223333, us-east-1
	Cluster         string           // whose tags List asks for and Render sets
	// Catalogue answers what is sold to nodes of a class; the price is the one that is billed.
	Catalogue func(class *model.NodeClass) []*model.Offering
	Delays    Delays
}

// Machine is an instance with what a kubelet on it would know.
type Machine struct {
	cloud.Instance
	Claim       string // that it was handed out to; empty: not one of ours
	NodeName    string
	LaunchID    string
	USDPerHour  float64
	Labels      map[string]string // for the kubelet: of the request and of the type, zone, capacity type and id
	Taints      []model.Taint
	Capacity    map[string]string // quantities
	Allocatable map[string]string
	RunningAt   time.Time // zero = not yet
	EndingAt    time.Time // shutting-down began; zero = not yet
	GoneAt      time.Time // terminated; zero = not yet
	Reason      string    // of the end: user, spot-reclaim, failure
}

// Event is an event as EventBridge delivers it.
type Event struct {
	Seq  int64           `json:"seq"` // 1, 2, 3, ...
	At   time.Time       `json:"at"`
	JSON json.RawMessage `json:"event"`
}

type machine struct {
	Machine
	key      string
	reserved bool // it came out of a capacity reservation, not out of what is left of the offering
	offset   int  // order of launch
}

type fleet struct {
	hash   [32]byte
	ids    []string
	errors []cloud.OfferError
}

type timer struct {
	at  time.Time
	seq int64
	do  func(at time.Time)
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push and Pop are for container/heap.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop is for container/heap.
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

// EC2 is a simulated region of one account. It is safe for concurrent use.
type EC2 struct {
	cfg Config

	mu       sync.Mutex
	machines map[string]*machine
	order    []*machine // by launch
	fleets   map[string]*fleet
	shops    map[string]*shop // by node class, as last seen by Offerings
	capacity map[string]int   // left, by offering key; absent = endless
	events   []Event
	timers   timers
	timerSeq int64
	serial   uint64
	faults   map[string][]fault
	buckets  map[string]*rate.Limiter
	calls    map[string]int
	more     chan struct{} // closed and replaced with each event
}

var _ cloud.Provider = (*EC2)(nil)

// New starts an empty EC2.
func New(cfg Config) *EC2 {
	if cfg.Account == "" {
		cfg.Account = "111122223333"
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	cfg.Delays = cfg.Delays.withDefaults()
	return &EC2{cfg: cfg, machines: map[string]*machine{}, fleets: map[string]*fleet{}, shops: map[string]*shop{},
		capacity: map[string]int{}, faults: map[string][]fault{}, buckets: map[string]*rate.Limiter{}, calls: map[string]int{},
		more: make(chan struct{})}
}

// Account is the account id that events carry.
func (e *EC2) Account() string { return e.cfg.Account }

// Region is the region that events carry.
func (e *EC2) Region() string { return e.cfg.Region }

// hash is a number that depends on the seed and the words only.
func (e *EC2) hash(words ...string) uint64 {
	h := sha256.New()
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], e.cfg.Seed)
	h.Write(seed[:])
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func (e *EC2) after(at time.Time, do func(time.Time)) {
	e.timerSeq++
	heap.Push(&e.timers, timer{at, e.timerSeq, do})
}

// advance lets everything happen that is due.
func (e *EC2) advance() time.Time {
	now := e.cfg.Now()
	for len(e.timers) > 0 && !e.timers[0].at.After(now) {
		t := heap.Pop(&e.timers).(timer)
		t.do(t.at)
	}
	return now
}

// Advance lets everything happen that is due by the clock.
func (e *EC2) Advance() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
}

// NextAt is when something is due next; ok is false where nothing is.
func (e *EC2) NextAt() (at time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.timers) == 0 {
		return time.Time{}, false
	}
	return e.timers[0].at, true
}

// Render writes the complete request: the launch with every tag that the instances will carry.
func (e *EC2) Render(ctx context.Context, l cloud.Launch) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	if err := e.begin(ctx, OpRender); err != nil {
		return nil, err
	}
	tags := maps.Clone(l.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[model.LabelPool] = l.Pool
	tags[model.LabelNodeClass] = l.NodeClass
	tags["kubernetes.io/cluster/"+e.cfg.Cluster] = "owned"
	tags[TagCluster] = e.cfg.Cluster
	tags[cloud.TagLaunch] = l.ID
	l.Tags = tags
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, &cloud.Error{Op: OpRender, Kind: cloud.Template, Code: "InvalidParameter", Message: err.Error()}
	}
	return raw, e.lost(OpRender)
}

// TagCluster is the tag with the name of the cluster; List asks for it.
const TagCluster = "eks:eks-cluster-name"

// Launch buys the instances of a rendered request, as many of them as there is capacity for.
func (e *EC2) Launch(ctx context.Context, token string, request []byte) (cloud.Answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	if err := e.begin(ctx, OpLaunch); err != nil {
		return cloud.Answer{}, err
	}
	bad := func(kind cloud.ErrorKind, code, format string, a ...any) (cloud.Answer, error) {
		return cloud.Answer{}, &cloud.Error{Op: OpLaunch, Kind: kind, Code: code, Message: fmt.Sprintf(format, a...)}
	}
	if token == "" || len(token) > 64 {
		return bad(cloud.Template, "InvalidParameterValue", "client token must have 1 to 64 characters, has %d", len(token))
	}
	sum := sha256.Sum256(request)
	f, known := e.fleets[token]
	if known && f.hash != sum {
		return bad(cloud.Token, "IdempotentParameterMismatch", "client token %s was used with another request", token)
	}
	if !known {
		l, err := parseRequest(request)
		if err != nil {
			return bad(cloud.Template, "InvalidParameterValue", "%v", err)
		}
		f = e.buy(now, l)
		f.hash = sum
		e.fleets[token] = f
	}
	if err := e.lost(OpLaunch); err != nil {
		return cloud.Answer{}, err
	}
	a := cloud.Answer{Errors: slices.Clone(f.errors)}
	for _, id := range f.ids {
		a.Instances = append(a.Instances, e.machines[id].copy().Instance)
	}
	return a, nil
}

func parseRequest(request []byte) (cloud.Launch, error) {
	var l cloud.Launch
	dec := json.NewDecoder(bytes.NewReader(request))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, fmt.Errorf("request: %w", err)
	}
	switch {
	case len(l.Claims) == 0:
		return l, fmt.Errorf("request: TotalTargetCapacity must be at least 1")
	case len(l.Offers) == 0:
		return l, fmt.Errorf("request: Overrides must not be empty")
	case len(l.Offers) > 60:
		return l, fmt.Errorf("request: at most 60 Overrides, got %d", len(l.Offers))
	case l.CapacityType != model.Spot && l.CapacityType != model.OnDemand:
		return l, fmt.Errorf("request: DefaultTargetCapacityType %q, expected spot or on-demand", l.CapacityType)
	}
	return l, nil
}

// shop is what the catalogue sells to nodes of a class.
type shop struct {
	class *model.NodeClass
	list  []*model.Offering
	byKey map[string]*model.Offering
}

// open is the shop of a class; the catalogue is asked again only where the class has changed.
func (e *EC2) open(class *model.NodeClass) *shop {
	if s := e.shops[class.Name]; s != nil && reflect.DeepEqual(s.class, class) {
		return s
	}
	c := *class
	s := &shop{class: &c, list: e.cfg.Catalogue(&c), byKey: map[string]*model.Offering{}}
	for _, o := range s.list {
		s.byKey[o.Key()] = o
		if o.Type.Image == "" {
			o.Type.Image = imageOf(o)
		}
	}
	e.shops[class.Name] = s
	return s
}

// sold is what is sold to a class, by offering key.
func (e *EC2) sold(class string) map[string]*model.Offering {
	if s := e.shops[class]; s != nil {
		return s.byKey
	}
	return e.open(&model.NodeClass{Name: class, Family: "AL2023"}).byKey
}

func (e *EC2) start(now time.Time, l cloud.Launch, claim string, o pick) string {
	of := o.offering
	e.serial++
	n := fmt.Sprint(e.serial)
	id := fmt.Sprintf("i-0%016x", e.hash("instance", n))
	key := of.Key()
	if _, limited := e.capacity[key]; limited && !o.reserved {
		e.capacity[key]--
	}
	labels := maps.Clone(of.Type.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	host := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", 1+e.serial/62500, e.serial/250%250, 4+e.serial%250)
	maps.Copy(labels, map[string]string{model.LabelZone: of.Zone, model.LabelRegion: e.cfg.Region,
		model.LabelInstanceType: of.Type.Name, model.LabelHostname: host})
	maps.Copy(labels, l.Labels)
	labels[model.LabelCapacityType] = l.CapacityType
	labels[model.LabelInstanceID] = id
	usd := of.USDPerHour
	if o.usd > 0 {
		usd = o.usd
	}
	m := &machine{Machine: Machine{
		Instance: cloud.Instance{ID: id, Type: of.Type.Name, Zone: of.Zone, CapacityType: l.CapacityType, ImageID: imageOf(of),
			State: Pending, Launched: now, Tags: l.Tags},
		Claim: claim, LaunchID: l.ID, USDPerHour: usd, Labels: labels, Taints: l.Taints, NodeName: host,
		Capacity: of.Type.Capacity.Map(), Allocatable: of.Type.Allocatable.Map(),
	}, key: key, reserved: o.reserved, offset: len(e.order)}
	e.machines[id] = m
	e.order = append(e.order, m)
	e.stateEvent(now, m)
	e.after(now.Add(e.cfg.Delays.Run), func(at time.Time) {
		if m.State == Pending {
			m.State, m.RunningAt = Running, at
			e.stateEvent(at, m)
		}
	})
	return id
}

func imageOf(of *model.Offering) string {
	if of.Type.Labels[model.LabelArch] == "arm64" {
		return "ami-0a4e6400000000001"
	}
	return "ami-0a4d6400000000001"
}

// end begins the end of an instance.
func (e *EC2) end(at time.Time, m *machine, reason string) {
	if m.Gone() {
		return
	}
	m.State, m.EndingAt, m.Reason = ShuttingDown, at, reason
	e.stateEvent(at, m)
	if left, limited := e.capacity[m.key]; limited && reason != reasonReclaim && !m.reserved {
		e.capacity[m.key] = left + 1
	}
	e.after(at.Add(e.cfg.Delays.Terminate), func(at time.Time) {
		m.State, m.GoneAt = Terminated, at
		e.stateEvent(at, m)
	})
}

const (
	reasonUser    = "user"
	reasonReclaim = "spot-reclaim"
	reasonFailure = "failure"
)

// Terminate ends instances. An id that never existed fails the whole call, as in EC2;
// one that has ended is fine, also after it was forgotten.
func (e *EC2) Terminate(ctx context.Context, ids []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	if err := e.begin(ctx, OpTerminate); err != nil {
		return err
	}
	for _, id := range ids {
		if e.machines[id] == nil {
			return &cloud.Error{Op: OpTerminate, Kind: cloud.NotFound, Code: "InvalidInstanceID.NotFound",
				Message: fmt.Sprintf("the instance ID %q does not exist", id)}
		}
	}
	for _, id := range ids {
		e.end(now, e.machines[id], reasonUser)
	}
	return e.lost(OpTerminate)
}

// Tag sets tags of an instance that lives.
func (e *EC2) Tag(ctx context.Context, id string, tags map[string]string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	if err := e.begin(ctx, OpTag); err != nil {
		return err
	}
	m := e.machines[id]
	if m == nil {
		return &cloud.Error{Op: OpTag, Kind: cloud.NotFound, Code: "InvalidInstanceID.NotFound", Message: fmt.Sprintf("the instance ID %q does not exist", id)}
	}
	own := make(map[string]string, len(m.Tags)+len(tags)) // the old ones may have been handed out
	maps.Copy(own, m.Tags)
	maps.Copy(own, tags)
	m.Tags = own
	return e.lost(OpTag)
}

func (e *EC2) visible(now time.Time, m *machine) bool {
	return !now.Before(m.Launched.Add(e.cfg.Delays.Listed)) &&
		(m.GoneAt.IsZero() || now.Before(m.GoneAt.Add(e.cfg.Delays.Keep)))
}

// Describe reads instances; new ones show up after Delays.Listed.
func (e *EC2) Describe(ctx context.Context, ids []string) ([]cloud.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	if err := e.begin(ctx, OpDescribe); err != nil {
		return nil, err
	}
	var out []cloud.Instance
	for _, id := range ids {
		if m := e.machines[id]; m != nil && e.visible(now, m) {
			out = append(out, m.copy().Instance)
		}
	}
	return out, e.lost(OpDescribe)
}

// List reads the cluster's instances in the order of their launch.
func (e *EC2) List(ctx context.Context) ([]cloud.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.advance()
	if err := e.begin(ctx, OpList); err != nil {
		return nil, err
	}
	var out []cloud.Instance
	for _, m := range e.order {
		_, pool := m.Tags[model.LabelPool]
		if pool && m.Tags[TagCluster] == e.cfg.Cluster && m.State != Terminated && e.visible(now, m) {
			out = append(out, m.copy().Instance)
		}
	}
	return out, e.lost(OpList)
}

// Offerings is what the catalogue sells to the class. EC2 tells nobody its
// capacity: an offering that is short looks like any other until it is asked for. The
// list is shared and must not be changed; it stays the same as long as the class does.
func (e *EC2) Offerings(ctx context.Context, class *model.NodeClass) ([]*model.Offering, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	if err := e.begin(ctx, OpOfferings); err != nil {
		return nil, err
	}
	return e.open(class).list, e.lost(OpOfferings)
}

func (m *machine) copy() Machine {
	c := m.Machine
	c.Tags, c.Labels = maps.Clone(m.Tags), maps.Clone(m.Labels)
	return c
}

// Machines is every instance ever bought, in the order of launch.
func (e *EC2) Machines() []Machine {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	out := make([]Machine, len(e.order))
	for i, m := range e.order {
		out[i] = m.copy()
	}
	return out
}

// Machine finds an instance by id.
func (e *EC2) Machine(id string) (Machine, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	m := e.machines[id]
	if m == nil {
		return Machine{}, false
	}
	return m.copy(), true
}

// Calls counts the calls of each operation so far, failed ones included.
func (e *EC2) Calls() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.calls)
}

func splitKey(key string) (typ, zone, capacityType string, err error) {
	p := strings.Split(key, "/")
	if len(p) != 3 || p[0] == "" || p[1] == "" || p[2] == "" {
		return "", "", "", fmt.Errorf("offering %q: expected type/zone/capacity-type", key)
	}
	return p[0], p[1], p[2], nil
}
