// Package cluster is the mirror of the cluster that planning and execution read.
//
// What comes in are changes, one per object added, updated or deleted, in model
// form and in any order; what goes out is a World: claims and nodes joined by
// provider id, pods on their nodes, prices on both, claims that have been decided
// on but not yet seen. A pod bound to a node that does not exist is on no node.
//
// The mirror owns no client, no clock and no goroutine, and is used by one
// goroutine. The worlds it hands out are snapshots that never change afterwards:
// a changed node is built anew, all others are shared between snapshots, so that a
// snapshot costs one slice and the nodes that were touched since the last one.
package cluster
