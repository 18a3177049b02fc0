// Package resilient is a strategy for buying machines whose loss is to do little
// harm. No node holds more than a part of one workload's pods; nodes are spread
// evenly over zones, and spot nodes over spot pools, so that losing one takes a part
// that is known beforehand; and offerings that were interrupted or short of capacity
// before are priced higher, by what another interruption is thought to cost. What is
// remembered fades: after each half-life without another one it counts half as much.
//
// What comes in are market prices and the health of offerings; what goes out are
// effective prices and limits, which the engine keeps. It knows nothing of pods and
// nodes, and imports nothing but the SDK.
package resilient
