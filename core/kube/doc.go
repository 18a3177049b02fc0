// Package kube is the only room that talks to a Kubernetes API server.
//
// In: a client configuration. Out: changes of the cluster in model form (Watcher),
// calls that change the cluster (Client, which is an execute.Kube), and leadership
// with an epoch (Elect).
//
// Watches keep nothing but model values: API objects are converted as they arrive
// and let go. The package decides nothing about machines or pods: it must not plan,
// and it never writes what it was not told to write.
package kube
