// Package v1 holds our own Go types of the group karpenter.sh, version v1: NodePool and NodeClaim.
//
// In: JSON or YAML objects as users write them and as the API server stores them. Out: typed objects with the same
// defaults (Default), the drift hash of a pool (Hash), and what the controller finds wrong beyond what the API server
// refuses (Validate). The CustomResourceDefinitions in infra/crds are generated from the markers in this package.
//
// The package does no I/O, has no client and no clock. It must not decide anything about scheduling or disruption.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
