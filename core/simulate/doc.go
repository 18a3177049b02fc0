// Package simulate runs a cluster in virtual time: an API server with finalizers,
// workloads, a scheduler, kubelets and an EC2 (core/cloud/sim), driven by the
// very controller and executor that scale a real one.
//
// What comes in are the objects to start with, a scenario of timed steps and the
// strategies; what goes out are the happenings as they happen, each with its
// reason and price, and a report with the bill. One queue of events, no
// goroutines, no wall clock: the same inputs give the same report, byte for byte.
//
// The package must not decide anything about nodes by itself: whatever is bought,
// drained or given back is the work of core/control and core/execute. It differs
// from cmd/weir-scaler only in the loop that performs the effects, and in that a
// stored notice stands in for the interruption Lambda.
package simulate
