// Package executetest is a small cluster that behaves, for tests of the executor
// and of control: an API server with finalizers, graceful deletion, budgets and
// garbage collection by owner; kubelets on the machines of core/cloud/sim; a
// scheduler that binds what fits; workloads that keep their replicas. Everything
// runs in virtual time, in one goroutine.
//
// It is no simulator: core/simulate answers what a cluster costs over a day. This
// one exists to be small, to be stopped between any two effects, and to be started
// again with nothing but objects, ledger and cloud.
package executetest
