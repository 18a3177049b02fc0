// Package direct talks to the API server without a cache: each call is a request.
// It is for programs that live for seconds, such as the interruption Lambda, which
// look at one node and never at the whole cluster.
//
// It needs: nodes get, list, patch; pods get, list; pods/eviction create; nodeclaims
// get, list, patch, delete; nodepools get; events create. Deleting pods past their
// budgets needs pods delete as well; without it such a delete is an error.
package direct
