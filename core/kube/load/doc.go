// Package load reads manifests for the commands that work without a cluster.
//
// In: paths of files and folders, and "-" for standard input, in YAML or JSON: many
// documents, lists of any kind, JSON arrays; what people wrote by hand as well as
// what kubectl get printed. Out: an Input with pools, node classes, nodes with their
// pods, waiting pods, daemon sets and budgets in model form, and warnings for all
// that was read and is not used. Lists makes the same of the answers of an API server;
// core/kube/live asks for them.
//
// The package does what the parts of a cluster would have done: defaults and
// admission, replicas of workloads that have no pods yet, claims joined with nodes.
// What an API server would refuse is an *Error with file, document and field; what
// it would store but the controller marks invalid makes a pool unusable and is a
// warning. Equal pod specs are read and converted once and shared.
//
// It has no client and no clock, and must not plan anything.
package load
