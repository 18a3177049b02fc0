// Package capacitymix is a strategy for buying machines at the lowest price that
// leaves a mix as it is wanted: at least 30% of the vCPUs on demand and the rest as
// spot, say. A part is a selection of offerings by the labels of their nodes, with
// the least and the greatest share that it is to have of all nodes of the pool,
// running and new.
//
// What comes in are market prices; what goes out are the same prices, a fee for each
// node, and the shares as limits, which the engine keeps. It knows nothing of pods,
// and imports nothing but the SDK.
package capacitymix
