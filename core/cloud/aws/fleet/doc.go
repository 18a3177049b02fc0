// Package fleet buys, ends and lists the instances of a cluster on EC2.
//
// In: rendered launch requests under a client token, instance ids. Out: instances and errors as package cloud has them.
//
// It keeps the names of the launch templates that it has seen and nothing else: what was bought is known by its tags. Only
// instances and templates that carry the tags of the cluster are listed, and nothing else is ever ended or deleted. It
// decides neither what to buy nor when to try again.
package fleet
