// Package live brings core/config what it needs from outside: the file, the
// environment, the flags of a command, and changes of the file while running.
package live
