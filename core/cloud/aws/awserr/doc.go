// Package awserr sorts errors of AWS by what is to be done about them.
//
// In: the error of an SDK call, or the code and message of a line in a fleet's answer. Out: a *cloud.Error with its kind and
// the reason by which people know it.
//
// Throttling is never a shortage, and what the SDK could not read is never taken for an answer.
package awserr
