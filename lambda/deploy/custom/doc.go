// Package custom speaks CloudFormation's protocol of custom resources for the release
// of Weir's chart.
//
// In: an event. Out: one PUT of an answer to the event's ResponseURL, whatever happens:
// properties that are wrong, a failure, a panic, a run that would outlive its function.
// What is done about an event is a Deployer's; it gets checked properties and a context
// that ends in time for the answer.
//
// The physical id names the cluster. So another cluster is a replacement, which
// CloudFormation ends by deleting the old one, and everything else is an update in
// place. A create that was refused before anything was done has an id of its own, by
// which the delete that follows it is known to have nothing to do.
//
// The package must not know of Helm, Kubernetes or registries, and must not log an
// event: its URL is a credential, and its values may hold some.
package custom
