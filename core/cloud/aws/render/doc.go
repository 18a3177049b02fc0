// Package render writes a launch as EC2 wants it: launch templates, named by a hash of what is in them, and one CreateFleet
// call of type instant that uses them.
//
// In: a cloud.Launch, the EC2NodeClass as it was resolved (its status), facts of the cluster and of the instance types. Out:
// a Request, which is stored as bytes before it is sent and sent again unchanged after a crash, or a *cloud.Error that names
// what of the class stands in the way.
//
// The package is pure: no AWS client, no clock, no I/O, though it uses the SDK's types. The same input gives the same bytes.
package render
