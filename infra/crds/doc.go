// Package crds carries the CustomResourceDefinitions of NodePool, NodeClaim and EC2NodeClass inside the binaries.
//
// In: the YAML files of this folder, which `go generate ./core/api` writes; do not edit them. Out: FS. The package must not
// parse or apply them.
package crds
