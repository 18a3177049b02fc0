// Package convert turns Kubernetes API objects into the values of package model
// and back.
//
// In: typed objects of core/v1, policy/v1, apps/v1, karpenter.sh/v1 and
// karpenter.k8s.aws/v1, as an API server or a file gives them. Out: model.Pod,
// Node, Claim, Pool, NodeClass, DaemonSet and PDB; NodeClaim objects for claims.
//
// An error means that an amount or a field makes no sense and names the field; an
// API server would not have stored such an object. What an API server stores but
// planning cannot follow is a value of the result: Pod.Invalid, Pod.Unsupported,
// Pool.Unusable, NodeClass.Unusable.
//
// The package is pure: no client, no I/O, no clock. It decides nothing.
package convert
