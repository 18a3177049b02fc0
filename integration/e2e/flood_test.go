package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/aws/moto"
)

// The flood: events at once about so many nodes of ours, beside nodes that are not.
const (
	floodEvents  = 1000
	floodNodes   = 200
	floodTheirs  = 20 // nodes without a claim, whose instances the table gives to another cluster or to nobody
	floodGarbage = 100
	floodWorkers = 2   // functions at once
	floodBatch   = 125 // messages of a batch
)

// TestAThousandEventsAtOnce: a thousand messages about two hundred of our nodes, in any order, with repetitions, several kinds for
// one node, garbage, and instances of others between. Each of our nodes is drained once, none of the others is touched, none is lost.
func TestAThousandEventsAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	f := newFleet(t)
	aws := moto.Own(t)
	table := aws.Table(t)
	store := aws.Ledger(t, table)
	if err := ledger.Beat(t.Context(), store, "e2e", ledger.Heartbeat{At: time.Now().Add(-time.Hour), Active: true}); err != nil { // the scaler is dead
		t.Fatal(err)
	}
	pods := f.flooded(store)
	b := buildLambda(t)
	letters := newQueue(t, aws, "dead-letters")
	b.bootstrap = withEnv(t, append(aws.Environ(), "WEIR_LEDGER=dynamodb", "WEIR_LEDGER_TABLE="+table, "WEIR_DEAD_LETTER_QUEUE="+letters.url), b.bootstrap)
	fns := make([]*function, floodWorkers)
	for i := range fns {
		fns[i] = startFunction(t, b, f.ControlPlane, "60")
	}

	messages := f.floodOf()
	failed := deliver(t, fns, messages)
	for try := 0; len(failed) > 0; try++ { // as the queue would
		if try == 5 {
			t.Fatalf("%d messages came five times", len(failed))
		}
		t.Logf("%d messages come again", len(failed))
		failed = deliver(t, fns, failed)
	}
	f.floodWentWell(store, pods)
	n, err := letters.left(t.Context())
	if err != nil || n != floodGarbage*3/4 {
		t.Errorf("%d dead letters, want %d (%v)", n, floodGarbage*3/4, err)
	}
	one, err := letters.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &letters.url, MessageAttributeNames: []string{"All"}})
	if err != nil || len(one.Messages) == 0 || one.Messages[0].MessageAttributes["reason"].StringValue == nil {
		t.Errorf("a dead letter without its reason: %+v, %v", one, err)
	}
}

// deliver hands the messages to the functions in batches, and answers those that must come again.
func deliver(t *testing.T, fns []*function, messages []string) (failed []string) {
	t.Helper()
	batches := make(chan []string, len(messages))
	for b := range slices.Chunk(messages, floodBatch) {
		batches <- b
	}
	close(batches)
	var mu sync.Mutex // guards failed
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Go(func() {
			for b := range batches {
				got, err := fn.invoke(sqsBatch(t, b...))
				if err != nil || got.ErrorMessage != "" {
					t.Errorf("a batch failed: %v, %s", err, got.ErrorMessage)
					return
				}
				mu.Lock()
				for _, x := range got.BatchItemFailures {
					var n int
					if _, err := fmt.Sscanf(x.ItemIdentifier, "m%d", &n); err != nil || n < 1 || n > len(b) {
						t.Errorf("failure %q", x.ItemIdentifier)
						continue
					}
					failed = append(failed, b[n-1])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

// flooded makes the nodes: ours with a claim, a label and a pod each, the others with a pod. There are no kubelets: a pod without
// a grace period is gone once it was evicted. It answers the uids of the pods by node.
func (f *fleet) flooded(store ledger.Store) map[string]types.UID {
	f.t.Helper()
	pods := map[string]types.UID{}
	var mu sync.Mutex // guards pods
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range floodNodes + floodTheirs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			name := f.floodName(i)
			uid, err := f.floodNode(store, name, i < floodNodes, i%2 == 0)
			if err != nil {
				f.t.Errorf("node %s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			pods[name] = uid
		})
	}
	wg.Wait()
	f.t.Cleanup(func() {
		selector := metav1.ListOptions{LabelSelector: "fleet=" + f.ns}
		if err := f.Client.CoreV1().Nodes().DeleteCollection(context.Background(), metav1.DeleteOptions{}, selector); err != nil {
			f.t.Error(err)
		}
	})
	if f.t.Failed() {
		f.t.FailNow()
	}
	return pods
}

func (f *fleet) floodName(i int) string {
	if i < floodNodes {
		return fmt.Sprintf("ours-%03d", i)
	}
	return fmt.Sprintf("theirs-%03d", i)
}

func (f *fleet) floodNode(store ledger.Store, name string, ours, known bool) (types.UID, error) {
	ctx := f.t.Context()
	full, id := f.name(name), f.instance(name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{"fleet": f.ns, model.LabelInstanceID: id,
		model.LabelInstanceType: "m5.large", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.Spot}},
		Spec: corev1.NodeSpec{ProviderID: model.ProviderID("us-east-1a", id)}}
	owner := ledger.InstanceOwner{Cluster: "e2e", Node: full, Claim: full, Offering: "m5.large/us-east-1a/spot"}
	if ours {
		claim := f.claim(full, node.Spec.ProviderID)
		node.Labels[model.LabelPool] = "default"
		node.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: full, UID: claim.GetUID()}}
	} else {
		owner = ledger.InstanceOwner{Cluster: "other"}
	}
	if ours || known {
		if _, err := ledger.Save(ctx, store, ledger.InstanceKey("111122223333", "us-east-1", id), owner, ledger.Meta{}, ledger.Any, time.Now()); err != nil {
			return "", err
		}
	}
	if _, err := f.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	now := int64(0)
	pod, err := f.Client.CoreV1().Pods(f.ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "flood"}},
		Spec: corev1.PodSpec{NodeName: full, TerminationGracePeriodSeconds: &now, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}, {Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists}}}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return pod.UID, nil
}

