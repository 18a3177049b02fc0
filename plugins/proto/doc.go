// Package proto is the module of Weir's strategy protocol: what goes over the
// wire between the host and a strategy, as protobuf files and the Go code
// generated from them.
//
//	weir/strategy/v1            Describe and Configure, catalogue, pools: used by every strategy
//	weir/instanceselection/v1   Price, Plan
//	weir/consolidation/v1       Score, Propose
//
// The packages have their own versions, so that one contract can get a second
// major version while the other stays. Within a major version changes are
// additive only: released.binpb is the protocol as it was last released, and a test
// and make verify refuse what is no longer as it is there. The module depends on grpc and protobuf and nothing else; a
// strategy in another language needs the .proto files alone.
package proto
