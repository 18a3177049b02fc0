// Package dynamo keeps the ledger in one DynamoDB table, which scalers and Lambdas of
// an account share.
//
// What comes in are the records of core/ledger; what goes out are records, a conflict,
// or ledger.ErrUnavailable around what AWS said. A record is one item:
//
//	pk, sk       S  partition and sort of its key
//	version      N  1 with the first write, then one more each time
//	data         S  the record as JSON
//	instance     S  the instance it is about; the index "instance" finds it by that
//	until        N  nanoseconds since 1970 from which on no reader sees it
//	expires      N  seconds since 1970 after which DynamoDB may remove it
//	write        S  id of the write that made it so
//	writeBefore  S  id of the write before
//
// Every write is one conditional update, or one transaction of them. A write whose
// answer was lost is sent again under the same id: the condition then fails, the item
// carries the id, and so the write is known to have been done. Nothing that it does not
// know is removed from an item, so releases of one major schema share a table.
//
// Reads by key and lists of a partition are strongly consistent. The index is not (AWS
// has no such read of it): a record written within the last moments may be missing in
// ByInstance.
//
// Every answer that is no conflict and no refused item counts as the store being away:
// throttling, an outage, a network that is cut, expired credentials, a right that was
// taken. Weir then goes on without it; the cause is in the error.
//
// It makes no table (infra/cdk does) and needs no right to change, scan or list one.
package dynamo
