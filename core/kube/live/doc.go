// Package live reads a cluster as it is now, for the operator's command.
//
// In: a client configuration. Out: the load.Input that a dump of the same objects gives.
// Each kind is listed once, in pages, one after the other; nothing is watched, cached or
// written. The right to list every kind of load.ClusterKinds in the whole cluster is
// needed; Role is a ClusterRole with just these rights.
//
// It decides nothing, and leaves to core/kube/load what an object means.
package live
