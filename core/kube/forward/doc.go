// Package forward reaches the leading scaler of a cluster from outside of it, the way
// kubectl port-forward does, with the token of the kubeconfig's user.
//
// In: a kubeconfig, the lease that the leader holds, a port. Out: an HTTP client. It
// reads one lease, opens one pod's port, asks for a token where it is told to, and
// changes nothing. It carries no clientset: the operator's command stays small.
package forward
