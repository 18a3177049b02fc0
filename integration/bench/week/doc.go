// Package week plays a week of a cluster in virtual time, with core/simulate: load that
// follows the day, roll-outs, batch jobs at night, spot reclaims and a change of the image,
// once with what Weir does by default and once with first-fit and disruption by Karpenter's
// rules, and compares the bills.
//
// What comes in is a Story (size, days, seed); what goes out is, for each player, the money,
// node-hours, evictions and seconds of waiting of the report, beside how much of what was
// paid for was asked for by pods.
//
// Rules is a planner for comparison. It follows the documented rules of Karpenter v1 and uses
// the engine's packing in the place of Karpenter's scheduler; it is not for clusters.
package week
