// Package cluster reaches one EKS cluster and keeps in it what is not Helm's to keep:
// the custom resource definitions and the namespace of the release.
//
// In: where the API server is. Out: a client configuration whose token is presigned
// for STS and which is fenced: once the context of the run has ended it lets no request
// through, so that a run whose failure was already told can change nothing any more.
//
// Definitions are applied server-side and never deleted: with one would go every object
// of its kind, and with a NodeClaim its machine. One that is installed and is not ours,
// is newer, has fields that ours lacks, or was edited since it was applied, is left alone;
// the chart of the definitions decides that. They are in no release, so that no uninstall
// and no rollback of one can reach them; they are annotated as if they were, so that the
// chart of the definitions, installed by hand, takes them over.
//
// A namespace is deleted only if it was made here and nothing of anybody's is in it.
package cluster
