// Package sandbox fences a process in before it runs a program that is not trusted.
//
// What comes in is a Policy: the folder that is the program's own, what else it may
// read, its ceilings, and which of the kernel's fences to use. What goes out is a
// command that starts our own executable once more, as a trampoline: before main, in
// the init function of this package, that process takes the fences and the ceilings
// upon itself and then becomes the program, from an open descriptor. Every program
// that links this package can be the trampoline; it is recognised by its zeroth
// argument.
//
// The fences are: no new privileges and no capabilities; Landlock, for files, TCP,
// abstract sockets and signals; and a seccomp filter, for every other way out of the
// process that Landlock does not know (other sockets, connecting at all, other
// processes' memory, limits and signals, System V memory, io_uring, mounts, keys) and
// against processes of its own. Detect says which of them this kernel has.
//
// The package must not decide who is trusted; it does as it is told or fails, and a
// failed trampoline never runs the program.
package sandbox
