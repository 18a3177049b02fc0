// Package execute carries plans out; nothing else changes the world.
//
// The Executor is a step function: what comes in are plans, what was observed
// (through the mirror of core/cluster) and the results of earlier effects; what
// goes out are effects, values that say what to do next. It has no clock, no
// goroutine and no I/O, and may be driven in virtual time. Perform does one
// effect against the ports declared here; the thin loop of a binary, or the
// simulator, decides when.
//
// Promises kept here: intent is written before the act; one claim never buys two
// instances; a claim that was deleted is never resumed; no eviction against a
// PodDisruptionBudget or karpenter.sh/do-not-disrupt save where v1 lets the
// deadline win; nothing that is not ours is touched.
package execute
