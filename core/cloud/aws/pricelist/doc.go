// Package pricelist reads on-demand prices from the price list of AWS.
//
// In: a region, and GetProducts as a port of the SDK's shape. Out: USD per hour (CNY in China) by instance type, Linux, shared
// tenancy; bare metal by its dedicated price.
//
// An entry that cannot be read is an error that names it, never a price of nothing.
package pricelist
