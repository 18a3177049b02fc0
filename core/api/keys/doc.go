// Package keys is the one home of every name that Weir reads from or writes to a Kubernetes object: labels, annotations,
// taints, finalizers, condition types and their reasons.
//
// In: nothing. Out: string constants and pure look-ups on them. The package imports nothing but the standard library's
// strings, so that any room may use it. It must not know about API types, clients or the clock.
package keys
