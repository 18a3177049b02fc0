// Package access is the API server's side of core/admin: whose a token is, what its
// owner may do, and documents in ConfigMaps that all replicas see.
//
// In: tokens, users, texts. Out: the API server's answers, and changes as they happen.
// It caches nothing, never logs a token, and decides nothing by itself.
package access
