// Package provision is the planner for waiting pods.
//
// What comes in are a snapshot of the world with the pods that wait, and the
// strategies' prices; what goes out is a plan: pods for nodes that exist or are on
// their way, nodes to buy with their alternatives, and a verdict for each pod that
// has no place. The plan has been checked by engine.Check before it leaves.
//
// The package is pure and executes nothing.
package provision
