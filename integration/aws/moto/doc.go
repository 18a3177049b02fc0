// Package moto runs moto, somebody else's reading of AWS's protocols, as a stand-in
// for tests.
//
// In: WEIR_MOTO, the path of a Python with moto in it (`make moto` makes one in .cache
// from requirements.txt). Without it the tests that ask for moto are skipped; the
// Makefile sets it always.
//
// Out: an address that answers as AWS does, through a proxy of ours that lets one
// request at a time through (moto has no locks of its own), that counts calls, and that
// throttles, fails, cuts the connection before or after the work, or is away, as a test
// wishes. Both end with the test binary, even if it crashes.
//
// What moto cannot do is in integration/aws/README.md. The package is for tests only.
package moto
