// Package event reads interruption events: EventBridge JSON, alone, in an array or
// in a batch of SQS messages. What goes out of an event are notices, one for each
// instance; or why there is nothing to do; or, for what cannot be read, an error
// that sends it to the dead letters. Parse errors never get better: nobody should
// try again.
//
// Pure: whether an instance is ours, and what to do about it, is core/interrupt's.
package event
