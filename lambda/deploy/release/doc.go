// Package release installs, upgrades, repairs and removes one release of a chart with
// Helm's SDK.
//
// In: a chart, values, a cluster. Out: the release as Helm keeps it, so that helm list,
// history and get work on it.
//
// A run may be ended at any instruction, by the time limit of a function say, and leaves
// a release that Helm calls pending or half removed and refuses to touch. The next run
// repairs it first: one that was never deployed is removed and installed anew, one that
// was is put back to what was deployed last.
//
// A chart that would give Helm a definition, a NodePool, a NodeClaim, an EC2NodeClass or
// a namespace to delete is refused: none of those may go with a release.
package release
