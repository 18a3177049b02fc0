// Package artifact fetches the programs of strategies from OCI registries.
//
// In: the name of an image or artifact by digest, which program of it is meant, and
// where to put it. Out: an executable whose every byte has been held against that
// digest, or an error that says what was wrong with it.
//
// Content that was fetched before is kept in a folder and checked again before it is
// used, so that a registry that is away keeps nobody from starting what ran before, and
// nobody who writes there can change what runs. The package starts nothing and retries
// nothing: whoever asks does, with pauses of their own.
package artifact
