// Package e2e holds tests that need a real Kubernetes control plane; integration/harness finds or starts it.
//
// In: KUBECONFIG or the devcluster binary, from the environment; without either the tests are skipped. Out: nothing. The
// package must not hold code that other packages use.
package e2e
