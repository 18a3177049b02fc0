// Package bolt keeps a ledger in one file, for a scaler with one replica and no
// Lambda. Every write is on disk before it is answered. The file is locked while it
// is open: a second process gets ErrLocked at once, never a shared file.
//
// Records are JSON under partition NUL sort, so that a partition is a range in the
// file and lists come out in order; a second bucket finds them by instance id. Safe
// for concurrent use; writers wait for each other.
package bolt
