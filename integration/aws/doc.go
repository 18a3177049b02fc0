// Package aws holds the tests of everything that talks to AWS, over the wire and
// against stand-ins. Its folders are the stand-ins.
package aws
