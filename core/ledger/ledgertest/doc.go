// Package ledgertest is the suite that every ledger store passes. A store's own test
// calls Run with a way to make an empty store and, where the store outlives its
// process, a way to open it again.
package ledgertest
