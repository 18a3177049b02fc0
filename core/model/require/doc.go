// Package require is the algebra of node requirements: which values a label may
// take, as people write it in pools, claims, node selectors and affinities.
//
// What comes in are label keys with operators (In, NotIn, Exists, DoesNotExist,
// Gt, Lt, Gte, Lte) and values; what goes out are intersections, answers to "may
// this go with that", and, where it may not, the reason as a value. For the
// planner a set compiles to a bitset over the offerings of a catalogue
// (package bits): one bit per offering that satisfies every requirement.
//
// A requirement is a finite set of values or the complement of one, with optional
// inclusive integer bounds. DoesNotExist is the empty finite set; Exists the
// complement of nothing.
//
// The package is pure: no I/O, no clock, no goroutine, no package-level state.
package require
