// Package ec2front is an EC2 that behaves, over the wire: core/cloud/sim behind EC2's
// query protocol, forms in and XML out, for every operation that the AWS provider uses.
//
// In: requests of any AWS SDK, and the calls of a test that plays the world: subnets,
// images, reservations and placement groups, shortages, quotas and refusals, prices, throttling, faults, a
// clock. Out: the answers, instance states and errors that EC2 gives. What an operation
// does not know, a parameter, a filter, a value, is an error, so that no test passes
// because something was ignored.
//
// Fleets choose among their lines by strategy and by this EC2's own prices; a client token
// answers the same fleet again; instances go from pending to terminated by the clock and
// show up in answers after a while; subnets run out of addresses and get them back.
//
// Answers are held against the service's own description in a test, and golden documents
// are in testdata. The package is for tests only.
package ec2front
