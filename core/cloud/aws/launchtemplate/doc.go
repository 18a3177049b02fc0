// Package launchtemplate writes what an EC2 launch template holds: image, disks, interfaces, profile, options and user data
// for one kind of instance of an EC2NodeClass.
//
// In: the class as it resolved (its status), facts of the cluster, labels and taints of the claims, the image and the type.
// Out: the template under a name that is a hash of its content, or a *cloud.Error that names what of the class stands in the
// way.
//
// The package is pure: no AWS client, no clock, no I/O. Of the SDK it uses the types alone, so that the operator's command
// can show a template without being able to call anybody. The same input gives the same bytes.
package launchtemplate
