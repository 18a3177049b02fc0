// Package examples is empty: the folders below it are strategies to read, to run and
// to start from. README.md says what each does.
package examples
