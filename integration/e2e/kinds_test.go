package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
)

// bareNode is a node with its claim, on which no kubelet runs.
func (f *fleet) bareNode(name, pool string) {
	f.t.Helper()
	full, provider := f.name(name), model.ProviderID("us-east-1a", f.instance(name))
	claim := f.claim(full, provider)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{"fleet": f.ns, model.LabelInstanceID: f.instance(name), model.LabelPool: pool},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: full, UID: claim.GetUID()}}},
		Spec: corev1.NodeSpec{ProviderID: provider}}
	if _, err := f.Client.CoreV1().Nodes().Create(f.t.Context(), node, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := f.Client.CoreV1().Nodes().Delete(context.Background(), full, metav1.DeleteOptions{}); err != nil {
			f.t.Error(err)
		}
	})
}

// kindOfEvent is an event and what must come of it. Its machine has gone by now, so that nobody waits for an empty node to settle.
type kindOfEvent struct {
	source, detailType, detail string // MACHINE stands for the id
	pool                       string // what it chooses to do about recommendations
	action                     interrupt.Action
	face                       string // kind and action on the claim; empty = none
	tainted, deleting          bool
}

// kindsOfEvents are all that AWS sends, and some that it may.
func kindsOfEvents() map[string]kindOfEvent {
	const ec2, spot, state, rebalance = "aws.ec2", "EC2 Spot Instance Interruption Warning", "EC2 Instance State-change Notification", "EC2 Instance Rebalance Recommendation"
	id := `"instance-id":"MACHINE"`
	health := func(category, fields string) string {
		return `{"eventArn":"arn:aws:health:us-east-1::event/EC2/X/X_1","service":"EC2","eventTypeCategory":"` + category + `","eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","eventRegion":"us-east-1",` +
			`"startTime":"` + time.Now().Add(-time.Second).UTC().Format(time.RFC1123) + `",` + fields + `"affectedEntities":[{"entityValue":"i-0eee0000000000009"},{"entityValue":"MACHINE"}]}`
	}
	return map[string]kindOfEvent{
		"terminate":   {ec2, spot, `{` + id + `,"instance-action":"terminate"}`, "", interrupt.Drain, "spot drain", true, true},
		"stop":        {ec2, spot, `{` + id + `,"instance-action":"stop"}`, "", interrupt.Drain, "spot drain", true, true},
		"hibernate":   {ec2, spot, `{` + id + `,"instance-action":"hibernate"}`, "", interrupt.Drain, "spot drain", true, true},
		"record":      {ec2, rebalance, `{` + id + `}`, "", interrupt.Record, "", false, false},
		"cordon":      {ec2, rebalance, `{` + id + `}`, "cordon", interrupt.Cordon, "rebalance cordon", true, false},
		"replace":     {ec2, rebalance, `{` + id + `}`, "replace-then-drain", interrupt.ReplaceThenDrain, "rebalance replace-then-drain", false, false},
		"pending":     {ec2, state, `{` + id + `,"state":"pending"}`, "", interrupt.Ignore, "", false, false},
		"running":     {ec2, state, `{` + id + `,"state":"running"}`, "", interrupt.Ignore, "", false, false},
		"stopping":    {ec2, state, `{` + id + `,"state":"stopping"}`, "", interrupt.Drain, "stopped drain", true, true},
		"stopped":     {ec2, state, `{` + id + `,"state":"STOPPED"}`, "", interrupt.Drain, "stopped drain", true, true},
		"down":        {ec2, state, `{` + id + `,"state":"shutting-down"}`, "", interrupt.Drain, "stopped drain", true, true},
		"terminated":  {ec2, state, `{` + id + `,"state":"terminated"}`, "", interrupt.Remove, "terminated remove", true, true},
		"reservation": {ec2, "EC2 Capacity Reservation Instance Interruption Warning", `{` + id + `,"instance-action":"terminate"}`, "", interrupt.Drain, "reservation drain", true, true},
		"lifecycle": {"aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", `{"EC2InstanceId":"MACHINE","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"}`, "",
			interrupt.Drain, "lifecycle drain", true, true},
		"scheduled":  {"aws.health", "AWS Health Event", health("scheduledChange", ""), "", interrupt.Drain, "scheduled drain", true, true},
		"called-off": {"aws.health", "AWS Health Event", health("scheduledChange", `"statusCode":"closed",`), "", interrupt.Record, "", false, false},
		"issue":      {"aws.health", "AWS Health Event", health("issue", ""), "", interrupt.Ignore, "", false, false},
		"unknown":    {ec2, "EC2 Fleet State Change", `{` + id + `}`, "", interrupt.Ignore, "", false, false},
	}
}

// lambdaKnowsEveryKind sends an event of every kind, each alone and then all in one batch with garbage between.
func lambdaKnowsEveryKind(t *testing.T, b binaries) {
	f := newFleet(t)
	fn := startFunction(t, b, f.ControlPlane, "60")
	for _, choice := range []string{"cordon", "replace-then-drain"} {
		pool := f.ns + "-" + choice
		f.Apply(t, "", fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s, annotations: {weir.dev/rebalance: %s}}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}
`, pool, choice))
		t.Cleanup(func() {
			if err := f.Delete(context.Background(), poolKind, "", pool); err != nil {
				t.Error(err)
			}
		})
	}
	all := kindsOfEvents()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	send := func(set, name string) string {
		k, node := all[name], set+"-"+name
		pool := "default"
		if k.pool != "" {
			pool = f.ns + "-" + k.pool
		}
		f.bareNode(node, pool)
		age := 2*time.Minute + 5*time.Second // the two minutes are over
		if k.pool != "" {
			age = 0 // half an hour is not
		}
		return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":%q,"source":%q,"account":"111122223333","time":%q,"region":"us-east-1","resources":[],"detail":%s}`,
			"e-"+f.name(node), k.detailType, k.source, time.Now().Add(-age).UTC().Format(time.RFC3339), strings.ReplaceAll(k.detail, "MACHINE", f.instance(node)))
	}
	for _, name := range names {
		event := send("alone", name)
		got := fn.mustInvoke(event)
		if got.ErrorMessage != "" || len(got.Outcomes) == 0 {
			t.Errorf("%s alone: %+v", name, got)
			continue
		}
		if last := got.Outcomes[len(got.Outcomes)-1]; last.Action != all[name].action || !last.Done || last.Reason == "" {
			t.Errorf("%s alone: %+v, want %s", name, last, all[name].action)
		}
		f.holdsKind("alone-"+name, all[name])
	}
	var batch []string
	for i, name := range names {
		batch = append(batch, send("batch", name), []string{"abcd", "{}", "null", `[1]`, `{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"x;y"}}`}[i%5])
	}
	if got := fn.mustInvoke(sqsBatch(t, batch...)); got.ErrorMessage != "" || len(got.BatchItemFailures) != 0 {
		t.Errorf("the batch: %+v", got)
	}
	for _, name := range names {
		f.holdsKind("batch-"+name, all[name])
	}
}

func (f *fleet) holdsKind(node string, want kindOfEvent) {
	f.t.Helper()
	s := f.state(node)
	got := kindOfEvent{tainted: s.Tainted, deleting: s.Deleting}
	if s.Face.Action != "" {
		got.face = fmt.Sprintf("%s %s", s.Face.Kind, s.Face.Action)
	}
	want = kindOfEvent{face: want.face, tainted: want.tainted, deleting: want.deleting}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(kindOfEvent{})); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", node, diff)
	}
}
