// Package permit finds out by dry runs whether EC2 would let us launch from a class.
//
// What comes in is an EC2NodeClass that resolved; what goes out is a verdict with the reason of its condition
// ValidationSucceeded, or an error where EC2 gave no answer that says anything. It buys nothing, makes nothing, and remembers
// what it was told for half an hour.
package permit
