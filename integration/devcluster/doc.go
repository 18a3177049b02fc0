// Command devcluster runs a real Kubernetes control plane on one machine, with
// nothing to install: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler are linked into this one binary, which re-executes itself once
// per component. There is no kubelet; nodes are joined by the fake kubelet of
// the main module (integration/fakekubelet).
//
// In: flags of "devcluster up". Out: certificates, kubeconfigs, logs and pid
// files in the state directory, and one line on stdout once pods can be created
// and scheduled:
//
//	READY kubeconfig=<path> url=<url> after 7.4s
//
// It is for tests and demonstrations. Everything listens on 127.0.0.1, etcd does
// not sync to disk, and the state directory is thrown away by the next start
// unless --keep-data is given. It must not be used for data that matters.
//
// It is a module of its own because k8s.io/kubernetes needs replace directives,
// which count in a main module only, and brings some 2500 packages along that
// users of the product must not carry. Build it once and keep the binary: tests
// of the main module find it through the environment variable WEIR_DEVCLUSTER.
package main
