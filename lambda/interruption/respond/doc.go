// Package respond handles interruption events where no controller need be alive:
// read, remember, taint, drain, within the time that an invocation has. What comes in
// is what a Lambda is invoked with; what goes out are changes of one node, its claim
// and its pods through the ports declared here, and the messages that must come again.
//
// It taints every node of a batch before it evicts from any. The ledger is asked and told
// beside the work: a taint waits half a second for it at most, an eviction not at all. Everything it does is
// idempotent: the same event once more finds the node tainted, the claim annotated
// and deleted, and only the pods that are still there. It never buys anything; the
// scaler, when it lives, replaces the pods at the same time and drains by the same
// steps beside it.
package respond
