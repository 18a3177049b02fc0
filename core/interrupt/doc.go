// Package interrupt decides what interruption notices mean for a cluster. What comes
// in are events or notices and a snapshot of the cluster; what goes out are verdicts
// (what would be done to which node, until when, and why). Where the pods of a node
// that goes will run is core/interrupt/replace.
//
// Pure. It carries nothing out: the Lambda and the scaler do, by the same verdicts.
package interrupt
