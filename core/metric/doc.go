// Package metric is everything Weir tells Prometheus. Names that begin with
// karpenter_ mean what they mean there, so that dashboards keep working; what is new
// begins with weir_. What comes in are calls of those who did something and, for the
// gauges of nodes, pods and pools, the last snapshot of the cluster, which is read
// when Prometheus asks. Nothing here decides anything.
package metric

//go:generate go test -run TestReference . -update
