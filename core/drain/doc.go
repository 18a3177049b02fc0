// Package drain empties a node, one step at a time.
//
// What comes in is what is known of a node, its pods and their budgets at an
// instant, and the answers that earlier evictions got; what goes out is what to do
// next: the cordon, pods to evict, pods to delete because a deadline wins, who is
// in the way and why, and when to ask again.
//
// Step is a pure function of its arguments and the state it is given. It has no
// clock and no I/O. The scaler and the interruption Lambda drive the same steps
// beside each other: everything asked for is idempotent, and a state that is lost
// is started afresh with nothing worse than one early retry.
package drain
