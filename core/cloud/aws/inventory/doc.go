// Package inventory reads what can be bought in a region: instance types, the zones that have them, and prices.
//
// In: EC2 and the price list as ports of the SDK's shape. Out: a catalogue.Table whose types carry the labels that nodes will
// have and an offering for each zone and capacity type, each price with its source.
//
// Facts that no API tells (network bandwidth, branch interfaces) come from the embedded table, and so do list prices where
// the price list cannot be asked. A question that fails leaves the earlier answer in force. The package decides nothing about
// what may be bought now: shortages are the ledger's.
package inventory
