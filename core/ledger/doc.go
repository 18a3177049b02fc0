// Package ledger is Weir's memory: what it is about to do, what it did, what it
// learned. Objects in the cluster are the public face; the ledger is what makes a
// crash at any instruction harmless.
//
// What comes in are records with the version they were read at; what goes out are
// records, or a conflict when somebody wrote in between. Two stores implement the
// port: core/ledger/bolt (one file, one replica) and core/ledger/dynamo. One suite,
// core/ledger/ledgertest, holds for both.
//
// Expiry is housekeeping only: stores may drop expired records late, so readers
// pass the present time and never see a record that has expired.
package ledger
