// Package firstfit is a strategy for buying machines that comes near to how
// Karpenter buys, for people who move from it and for comparisons: each node takes
// as many of the waiting pods as the largest machine that the pool allows can hold;
// among the machines that hold these pods the cheapest at market price is bought.
//
// It is near, not equal. The order of pods, the grouping of equal ones and the cut
// to 60 instance types are the engine's own, and the launch names the engine's
// alternatives. There is no fee per node: few large nodes come from the packing.
//
// What comes in are market prices; what goes out are the same prices with the
// request to fill the largest machine first. It has no configuration.
package firstfit
