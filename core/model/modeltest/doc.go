// Package modeltest builds the nouns of core/model for tests, with values that
// limit nothing where a test does not say otherwise.
package modeltest
