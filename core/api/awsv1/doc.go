// Package awsv1 holds our own Go types of the group karpenter.k8s.aws, version v1: EC2NodeClass.
//
// In: JSON or YAML objects as users write them and as the API server stores them. Out: typed objects with the same
// defaults (Default), the drift hash of a class (Hash), its kubelet settings (KubeletConfig), and what the controller finds
// wrong beyond what the API server refuses (Validate). The CustomResourceDefinition in infra/crds is generated from the
// markers in this package.
//
// The package does no I/O, has no client and no clock. It must not call AWS or know what a class resolves to.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
// +versionName=v1
package awsv1
