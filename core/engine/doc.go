// Package engine places pods: on nodes that exist or are on their way first, then
// on new ones, at the least total of effective prices that it can find.
//
// What comes in is a snapshot of the world and the strategies' prices; what goes
// out are placements, new nodes and, for each pod that has no place, a verdict
// that names for every pool the first filter that stood in the way. Check
// verifies a plan against the same rules by separate, plain code; Bound proves a
// price that no legal plan can go below.
//
// How it packs: pods with equal specs are grouped; offerings with equal room and
// equal rights collapse into options, and options that another one beats in price
// and room are dropped. The dual of the fractional problem (package-internal,
// bound.go) gives each pod a value, its share of the cheapest possible bill.
// Filling an option with pods then has an efficiency, value over price, that is
// at most 1; the most efficient filling is bought again and again until nothing
// is left, and the least efficient nodes are packed once more together.
//
// The package is pure: no I/O, no clock, no goroutine; the same inputs give the
// same answer. It must not be told about clients, clouds or time.
package engine