// floodOf makes the messages, in an order of chance: each of our nodes at least once, then repetitions of them, other kinds for the
// same nodes, the others' instances, instances that nobody has, and what is no event.
func (f *fleet) floodOf() []string {
	r := rand.New(rand.NewPCG(1, 2))
	var out []string
	for i := range floodNodes {
		out = append(out, spotEvent("spot-"+f.name(f.floodName(i)), f.instance(f.floodName(i))))
	}
	for i := floodNodes; i < floodNodes+floodTheirs; i++ {
		out = append(out, spotEvent("spot-"+f.name(f.floodName(i)), f.instance(f.floodName(i))))
	}
	for i := range floodGarbage {
		out = append(out, []string{"abcd", "{}", `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":42}}`,
			`{"source":"aws.ec2","detail-type":"EC2 Fleet State Change","detail":{}}`}[i%4])
	}
	for len(out) < floodEvents {
		name := f.floodName(r.IntN(floodNodes + floodTheirs))
		switch r.IntN(4) {
		case 0: // another kind for the same instance
			out = append(out, stateEvent(fmt.Sprintf("state-%d", len(out)), f.instance(name), "stopping"))
		case 1:
			out = append(out, spotEvent(fmt.Sprintf("nobody-%d", len(out)), fmt.Sprintf("i-0eee%07d", len(out))))
		default: // the same event, or the same news by another one
			out = append(out, spotEvent([]string{"spot-" + f.name(name), fmt.Sprintf("again-%d", len(out))}[r.IntN(2)], f.instance(name)))
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func stateEvent(id, instance, state string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"111122223333","time":%q,"region":"us-east-1",
		"resources":[],"detail":{"instance-id":%q,"state":%q}}`, id, time.Now().UTC().Format(time.RFC3339), instance, state)
}

func (f *fleet) floodWentWell(store ledger.Store, pods map[string]types.UID) {
	f.t.Helper()
	ctx := f.t.Context()
	nodes, err := f.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "fleet=" + f.ns})
	if err != nil {
		f.t.Fatal(err)
	}
	tainted := map[string]bool{}
	for _, n := range nodes.Items {
		tainted[n.Name] = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == model.TaintDisrupted })
	}
	left := map[string]types.UID{}
	list, err := f.Client.CoreV1().Pods(f.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range list.Items {
		left[p.Name] = p.UID
	}
	events, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "source=karpenter,involvedObject.kind=NodeClaim"})
	if err != nil {
		f.t.Fatal(err)
	}
	told := map[string]int{}
	for _, e := range events.Items {
		told[e.InvolvedObject.Name]++
	}
	notices, err := ledger.Notices(ctx, store, "e2e", time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	done := map[string]bool{}
	for _, n := range notices {
		if n.Kind == string(model.NoticeSpot) {
			done[n.Instance] = n.State == ledger.NoticeDone
		}
	}
	var errs []error
	for i := range floodNodes + floodTheirs {
		name := f.floodName(i)
		_, pod := left[name]
		ours := i < floodNodes
		if tainted[f.name(name)] != ours || pod == ours || pod && left[name] != pods[name] || done[f.instance(name)] != ours {
			errs = append(errs, fmt.Errorf("%s: tainted %v, its pod is left %v, its notice is done %v", name, tainted[f.name(name)], pod, done[f.instance(name)]))
		}
		if !ours {
			continue
		}
		claim, err := f.Dynamic.Resource(v1.NodeClaims).Get(ctx, f.name(name), metav1.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		face, shown, err := interrupt.ReadFace(claim.GetAnnotations())
		if n := told[f.name(name)]; claim.GetDeletionTimestamp() == nil || !shown || err != nil || face.Action != interrupt.Drain || n < 1 {
			errs = append(errs, fmt.Errorf("claim %s: deleted %v, face %+v (%w), told %d times", name, claim.GetDeletionTimestamp(), face, err, n))
		}
	}
	if err := errors.Join(errs...); err != nil {
		f.t.Error(err)
	}
}
