// Package claim is the life of a NodeClaim as a step function:
//
//	planned → launched → registered → initialized → draining → terminating → gone
//
// What comes in is what is known of one claim at an instant: its object, the Node
// objects with its provider id, its pool, and how far its ending has come. What
// goes out are patches for claim and node, a wish to delete, drain, terminate or
// look again, and the events that tell about it. Conditions, reasons and timeouts
// are those of karpenter.sh/v1.
//
// Step is pure and level-triggered: it says what is missing now, so that a result
// that was lost is asked for again.
package claim
