// Package interrupt decides what interruption notices mean for a cluster. What comes
// in are events or notices and a snapshot of the cluster; what goes out are verdicts
// (what would be done to which node, until when, and why) and plans that find new
// places for the pods of the nodes that will be gone.
//
// Pure. It carries nothing out: the Lambda and the scaler do, by the same verdicts.
package interrupt
