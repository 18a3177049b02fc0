// Command bench measures the planners on the published workloads and clusters.
//
//	go run ./integration/bench                              # everything, to the terminal
//	go run ./integration/bench -write docs/benchmarks.md    # and into the document, the growth plot beside it
//	go run ./integration/bench -only provision -workloads d -pools cmr -shifts 10
//	go run ./integration/bench pods -w e -seed-shift 7 -o e7.json
//	go run ./integration/bench cluster -nodes 2000 -fill 0.4 -hard -o cluster.json
//
// Each case runs in a process of its own, so that its peak heap is its own, and goes
// the way of "weir simulate": manifests are read, made into a world, priced by the
// default strategy in process, planned and checked. The first solve of a process
// counts for the heap, the median of all for the time.
//
// What goes in are the workloads of package workload and the pools of measure/testdata; what
// comes out are tables. It judges nothing: a figure that is too high is printed, and
// no test depends on time.
package main
