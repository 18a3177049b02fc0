// Package disrupt plans which nodes to give back: empty ones, ones whose pods fit
// elsewhere, drifted and expired ones.
//
// What comes in is a world, the word of a consolidation strategy on each command, or
// the moves that it finds by itself, and what is in flight; what goes out is a plan
// whose commands name the nodes to remove and where each of their pods goes, and, for
// every node that stays, a reason that a person can act on. Every command is strictly
// cheaper than what it replaces, save for forced ones (expiry, drift), and no budget of
// a pool is exceeded in any wave.
//
// The package is pure: no I/O, no clock (the world carries the instant), no
// goroutine. It removes nothing and evicts nothing; core/execute does.
package disrupt
