// Package resolve finds what an EC2NodeClass stands for: subnets, security groups, images, capacity reservations, placement
// group and instance profile.
//
// In: an EC2NodeClass, and EC2, SSM and IAM as ports of the SDK's shape. Out: its new status with the documented conditions
// and reasons, how long until it should be looked at again, and the free addresses of its subnets.
//
// What AWS could not be asked now stays as it was known before: an outage makes no class unready that was ready. The package
// writes no object of Kubernetes and launches nothing. It makes and deletes instance profiles under the path of its cluster
// only.
package resolve
