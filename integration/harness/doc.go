// Package harness gives tests a real Kubernetes control plane and the few
// helpers they all need.
//
// In: the environment. KUBECONFIG names a cluster to use as it is; otherwise
// WEIR_DEVCLUSTER is the path of the devcluster binary, which is started in a
// temporary directory and ends with the tests, even if they crash. Without
// either, tests that ask for a cluster are skipped; the Makefile sets it always.
//
// Out: clients, server-side apply, waits that end as soon as their condition
// holds and say what they last saw when it does not, and fresh namespaces.
//
// A cluster takes 6 to 12 seconds to start, so a package shares one:
//
//	func TestMain(m *testing.M) { os.Exit(harness.Shared(m)) }
//
//	func TestSomething(t *testing.T) {
//		c := harness.Cluster(t)
//		c.InstallCRDs(t, crds.FS)
//		ns := c.Namespace(t)
//		c.Apply(t, ns, deploymentYAML)
//		...
//	}
//
// Nodes, custom resources of cluster scope and CRDs are seen by all tests of a
// shared cluster: give them names or labels of the test's own, or start a cluster
// for the test alone with options. The package is for tests only; it must not be
// imported by the product.
package harness
