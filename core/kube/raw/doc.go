// Package raw makes the client of the operator's command: one that asks the API server
// for JSON, without a clientset and what that links.
//
// In: a kubeconfig. Out: its configuration, and a client for requests by path whose
// errors say what the API server said. Nothing is sent before a request is made.
package raw
