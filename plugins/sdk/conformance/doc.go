// Package conformance holds a strategy against what the host expects of every
// strategy. It is what `weir strategy test` and package sdktest run.
//
// What comes in is a Target (a value in this process, an executable, or a socket)
// and options; what goes out is a Report: one Result for each check, with reasons
// where it failed. A strategy that cannot be started is a failed check, not an
// error: errors are for what the caller has to mend.
//
// The kit starts executables as the host does (handshake, mutual TLS, empty
// environment), but without the host's isolation, and it plays the host's bad days:
// calls that are cancelled, a catalogue that is not known, messages that are no
// messages or too large, many calls at once, a process that is stopped or killed.
//
// The package must not import anything of Weir but plugins/proto and plugins/sdk,
// and must not depend on package testing.
package conformance
