// Package ecr has the credentials of ECR's private registries, for whoever fetches from them.
//
// In: credentials of AWS, as the SDK finds them, and the name of a registry. Out: user and
// password, asked for when needed and kept until shortly before they end. They are neither
// logged nor part of errors. It fetches nothing.
package ecr
