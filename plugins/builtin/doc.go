// Package builtin lists the strategies that come with Weir. What comes in is a
// name; what goes out is a fresh strategy with its defaults, for use in process or
// to be served by cmd/weir-strategy. It must not hold any strategy itself.
package builtin
