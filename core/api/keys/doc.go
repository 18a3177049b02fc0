// Package keys names everything that Weir reads from or writes to a Kubernetes object: labels, annotations, taints,
// finalizers, condition types and their reasons.
//
// In: nothing. Out: string constants. Names that planning needs are defined in core/model, which knows no API, and only
// repeated here by reference; so is what is said about labels (well-known, restricted, older spellings). The package must
// not know about API types, clients or the clock.
package keys
