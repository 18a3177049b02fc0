// Package workload draws the pods and the running clusters that benchmarks and load
// tests use: deterministic, and the same in every language that has splitmix64.
//
// In: the name of a workload and a shift of its seed, or the size of a cluster and the
// instance types it may have. Out: plain Kubernetes JSON, the same bytes for the same
// question. The workloads:
//
//	a  10 identical pods
//	b  1,000 pods of mixed sizes, no constraints
//	c  5,000 pods: zone spread, anti-affinity, selectors, plain
//	d  10,000 pods of mixed sizes
//	e  50,000 pods of 200 deployments with 250 identical replicas each
//
// A planner that is good on one draw only is tuned to it: measure several shifts.
//
// The package knows nothing of planners and must not import them.
package workload
