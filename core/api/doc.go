// Package api only says how the packages below it are generated: deep copies from the types, and the
// CustomResourceDefinitions in infra/crds from their markers. Run `go generate ./core/api` after a change of a type.
package api

//go:generate go tool -modfile=../../tools.mod controller-gen object paths=./v1 paths=./awsv1
//go:generate go tool -modfile=../../tools.mod controller-gen crd:generateEmbeddedObjectMeta=false paths=./v1 paths=./awsv1 output:crd:dir=../../infra/crds
//go:generate go run ./gen ../../infra/crds
