// Package oracle asks the real kube-scheduler whether plans hold.
//
// In: a seed. It draws a cluster that uses every scheduling rule: pools, nodes with
// pods, volumes, daemonsets and 20 to 200 waiting pods. The objects are made in a real
// API server, read back, and planned for by the product's own code. Then the planned
// nodes are made as Node objects, and kube-scheduler binds the pods.
//
// Out: the disagreements. A pod that the plan places must bind, to a node that the plan
// bought or to one that was there. A pod that the verdict calls impossible must not bind
// when one empty node of every shape that the pools allow is there.
//
// How the pods are let go decides what is asked. Free: as they would be in a cluster,
// by priority, then age; kube-scheduler takes the node that it scores best, so pods that
// were packed tightly may get into each other's way. Nominated: each pod carries its
// planned node in status.nominatedNodeName, which kube-scheduler tries first, with all
// of its filters; what does not bind then is not legal. A draw that does not hold freely
// is asked again with nominations.
//
// Consolidation is asked the same way: the end of a plan is made, the moved pods are let go
// with their planned nodes, and every one of them must bind.
//
// Nodes have no kubelet: the controllers that would miss it are not started, and a small
// provisioner makes the volumes that pods wait for. The package is for tests only.
package oracle
