package metric

import (
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
	"github.com/weir-project/weir/core/model/resource"
)

var nodeLabels = []string{"node_name", "nodepool", "capacity_type", "zone", "region", "instance_type", "arch", "os", "managed"}

// clusterCollector makes the gauges of the cluster out of the last snapshot, when
// they are asked for: a node that is gone is gone from the answer as well.
type clusterCollector struct {
	detailed bool
	world    atomic.Pointer[model.World]

	nodeCount, utilization              *prometheus.Desc
	poolLimit, poolUsage, poolCost      *prometheus.Desc
	allocatable, podRequests, daemonReq *prometheus.Desc
	lifetime, podState                  *prometheus.Desc
}

func newClusterCollector(detailed bool, b *builder) *clusterCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		b.note(name, "gauge", help, labels)
		return prometheus.NewDesc(name, help, labels, nil)
	}
	byResource := append(append([]string{}, nodeLabels...), "resource_type")
	c := &clusterCollector{
		detailed:    detailed,
		nodeCount:   desc("karpenter_cluster_state_node_count", "Nodes known, those that have not joined included."),
		utilization: desc("karpenter_cluster_utilization_percent", "Share of what the nodes can take that pods requested.", "resource_type"),
		poolLimit:   desc("karpenter_nodepools_limit", "Limit of a pool.", "nodepool", "resource_type"),
		poolUsage:   desc("karpenter_nodepools_usage", "What a pool has.", "nodepool", "resource_type"),
		poolCost:    desc("karpenter_nodepools_cost_total", "Price of the nodes of a pool, USD per hour.", "nodepool"),
		allocatable: desc("karpenter_nodes_allocatable", "What a node can take.", byResource...),
		podRequests: desc("karpenter_nodes_total_pod_requests", "What the pods of a node requested, those of DaemonSets left out.", byResource...),
		daemonReq:   desc("karpenter_nodes_total_daemon_requests", "What the pods of DaemonSets on a node requested.", byResource...),
		lifetime:    desc("karpenter_nodes_current_lifetime_seconds", "Age of a node.", nodeLabels...),
		podState: desc("karpenter_pods_state", "Always 1; the labels say where a pod is.",
			"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "ready", "managed"),
	}
	b.register(c)
	return c
}

// SetWorld gives the gauges of the cluster their snapshot; it must not change any more.
func (m *Metrics) SetWorld(w *model.World) { m.cluster.world.Store(w) }

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.nodeCount, c.utilization, c.poolLimit, c.poolUsage, c.poolCost,
		c.allocatable, c.podRequests, c.daemonReq, c.lifetime, c.podState,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(ch chan<- prometheus.Metric) {
	w := c.world.Load()
	if w == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.nodeCount, float64(len(w.Nodes)))
	c.pools(w, gauge)
	var used, room resource.Vector
	for _, n := range w.Nodes {
		if n.Joined() {
			used, room = used.Add(n.Used()), room.Add(attach.Strip(n.Allocatable))
		}
		if c.detailed {
			c.node(w, n, gauge)
		}
	}
	room.Each(func(name string, total int64) {
		if total > 0 {
			gauge(c.utilization, 100*float64(used.Get(name))/float64(total), name)
		}
	})
	if c.detailed {
		for _, p := range w.Pods {
			gauge(c.podState, 1, podLabels(p, nil)...)
		}
	}
}

type emit func(d *prometheus.Desc, v float64, labels ...string)

// pools tells of each pool, and of no pool's nodes twice.
func (c *clusterCollector) pools(w *model.World, gauge emit) {
	usage, cost := map[string]resource.Vector{}, map[string]float64{}
	for _, n := range w.Nodes {
		if n.Managed() && n.Pool() != "" {
			usage[n.Pool()] = usage[n.Pool()].Add(n.Capacity)
			if n.PriceKnown {
				cost[n.Pool()] += n.USDPerHour
			}
		}
	}
	for _, p := range w.Pools {
		gauge(c.poolCost, cost[p.Name], p.Name)
		usage[p.Name].Each(func(name string, v int64) {
			gauge(c.poolUsage, units(name, v), p.Name, name)
		})
		names := make([]string, 0, len(p.Limits.Resources))
		for name := range p.Limits.Resources {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			gauge(c.poolLimit, units(name, p.Limits.Resources[name]), p.Name, name)
		}
		if p.Limits.Nodes != nil {
			gauge(c.poolLimit, float64(*p.Limits.Nodes), p.Name, "nodes")
		}
	}
}

func (c *clusterCollector) node(w *model.World, n *model.Node, gauge emit) {
	labels := []string{
		n.ID(), n.Pool(), n.CapacityType(), n.Zone(), n.Labels[model.LabelRegion], n.InstanceType(),
		n.Labels[model.LabelArch], n.Labels[model.LabelOS], strconv.FormatBool(n.Managed()),
	}
	var pods, daemons resource.Vector
	for _, p := range n.Pods {
		if p.Daemon() {
			daemons = daemons.Add(p.Requests)
		} else {
			pods = pods.Add(p.Requests)
		}
		gauge(c.podState, 1, podLabels(p, n)...)
	}
	each := func(d *prometheus.Desc, v resource.Vector) {
		attach.Strip(v).Each(func(name string, x int64) {
			gauge(d, units(name, x), append(labels[:len(labels):len(labels)], name)...)
		})
	}
	each(c.allocatable, n.Allocatable)
	each(c.podRequests, pods)
	each(c.daemonReq, daemons)
	if !n.Created.IsZero() {
		gauge(c.lifetime, w.Now.Sub(n.Created).Seconds(), labels...)
	}
}

func podLabels(p *model.Pod, n *model.Node) []string {
	labels := []string{p.Name, p.Namespace, p.Owner.Kind + "/" + p.Owner.Name, p.NodeName, strconv.FormatBool(p.NodeName != "")}
	if p.Owner.Kind == "" {
		labels[2] = ""
	}
	if n == nil {
		return append(labels, "", "", "", "", "", strconv.FormatBool(p.Ready), "false")
	}
	return append(labels, n.Pool(), n.Zone(), n.Labels[model.LabelArch], n.CapacityType(), n.InstanceType(),
		strconv.FormatBool(p.Ready), strconv.FormatBool(n.Managed()))
}

// units turns our integers into Prometheus' base units: cores, bytes, counts.
func units(name string, v int64) float64 {
	if name == resource.BaseName(resource.CPU) {
		return float64(v) / 1000
	}
	return float64(v)
}
