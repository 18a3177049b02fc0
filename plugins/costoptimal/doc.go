// Package costoptimal is the default strategy for buying machines: what counts is
// money. An offering's effective price is its market price, and each node costs a
// fee per hour on top, so that a saving of cents never buys hundreds of small
// nodes: every node brings its own root volume, daemon pods and chance of failure.
//
// What comes in are market prices by offering; what goes out are the same prices
// and the fee. It never vetoes anything and knows nothing of pods.
package costoptimal
