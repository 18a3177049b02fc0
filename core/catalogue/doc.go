// Package catalogue knows what can be bought: instance types, zones, capacity
// types, their prices with the source of each, and how much of a machine is left
// for pods under a node class.
//
// What comes in is a table of instance facts (the embedded one, or a file of the
// same format), a node class and the zones; what goes out are offerings, in an
// order that depends only on the inputs. Where a table names no prices of its own,
// on-demand prices are the list prices and spot prices are synthetic: a fixed
// made-up fraction of the list price, and marked as such.
//
// The package is pure: it reads no files and no clock. Values are shared and
// read-only.
package catalogue
