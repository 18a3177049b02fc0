// Package machines joins a fake kubelet to a cluster for every instance of a
// simulated EC2, and ends it with the instance.
//
// In: the EC2 of core/cloud/sim, the fake kubelets of integration/fakekubelet, and
// how the next machines behave: join late, never, or die. Out: Nodes with the
// labels, taints and amounts that the launch asked for. As the cloud controller
// manager of a real cluster does, it deletes the Node object of an instance that is
// gone; and it hands the events of EC2 to whoever should receive them.
//
// It must not decide what is bought or drained.
package machines
