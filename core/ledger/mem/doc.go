// Package mem keeps a ledger in memory: for the simulator and for tests. What goes
// in is copied, what comes out is a copy. It forgets everything with the process,
// so nothing that buys real machines may use it. Safe for concurrent use.
package mem
