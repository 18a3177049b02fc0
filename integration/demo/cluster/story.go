package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/simulate"
)

type story struct {
	o      options
	k      *kube
	ec2    *sim.Client
	out    *teller
	scaler *child
	start  time.Time
}

const (
	poolLabel = "karpenter.sh/nodepool"
	spotPool  = "demo-spot"
)

// play is the scenario of integration/demo/scenario.yaml, each step as soon as the one before is done.
func (s *story) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.watch(ctx) })

	file := func(name string) string { return filepath.Join(s.o.manifests, name) }
	s.out.title("The seed's NodePools and EC2NodeClass, as they are")
	for _, f := range []string{"seed/node-pool-default-amd.yaml", "seed/node-pool-default-fallback.yaml", "seed/ec2-node-class-default.yaml"} {
		if err := s.k.applyFile(ctx, file(f), nil); err != nil {
			return err
		}
	}
	s.out.title("The seed's test.yaml: ten pods of 2 CPU and 4 GiB that no machine can hold")
	if err := s.k.applyFile(ctx, file("seed/test.yaml"), nil); err != nil {
		return err
	}
	if err := s.running(ctx, "inflate", 10); err != nil {
		return err
	}
	if err := s.price(ctx, 1.05); err != nil {
		return err
	}
	s.out.title("A spot pool and a workload of twenty replicas with a PodDisruptionBudget (16 must stay)")
	if err := s.k.applyFile(ctx, file("demo-spot.yaml"), s.shorten); err != nil {
		return err
	}
	if err := s.k.applyFile(ctx, file("web.yaml"), nil); err != nil {
		return err
	}
	if err := s.running(ctx, "web", 20); err != nil {
		return err
	}
	if err := s.interrupt(ctx); err != nil {
		return err
	}
	s.out.title("The workload is scaled to zero: its machines stand empty until the pool's " + s.o.consolidateAfter + " are over")
	if err := s.k.scale(ctx, "default", "web", 0); err != nil {
		return err
	}
	if err := s.given(ctx); err != nil {
		return err
	}
	return s.bill(ctx)
}

// shorten sets the pool's consolidateAfter, so that nobody waits ten minutes.
func (s *story) shorten(o *unstructured.Unstructured) error {
	if o.GetKind() != "NodePool" {
		return nil
	}
	return unstructured.SetNestedField(o.Object, s.o.consolidateAfter, "spec", "disruption", "consolidateAfter")
}

// alive is an error once the scaler has ended.
func (s *story) alive() error {
	if err, gone := s.scaler.ended(); gone {
		return fmt.Errorf("weir-scaler ended: %w", cmp.Or(err, fmt.Errorf("without an error")))
	}
	return nil
}

func (s *story) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := s.k.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (s *story) running(ctx context.Context, app string, n int) error {
	return until(ctx, s.o.limit, fmt.Sprintf("%d running pods of %s", n, app), func(ctx context.Context) (string, error) {
		if err := s.alive(); err != nil {
			return "", err
		}
		pods, err := s.pods(ctx, app)
		if err != nil {
			return "", err
		}
		have := 0
		for i := range pods {
			if ready(&pods[i]) {
				have++
			}
		}
		if have != n {
			return fmt.Sprintf("%d run", have), nil
		}
		return "", nil
	})
}

func (s *story) machines(ctx context.Context, pool string) ([]sim.Machine, error) {
	all, err := s.ec2.Machines(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m sim.Machine) bool { return m.Gone() || pool != "" && m.Tags[poolLabel] != pool }), nil
}

func (s *story) price(ctx context.Context, most float64) error {
	list, err := s.machines(ctx, "")
	if err != nil {
		return err
	}
	sum := 0.0
	for _, m := range list {
		sum += m.USDPerHour
	}
	if sum > most {
		return fmt.Errorf("the machines cost %.4f USD/h, expected at most %.4f", sum, most)
	}
	s.out.tell(simulate.Happening{Kind: "price", Text: fmt.Sprintf("%d machines for ten pods, for at most %.2f USD/h", len(list), most), USDPerHour: sum})
	return nil
}

