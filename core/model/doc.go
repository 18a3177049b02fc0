// Package model holds the nouns that two rooms or more share: Pod, Node, Pool,
// InstanceType, Offering, Claim, Notice, World, Plan, Verdict.
//
// What comes in are values that an edge has built from API objects, files or
// events; what goes out are the same values, handed from room to room. The
// package knows no API types and no cloud: amounts are integers with the unit in
// the name or the comment, instants are UTC, prices are US dollars per hour with
// their source beside them.
//
// It is pure: no I/O, no clock, no goroutine. Values are shared between rooms as
// read-only snapshots; whoever wants to change one copies it first.
package model
