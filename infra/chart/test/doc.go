// Package test renders the charts with the Helm SDK and checks what comes out: against
// the values' schema, the configuration's schema, and a real API server. It is a module
// of its own so that Helm stays out of the product's.
package test
