package metric_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-project/weir/core/metric"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/resource"
)

var update = flag.Bool("update", false, "write the generated reference page")

func metrics(t *testing.T) *metric.Metrics {
	t.Helper()
	m, err := metric.New(metric.Options{Version: "v1", Commit: "abc", ClusterGauges: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNames is a lint: what every metric's name, labels and help look like.
func TestNames(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^(karpenter|weir)_[a-z]+(_[a-z0-9]+)*$`)
	label := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, i := range metrics(t).Infos() {
		own := strings.HasPrefix(i.Name, "weir_")
		if !name.MatchString(i.Name) || seen[i.Name] {
			t.Errorf("%s: not a name of ours, or there twice", i.Name)
		}
		seen[i.Name] = true
		if !strings.HasSuffix(i.Help, ".") || strings.Contains(i.Help, "|") {
			t.Errorf("%s: help %q is no sentence", i.Name, i.Help)
		}
		if (i.Type == "counter") != strings.HasSuffix(i.Name, "_total") && (own || i.Type == "counter") {
			t.Errorf("%s is a %s: counters, and no others, end with _total", i.Name, i.Type)
		}
		if (i.Type == "histogram" || i.Type == "summary") && !strings.HasSuffix(i.Name, "_seconds") {
			t.Errorf("%s: durations are in seconds and say so", i.Name)
		}
		for _, l := range i.Labels {
			if !label.MatchString(l) || l == "pod" || l == "le" || l == "quantile" {
				t.Errorf("%s: label %q", i.Name, l)
			}
		}
		if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(i.Labels))), slices.Sorted(slices.Values(i.Labels))) {
			t.Errorf("%s: a label twice in %v", i.Name, i.Labels)
		}
	}
}

// TestKarpenterLabels holds the labels of the names that dashboards know.
func TestKarpenterLabels(t *testing.T) {
	t.Parallel()
	disrupted := "reason,nodepool,capacity_type,consolidation_policy,termination_mode"
	want := map[string]string{
		"karpenter_build_info":                                                "gauge version,goversion,goarch,commit",
		"karpenter_nodeclaims_created_total":                                  "counter reason,nodepool,min_values_relaxed",
		"karpenter_nodeclaims_terminated_total":                               "counter nodepool,capacity_type,zone",
		"karpenter_nodeclaims_disrupted_total":                                "counter " + disrupted,
		"karpenter_nodeclaims_unhealthy_disrupted_total":                      "counter condition,nodepool,capacity_type,image_id",
		"karpenter_pods_disruption_initiated_total":                           "counter " + disrupted,
		"karpenter_nodeclaims_termination_duration_seconds":                   "histogram nodepool",
		"karpenter_nodeclaims_instance_termination_duration_seconds":          "histogram nodepool",
		"karpenter_nodes_created_total":                                       "counter nodepool,zone",
		"karpenter_nodes_terminated_total":                                    "counter nodepool,zone",
		"karpenter_nodes_drained_total":                                       "counter nodepool",
		"karpenter_nodes_termination_duration_seconds":                        "summary nodepool",
		"karpenter_nodes_lifetime_duration_seconds":                           "histogram nodepool",
		"karpenter_pods_startup_duration_seconds":                             "summary ",
		"karpenter_pods_bound_duration_seconds":                               "histogram ",
		"karpenter_pods_scheduling_decision_duration_seconds":                 "histogram ",
		"karpenter_pods_eviction_requests_total":                              "counter code",
		"karpenter_pods_drained_total":                                        "counter reason",
		"karpenter_scheduler_scheduling_duration_seconds":                     "histogram controller",
		"karpenter_scheduler_queue_depth":                                     "gauge controller,scheduling_id",
		"karpenter_scheduler_ignored_pods_count":                              "gauge ",
		"karpenter_scheduler_unschedulable_pods_count":                        "gauge controller",
		"karpenter_voluntary_disruption_decision_evaluation_duration_seconds": "histogram reason,consolidation_type",
		"karpenter_voluntary_disruption_decisions_total":                      "counter decision,reason,consolidation_type",
		"karpenter_voluntary_disruption_eligible_nodes":                       "gauge reason",
		"karpenter_nodepools_allowed_disruptions":                             "gauge nodepool,reason",
		"karpenter_cluster_state_synced":                                      "gauge ",
		"karpenter_cluster_state_node_count":                                  "gauge ",
		"karpenter_cloudprovider_duration_seconds":                            "histogram controller,method,provider",
		"karpenter_cloudprovider_errors_total":                                "counter controller,method,provider,error",
		"karpenter_interruption_received_messages_total":                      "counter message_type",
	}
	got := map[string]string{}
	for _, i := range metrics(t).Infos() {
		if _, ok := want[i.Name]; ok {
			got[i.Name] = i.Type + " " + strings.Join(i.Labels, ",")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryVectorIsSet(t *testing.T) {
	t.Parallel()
	m := metrics(t)
	m.ClaimsCreated.WithLabelValues("provisioned", "default", "false").Inc()
	m.PlanDuration.WithLabelValues("provision").Observe(0.2)
	m.NodeTermination.WithLabelValues("default").Observe(3)
	problems, err := testutil.GatherAndLint(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "weir_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1`,
		`karpenter_nodes_termination_duration_seconds{nodepool="default",quantile="0.99"} 3`,
		`weir_plan_duration_seconds_bucket{kind="provision",le="0.25"} 1`,
		`karpenter_build_info{commit="abc",`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, rec.Body)
		}
	}
}

