// Package validate answers offline what an API server with our CustomResourceDefinitions would say to an object.
//
// In: NodePool, NodeClaim and EC2NodeClass objects as decoded JSON. Out: the same objects with defaults filled in, and the
// list of what is wrong: rejected by the API server, unknown to it, or stored by it and invalid for the controller.
//
// The rules are those of infra/crds, run by the API server's own schema and CEL code, so there is one source of truth. The
// package does no I/O and has no client. It must not repeat a rule of the definitions in Go.
package validate
