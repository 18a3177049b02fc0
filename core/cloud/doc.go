// Package cloud is the port to whatever sells machines.
//
// What comes in are launch requests, rendered once to bytes and sent under a
// client token, and ids of instances; what goes out are instances and errors
// sorted by kind. core/cloud/aws speaks to EC2, core/cloud/sim is an EC2 that
// behaves, for the simulator and the development cluster.
//
// The package itself holds only types; it does no I/O.
package cloud
