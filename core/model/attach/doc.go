// Package attach counts the volumes that a node can have attached, as resources that
// pods ask for and nodes offer.
//
// In: the requests of pods, in which package convert has put one unit of
// attachable-volumes.weir.dev/<driver> per volume; what nodes report of their drivers;
// the labels of instance types. Out: nodes and offerings with the same resource among
// their allocatable, so that packing, moves and checks need no rule of their own.
//
// The amounts exist in snapshots only. They never stand in an object of the cluster:
// whoever writes requests down leaves them out with Strip.
//
// Two rules err on the side of too few pods on a node. A claim that several pods of a
// node share is counted once per pod. And what a machine that does not run yet can hold
// is what nodes of the same type have reported, else a cautious formula: see Slots.
//
// It does no I/O and knows no objects of the API.
package attach
