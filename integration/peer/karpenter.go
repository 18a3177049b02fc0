package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/weir-project/weir/integration/bench/measure"
)

// production are the options that Karpenter has where nobody sets any.
func production(ctx context.Context) context.Context {
	ctx = injection.WithControllerName(ctx, "provisioner")
	return options.ToContext(ctx, &options.Options{
		CPURequests: 1000, PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
		IgnoreDRARequests: true, FeatureGates: options.FeatureGates{ReservedCapacity: true},
	})
}

// situation is a question in Karpenter's terms.
type situation struct {
	pool    *karpv1.NodePool
	pods    []*corev1.Pod
	daemons []*corev1.Pod
	types   map[string][]*cloudprovider.InstanceType
}

// askKarpenter answers a question with Karpenter's scheduler.
func askKarpenter(ctx context.Context, q *measure.Question) (*measure.Answer, error) {
	ctx = production(ctx)
	dir, err := os.MkdirTemp("", "weir-peer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := q.Write(dir); err != nil {
		return nil, err
	}
	runtime.GC()
	heap := measure.WatchHeap()
	began := time.Now()
	s, err := read(dir, q)
	if err != nil {
		return nil, err
	}
	a := &measure.Answer{Pods: len(s.pods), Load: time.Since(began).Seconds()}
	for i := range max(q.Runs, 1) {
		began, cpu := time.Now(), measure.CPUSeconds()
		results, err := s.solve(ctx)
		if err != nil {
			return nil, err
		}
		a.Solve, a.CPU = append(a.Solve, time.Since(began).Seconds()), append(a.CPU, measure.CPUSeconds()-cpu)
		if i == 0 {
			a.PeakHeap = heap.Close()
		}
		if err := price(a, results); err != nil {
			return nil, err
		}
		runtime.GC()
	}
	return a, nil
}

// solve does what the provisioner does between the batch window and the launch.
func (s *situation) solve(ctx context.Context) (scheduling.Results, error) {
	client := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	clk := clock.RealClock{}
	cluster := state.NewCluster(clk, client, nil)
	pools := []*karpv1.NodePool{s.pool}
	opts := []scheduling.Options{scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(1), scheduling.MinValuesPolicy(options.MinValuesPolicyStrict)}
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, s.types, s.pods, opts...)
	if err != nil {
		return scheduling.Results{}, fmt.Errorf("topology: %w", err)
	}
	scheduler := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, s.types, s.daemons, events.NewRecorder(&record.FakeRecorder{}), clk, nil, nil, opts...)
	results, err := scheduler.Solve(ctx, s.pods)
	if err != nil {
		return results, fmt.Errorf("solve: %w", err)
	}
	return results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes), nil
}

// read makes a situation of the manifests that measure wrote.
func read(dir string, q *measure.Question) (*situation, error) {
	s := &situation{}
	data, err := os.ReadFile(filepath.Join(dir, "objects.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &s.pods); err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	for i, p := range s.pods {
		p.UID = types.UID(fmt.Sprintf("pod-%06d", i)) // the API server's part
	}
	if s.pool, err = pool(q.Pool); err != nil {
		return nil, err
	}
	if q.Daemons {
		data, err := measure.Manifest("daemons")
		if err != nil {
			return nil, err
		}
		var ds appsv1.DaemonSet
		if err := utilyaml.Unmarshal(data, &ds); err != nil {
			return nil, fmt.Errorf("daemons: %w", err)
		}
		s.daemons = []*corev1.Pod{{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}}
	}
	its, err := instanceTypes(dir)
	if err != nil {
		return nil, err
	}
	s.types = map[string][]*cloudprovider.InstanceType{s.pool.Name: its}
	return s, nil
}

// pool reads the NodePool of a manifest of measure.
func pool(name string) (*karpv1.NodePool, error) {
	data, err := measure.Manifest(name)
	if err != nil {
		return nil, err
	}
	for _, doc := range splitDocuments(data) {
		np := &karpv1.NodePool{}
		if err := utilyaml.Unmarshal(doc, np); err != nil {
			return nil, fmt.Errorf("pool %s: %w", name, err)
		}
		if np.Kind == "NodePool" {
			np.UID = types.UID("pool-" + np.Name)
			return np, nil
		}
	}
	return nil, fmt.Errorf("manifest %s: expected a NodePool", name)
}

// ordinary leaves out bare metal and accelerators where something else is left, as
// Karpenter's provider for AWS does before it launches.
func ordinary(its cloudprovider.InstanceTypes) cloudprovider.InstanceTypes {
	plain := slices.DeleteFunc(slices.Clone(its), func(it *cloudprovider.InstanceType) bool {
		for name := range it.Capacity {
			if strings.HasSuffix(string(name), "/gpu") || strings.HasPrefix(string(name), "aws.amazon.com/neuron") {
				return true
			}
		}
		return strings.Contains(it.Name, ".metal")
	})
	if len(plain) == 0 {
		return its
	}
	return plain
}

// price adds up what was bought: of each node the cheapest offering that it may be
// launched with.
func price(a *measure.Answer, r scheduling.Results) error {
	a.Unplaced, a.Nodes, a.USD, a.Problems = len(r.PodErrors), len(r.NewNodeClaims), 0, nil
	placed := 0
	for _, n := range r.NewNodeClaims {
		placed += len(n.Pods)
		best := math.Inf(1)
		for _, it := range ordinary(n.InstanceTypeOptions) {
			for _, o := range it.Offerings.Available().Compatible(n.Requirements) {
				best = min(best, o.Price)
			}
		}
		if math.IsInf(best, 1) {
			return errors.New("a node of the answer has no offering that its requirements allow")
		}
		a.USD += best
	}
	if placed+a.Unplaced != a.Pods {
		return fmt.Errorf("%d pods placed and %d not, of %d", placed, a.Unplaced, a.Pods)
	}
	for p, err := range r.PodErrors {
		a.Problems = append(a.Problems, fmt.Sprintf("%d pods without a place, such as %s: %v", len(r.PodErrors), p.Name, err))
		break
	}
	return nil
}
