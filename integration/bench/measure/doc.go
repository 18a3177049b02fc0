// Package measure puts one question to the planners, the way "weir simulate" does, and
// tells what the answer costs: in dollars, seconds, and bytes.
//
// In: a Question that names a workload or a cluster, and a pool. Out: an Answer. A
// question is best answered by a process of its own (Apart and Serve), since a peak
// heap is one of a process.
//
// It must not judge: whether a figure is good is for its readers.
package measure
