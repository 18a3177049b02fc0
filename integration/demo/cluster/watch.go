package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	apiv1 "github.com/weir-project/weir/core/api/v1"
	"github.com/weir-project/weir/core/simulate"
)

// watch tells of what changes in the cluster until ctx is done.
func (s *story) watch(ctx context.Context) {
	f := informers.NewSharedInformerFactory(s.k.client, 0)
	d := dynamicinformer.NewDynamicSharedInformerFactory(s.k.dyn, 0)
	handle := func(i cache.SharedIndexInformer, h cache.ResourceEventHandlerFuncs) {
		if _, err := i.AddEventHandler(h); err != nil {
			s.out.say("watch", err.Error())
		}
	}
	handle(f.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) { s.podChanged(old.(*corev1.Pod), now.(*corev1.Pod)) },
	})
	handle(f.Core().V1().Nodes().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.nodeSaid(o.(*corev1.Node).Name, "joined the cluster", "") },
		UpdateFunc: func(old, now any) { s.nodeChanged(old.(*corev1.Node), now.(*corev1.Node)) },
		DeleteFunc: func(o any) {
			if n, ok := o.(*corev1.Node); ok {
				s.nodeSaid(n.Name, "left the cluster", "")
			}
		},
	})
	handle(f.Core().V1().Events().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { s.event(o.(*corev1.Event)) }})
	handle(d.ForResource(apiv1.NodeClaims).Informer(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			s.claimChanged(ctx, old.(*unstructured.Unstructured), now.(*unstructured.Unstructured))
		},
	})
	f.Start(ctx.Done())
	d.Start(ctx.Done())
	tick := time.NewTicker(quiet / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.out.tick()
		case <-ctx.Done():
			f.Shutdown()
			d.Shutdown()
			return
		}
	}
}

func (s *story) podChanged(old, p *corev1.Pod) {
	if p.Namespace != "default" {
		return
	}
	app := "default/" + p.Labels["app"]
	condition := func(p *corev1.Pod, t corev1.PodConditionType) corev1.PodCondition {
		for _, c := range p.Status.Conditions {
			if c.Type == t {
				return c
			}
		}
		return corev1.PodCondition{}
	}
	if c := condition(p, corev1.PodScheduled); c.Reason == corev1.PodReasonUnschedulable && condition(old, corev1.PodScheduled).Reason == "" {
		s.out.pod(app, "pending", "no node has room that they may use")
	}
	if old.Spec.NodeName == "" && p.Spec.NodeName != "" {
		s.out.pod(app, "bound to "+p.Spec.NodeName, "")
	}
	if !ready(old) && ready(p) {
		s.out.pod(app, "running on "+p.Spec.NodeName, "")
	}
	if old.DeletionTimestamp == nil && p.DeletionTimestamp != nil {
		why := ""
		if c := condition(p, corev1.DisruptionTarget); c.Status == corev1.ConditionTrue {
			why = c.Message
		}
		s.out.pod(app, "told to leave "+p.Spec.NodeName, why)
	}
}

func (s *story) nodeSaid(name, what, why string) {
	s.out.tell(simulate.Happening{Kind: "node", Subject: name, Text: what, Why: why})
}

func (s *story) nodeChanged(old, n *corev1.Node) {
	has := func(n *corev1.Node, key string) bool {
		for _, t := range n.Spec.Taints {
			if t.Key == key {
				return true
			}
		}
		return false
	}
	if !has(old, "karpenter.sh/disrupted") && has(n, "karpenter.sh/disrupted") {
		s.nodeSaid(n.Name, "cordoned", "")
	}
	if has(old, "karpenter.sh/disrupted") && !has(n, "karpenter.sh/disrupted") {
		s.nodeSaid(n.Name, "open for pods again", "")
	}
	for label, text := range map[string]string{"karpenter.sh/registered": "registered", "karpenter.sh/initialized": "initialized: ready for pods"} {
		if old.Labels[label] == "" && n.Labels[label] == "true" {
			s.nodeSaid(n.Name, text, "")
		}
	}
}

// told are the events that say more than the objects show.
var told = map[string]bool{"SpotInterrupted": true, "DisruptionTerminating": true, "FailedScheduling": true, "InsufficientCapacityError": true, "LaunchFailed": true}

// event tells of those events of Weir that say why.
func (s *story) event(e *corev1.Event) {
	if e.LastTimestamp.Time.Before(s.start) && e.EventTime.Time.Before(s.start) {
		return
	}
	switch {
	case e.InvolvedObject.Kind == "Pod" && e.Reason == "Nominated" && strings.Contains(e.Message, "USD/h"):
		s.out.pod("default", "to run on "+strings.TrimPrefix(e.Message, "Pod should schedule on: "), "")
	case told[e.Reason] && e.InvolvedObject.Kind != "Node" && e.Source.Component != "default-scheduler" && e.ReportingController != "default-scheduler":
		s.out.tell(simulate.Happening{Kind: "event", Subject: e.InvolvedObject.Name, Text: e.Reason, Why: e.Message, Warning: e.Type == corev1.EventTypeWarning})
	}
}

// claimChanged tells of a launch with its price, which the simulated EC2 knows.
func (s *story) claimChanged(ctx context.Context, old, c *unstructured.Unstructured) {
	id := func(o *unstructured.Unstructured) string {
		v, _, _ := unstructured.NestedString(o.Object, "status", "providerID") // absent or of another type is empty
		return v
	}
	if id(old) != "" || id(c) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := s.ec2.Machines(ctx)
	if err != nil {
		return // the demo is ending
	}
	for _, m := range list {
		if m.ProviderID() == id(c) {
			s.out.tell(simulate.Happening{Kind: "instance", Subject: m.ID, USDPerHour: m.USDPerHour,
				Text: fmt.Sprintf("bought: %s in %s, %s, for %s", m.Type, m.Zone, m.CapacityType, c.GetName())})
		}
	}
}
