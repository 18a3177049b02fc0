// Package resource holds amounts of compute resources as plain integers.
//
// What comes in are amounts that an edge has parsed once from Kubernetes
// quantities; what goes out are sums, differences, maxima and comparisons. The
// four resources that every node has sit in a fixed order in an array, so that
// the planner's inner loops index them without a look-up; anything else
// (devices, huge pages) follows in a short list sorted by name.
//
// Units: cpu in milli-CPU, memory and ephemeral-storage in bytes, pods and
// extended resources as counts. Sums saturate at the limits of int64 instead of
// wrapping round, so a nonsensical request stays larger than any machine.
//
// The package is pure and its values are immutable by convention: methods return
// new vectors and never share a slice that they modify.
package resource
