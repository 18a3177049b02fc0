// Package headroom says how far the heap of a command may grow between two garbage collections.
//
// What comes in is how much the process holds after it has read its input; what goes out is the collector's setting: a small heap
// may grow by up to four times, for collecting it again and again takes a fifth of the time of a plan, and a large one no more than
// Go has it by default. A setting of the user's own (GOGC) is left alone.
//
// It is for commands that end after one answer, and neither frees anything nor limits what a process uses.
package headroom
