// Package savings is the default strategy for giving machines back: money saved
// against pods moved.
//
// A move's score is the money it saves while its nodes would have lived, an hour at most
// unless more is asked for, divided by what its disruption is held to cost: an amount for
// each evicted pod, more where it has a deletion cost, a high priority, was started a
// moment ago or starts with difficulty, and a tenth of that for the move itself. What is
// paid anyhow when the nodes are gone is not saved, but for empty ones, which go all the
// same. A move under the floor is refused, so that pods do not move for cents; with a
// floor of 0 nothing that saves money is refused. Moves for reasons that are not about
// money (Drifted, Expired, Unhealthy) are always accepted.
//
// What comes in are moves that the host enumerated and found legal; what goes out
// is a verdict and a score for each. It sees no pods, only sums over them.
package savings
