// Package fakekubelet joins nodes to a cluster that has a control plane but no
// machines, so that tests and demonstrations meet the API server, the scheduler
// and the controllers of a real cluster.
//
// In: a client, and one NodeSpec per machine with what the machine reports and
// how it behaves: joins late or never, turns ready late, loses its startup
// taints, offers extended resources late, dies. Out: Node objects and leases
// that are kept fresh, and bound pods that turn Running and Ready, complete, and
// go away when they are deleted, at the pace of a real kubelet or at a chosen one.
//
// One informer and one work queue serve the pods of all nodes, so that many
// nodes cost little more than one.
//
// It must not decide anything: no scheduling, no eviction, no removal of Node
// objects. It runs no containers, mounts nothing and opens no port; ForwardPorts is
// what a kubelet's port serves of port forwarding, for who opens one. Failed calls
// are repeated and logged; nothing is dropped.
//
//	kubelets, err := fakekubelet.New(fakekubelet.Config{Client: client, Logger: log})
//	go kubelets.Run(ctx)
//	node, err := kubelets.Start(ctx, fakekubelet.NodeSpec{Name: "n1", ProviderID: "aws:///us-east-1a/i-1", Capacity: capacity})
//	<-node.Ready()
//	node.Die()       // silent from now on, as after a kernel panic
//	node.Terminate() // the instance is gone; the Node object stays
package fakekubelet
