// Package sdk is for people who write strategies for Weir in Go.
//
// A strategy is a value with three methods: Describe, Configure, and Price (a
// Pricer, for buying machines) or Score (a Scorer, for giving them back). A Planner
// also packs by itself, a Proposer also finds moves by itself. Its
// main function is one call:
//
//	func main() { sdk.Serve(&preferArm{}) }
//
// Serve does the rest: handshake, mutual TLS, negotiation of the protocol
// version, the catalogue that is sent once, conversion, and limits on messages.
// The same value also works in process, without Serve: that is how the built-in
// strategies run in the command line tool and where a process has died.
//
// What comes in is a request with everything a decision may depend on, the time
// included; what goes out are prices or verdicts. A strategy should not read a
// clock, a file or the network in Price and Score: its answers could not be
// replayed, and the host may have taken these rights away. What it writes to
// standard output or standard error ends in the host's log.
//
// The package must not import anything of Weir but plugins/proto.
package sdk
