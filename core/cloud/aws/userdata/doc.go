// Package userdata writes what an EC2 instance is started with: the text that makes its kubelet join the cluster with the
// labels and taints of its claim, merged with what the user put into spec.userData of the EC2NodeClass.
//
// In: facts of the cluster, the claim's labels and taints, the class's kubelet settings and user data. Out: the text as it is
// sent (before base64), with warnings about settings of the user that will not hold, or an *Error that names the field.
//
// The package is pure: no AWS client, no clock, no I/O. The same input gives the same bytes, since the launch template is
// named by a hash of them.
package userdata
