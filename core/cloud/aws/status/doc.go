// Package status asks EC2 how instances are: failed status checks, and maintenance that is planned. It hears of both where no
// event is delivered.
//
// In: DescribeInstanceStatus as a port of the SDK's shape. Out: notices of kind status (the machine is broken and cannot take
// part in a drain) and scheduled (there is time). It does not know whose an instance is, and does nothing about it.
package status
