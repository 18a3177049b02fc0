// Package control decides when: it gathers waiting pods into batches, asks the
// planners in the order notice, waiting pods, disruption, validates what they say
// against the present world and hands it to the executor.
//
// The Controller is a step function: what comes in are changes of the cluster,
// results of earlier effects, notices, changes of the configuration and of
// leadership; what goes out are effects. It has no clock, no goroutine and no I/O;
// NextWake says when it wants to be called although nothing came in. One loop per
// binary drives it.
package control
