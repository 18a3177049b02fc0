// Package ledger tests the ledger on DynamoDB over the wire: the suite of all stores,
// the table's shape and schema, and what AWS may answer. A moto of its own keeps it
// apart from tests that hold theirs for seconds.
package ledger