// interrupt takes the fullest spot machine back and sees that it is empty before its end, and that the budget held.
func (s *story) interrupt(ctx context.Context) error {
	list, err := s.machines(ctx, spotPool)
	if err != nil {
		return err
	}
	pods, err := s.pods(ctx, "web")
	if err != nil {
		return err
	}
	count := map[string]int{}
	for i := range pods {
		count[pods[i].Spec.NodeName]++
	}
	slices.SortStableFunc(list, func(a, b sim.Machine) int { return cmp.Compare(count[b.NodeName], count[a.NodeName]) })
	if len(list) == 0 || count[list[0].NodeName] == 0 {
		return fmt.Errorf("no spot machine carries a pod of web")
	}
	victim := list[0]
	s.out.title(fmt.Sprintf("EC2 takes %s back, with %d pods on it: two minutes from now it is gone", victim.ID, count[victim.NodeName]))
	deadline := time.Now().Add(2 * time.Minute)
	if err := s.ec2.Reclaim(ctx, victim.ID); err != nil {
		return err
	}
	least := int32(20)
	err = until(ctx, time.Until(deadline), "the machine to be drained before it is gone", func(ctx context.Context) (string, error) {
		if err := s.alive(); err != nil {
			return "", err
		}
		b, err := s.k.client.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		least = min(least, b.Status.CurrentHealthy)
		pods, err := s.pods(ctx, "web")
		if err != nil {
			return "", err
		}
		return left(pods, b, victim.NodeName), nil
	})
	if err != nil {
		return err
	}
	if least < 16 {
		return fmt.Errorf("the budget was broken: only %d pods of web were healthy", least)
	}
	s.out.say("drained", fmt.Sprintf("%s carries no pod any more, %s before the deadline; never fewer than %d of 20 replicas were healthy",
		victim.NodeName, time.Until(deadline).Round(time.Second), least))
	return until(ctx, s.o.limit, "the drained machine to be given back", func(ctx context.Context) (string, error) {
		list, err := s.machines(ctx, spotPool)
		if err != nil || !slices.ContainsFunc(list, func(m sim.Machine) bool { return m.ID == victim.ID }) {
			return "", err
		}
		return victim.ID + " still runs", nil
	})
}

func left(pods []corev1.Pod, b *policyv1.PodDisruptionBudget, node string) string {
	on, run := 0, 0
	for i := range pods {
		if pods[i].Spec.NodeName == node {
			on++
		}
		if ready(&pods[i]) {
			run++
		}
	}
	if on == 0 && run == 20 {
		return ""
	}
	return fmt.Sprintf("%d pods are still on %s, %d run, %d may be evicted", on, node, run, b.Status.DisruptionsAllowed)
}

// given waits until no spot machine is left.
func (s *story) given(ctx context.Context) error {
	after, err := time.ParseDuration(s.o.consolidateAfter)
	if err != nil {
		return fmt.Errorf("consolidate-after: %w", err)
	}
	began := time.Now()
	first := time.Time{}
	before, err := s.machines(ctx, spotPool)
	if err != nil {
		return err
	}
	err = until(ctx, after+2*s.o.limit, "the spot machines to be given back", func(ctx context.Context) (string, error) {
		if err := s.alive(); err != nil {
			return "", err
		}
		list, err := s.machines(ctx, spotPool)
		if err != nil {
			return "", err
		}
		if len(list) < len(before) && first.IsZero() {
			first = time.Now()
		}
		if len(list) > 0 {
			return fmt.Sprintf("%d are left", len(list)), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	if waited := first.Sub(began); waited < after {
		return fmt.Errorf("a machine was given back after %s, the pool asks for %s", waited.Round(time.Second), after)
	}
	return nil
}

func (s *story) bill(ctx context.Context) error {
	lines, err := s.ec2.Bill(ctx)
	if err != nil {
		return err
	}
	s.out.title("The bill (real time)")
	r := &simulate.Report{Start: s.start, End: time.Now()}
	for _, l := range lines {
		r.Bill = append(r.Bill, simulate.NodeBill{BillLine: l, Ended: l.To, EndReason: map[bool]string{false: "user"}[l.Open]})
		r.Totals.USD += l.USD
		r.Totals.NodeHours += l.Hours
	}
	return simulate.WriteBill(s.out.w, r)
}
