// Package archive lists a ledger, shows its records, and carries them from one store
// to another.
//
// What comes in is a store and who is asked about; what goes out is text, or an
// archive: JSON lines, of which the first says what it is and each other one is a
// record. It works with every store: one that can list its partitions is read whole,
// from any other (DynamoDB, where nobody has the right to scan) come the partitions
// that the scope names. Versions stay behind: they order the writes of one store only.
package archive
