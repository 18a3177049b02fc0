// Package cases is the table of good and bad objects that both core/api/validate and a real API server must judge alike.
//
// In: the files of testdata, each with a base object and cases that change it by a JSON merge patch (RFC 7396). Out: All.
// The package must not judge anything itself.
package cases
