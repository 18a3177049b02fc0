// Package admin is the interface for operators of strategies: what a scaler's
// strategies do, what they said, and how one is swapped for another.
//
// In come requests with a bearer token, the state of the strategy host and its log
// lines; out go answers in JSON and, for a swap, a change of the desired state, which
// is a document that all replicas watch. The interface itself starts and stops nothing:
// who watches the document applies it, so that a leader that comes later arrives at
// the same strategies.
//
// Whose a token is and what its owner may do is asked of a Reviewer for every request;
// tokens are neither kept nor logged. Only the leader answers, others say who leads.
// The package talks to no API server itself, and decides nothing about pods or nodes.
package admin
