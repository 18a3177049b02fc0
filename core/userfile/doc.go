// Package userfile opens and reads files that a person named: configurations, lock files,
// manifests, records.
//
// In: a path, and how many bytes of it are read at most. Out: the open file or its content,
// or an error that says what the path is instead. Folders, devices and sockets are refused.
// A pipe is read, as of a shell's <(command), while somebody writes to it.
//
// The package must not know what is in the files.
package userfile
