// Command peer puts the same pods, pools, instance types and prices to Karpenter's own
// scheduler and to Weir, and prints both side by side.
//
//	cd integration/peer && go run .            # what ends within a minute or two
//	cd integration/peer && go run . -slow      # c and e on pool cmr as well
//	cd integration/peer && go run . -workloads d -pools cmr32
//	cd integration/peer && go run . consolidate -nodes 500 -fills 0.4
//
// The last one asks for consolidation: Karpenter's multi-node consolidation decides on a
// generated cluster, what it says is done at once (each pod where it put it, the cheapest
// machine that it allows), and it is asked again until it finds nothing. The 15 s and the
// second look between decision and act are left out, budgets are 100%.
//
// Karpenter is linked as a library (sigs.k8s.io/karpenter) in this module and nowhere
// else. It is asked the way its provisioner asks: production options, no existing
// nodes, launch lists cut to 600 types; not cut off at its 60 seconds, so that all pods
// have a chance. What a node of its would cost is the cheapest offering that its
// requirements allow, bare metal and accelerators left out where something else is
// left, as its provider for AWS does. That flatters it where a fleet takes another.
//
// Each case runs in a process of its own; the bound is Weir's for both.
package main