func world() *model.World {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ten := int64(10)
	labels := map[string]string{model.LabelPool: "default", model.LabelZone: "us-east-1a", model.LabelCapacityType: "spot", model.LabelInstanceType: "m5.large"}
	web := &model.Pod{Namespace: "ns", Name: "web", NodeName: "n1", Ready: true, Owner: model.Owner{Kind: "ReplicaSet", Name: "web"}, Requests: resource.New(1500, 1<<30, 1, 0)}
	agent := &model.Pod{Namespace: "ns", Name: "agent", NodeName: "n1", Owner: model.Owner{Kind: "DaemonSet", Name: "agent"}, Requests: resource.New(100, 1<<20, 1, 0)}
	return &model.World{
		Now:   now,
		Pools: []*model.Pool{{Name: "default", Limits: model.Limits{Resources: map[string]int64{"cpu": 8000}, Nodes: &ten}}},
		Nodes: []*model.Node{
			{Name: "n1", Claim: &model.Claim{Name: "c1"}, Labels: labels, Created: now.Add(-time.Hour), Capacity: resource.New(2000, 8<<30, 29, 0), Allocatable: resource.New(1930, 7<<30, 29, 0), Pods: []*model.Pod{web, agent}, USDPerHour: 0.04, PriceKnown: true},
			{Claim: &model.Claim{Name: "c2"}, Labels: labels, Capacity: resource.New(2000, 8<<30, 29, 0)},
		},
		Pods: []*model.Pod{{Namespace: "ns", Name: "late"}},
	}
}

func TestClusterGauges(t *testing.T) {
	t.Parallel()
	m := metrics(t)
	m.SetWorld(world())
	want := `
# HELP karpenter_cluster_state_node_count Nodes known, those that have not joined included.
# TYPE karpenter_cluster_state_node_count gauge
karpenter_cluster_state_node_count 2
# HELP karpenter_nodepools_cost_total Price of the nodes of a pool, USD per hour.
# TYPE karpenter_nodepools_cost_total gauge
karpenter_nodepools_cost_total{nodepool="default"} 0.04
# HELP karpenter_nodepools_limit Limit of a pool.
# TYPE karpenter_nodepools_limit gauge
karpenter_nodepools_limit{nodepool="default",resource_type="cpu"} 8
karpenter_nodepools_limit{nodepool="default",resource_type="nodes"} 10
# HELP karpenter_nodes_current_lifetime_seconds Age of a node.
# TYPE karpenter_nodes_current_lifetime_seconds gauge
karpenter_nodes_current_lifetime_seconds{arch="",capacity_type="spot",instance_type="m5.large",managed="true",node_name="n1",nodepool="default",os="",region="",zone="us-east-1a"} 3600
# HELP karpenter_pods_state Always 1; the labels say where a pod is.
# TYPE karpenter_pods_state gauge
karpenter_pods_state{arch="",capacity_type="",instance_type="",managed="false",name="late",namespace="ns",node="",nodepool="",owner="",ready="false",scheduled="false",zone=""} 1
karpenter_pods_state{arch="",capacity_type="spot",instance_type="m5.large",managed="true",name="agent",namespace="ns",node="n1",nodepool="default",owner="DaemonSet/agent",ready="false",scheduled="true",zone="us-east-1a"} 1
karpenter_pods_state{arch="",capacity_type="spot",instance_type="m5.large",managed="true",name="web",namespace="ns",node="n1",nodepool="default",owner="ReplicaSet/web",ready="true",scheduled="true",zone="us-east-1a"} 1
`
	if err := testutil.GatherAndCompare(m.Registry, strings.NewReader(want), "karpenter_cluster_state_node_count", "karpenter_nodepools_cost_total",
		"karpenter_nodepools_limit", "karpenter_nodes_current_lifetime_seconds", "karpenter_pods_state"); err != nil {
		t.Error(err)
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`nodepool="default",resource_type="cpu"} 4`, `karpenter_cluster_utilization_percent{resource_type="cpu"} 82.9`,
		`resource_type="cpu",zone="us-east-1a"} 1.93`, `resource_type="cpu",zone="us-east-1a"} 0.1`, `resource_type="cpu",zone="us-east-1a"} 1.5`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in the answer", want)
		}
	}
	small := world()
	small.Nodes = small.Nodes[:1]
	m.SetWorld(small)
	rec = httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(rec.Body.String(), "karpenter_cluster_state_node_count 1") {
		t.Error("the gauges still show the world before")
	}
}

func TestClusterGaugesOff(t *testing.T) {
	t.Parallel()
	m, err := metric.New(metric.Options{Process: true})
	if err != nil {
		t.Fatal(err)
	}
	m.SetWorld(world())
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body := rec.Body.String()
	if strings.Contains(body, "karpenter_pods_state") || strings.Contains(body, "karpenter_nodes_allocatable") {
		t.Error("gauges of pods or nodes although they are off")
	}
	for _, want := range []string{"karpenter_nodepools_usage", "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the answer", want)
		}
	}
}

// TestReference holds the generated page equal to the code: go test -update writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	want := metrics(t).Reference()
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("metrics.md is old, run go test ./core/metric -update (-want +got):\n%s", diff)
	}
}
