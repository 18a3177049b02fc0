// Package capacitymix is a strategy for buying machines at the lowest price that
// leaves a mix as it is wanted: at least 30% of the vCPUs on demand and the rest as
// spot, say. A part is a selection of offerings by the labels of their nodes, with
// the least and the greatest share that it is to have of all nodes of the pool,
// running and new.
//
// A base comes before the shares: so many nodes, or vCPUs, on demand before any spot. In
// nodes it is bought by price, because nobody knows before the plan how many nodes there
// will be: the nodes that are missing cost less on demand than as spot. In vCPUs it is a
// least share of what runs and waits, all of which is taken to come to the pool. Both are
// aims, as every least share is.
//
// What is paid for anyhow is bought first, up to what is left of it and up to an amount:
// it is priced at a part of the market, in the order in which the request tells the
// commitments. A node that a commitment covers does not count for the base of the same
// plan, but it does for that of the next.
//
// What comes in are market prices, commitments and what runs; what goes out are prices in
// steps, a fee for each node, and the shares as limits, which the engine keeps. It knows
// nothing of pods, and imports nothing but the SDK.
package capacitymix
