package main

// baseline is what Karpenter's own scheduler needed and paid on the same pods, pools
// and prices, at shift 0 and without daemon pods. Measured earlier on two busy cores
// (Karpenter at commit 2266468, production options, Go 1.26.8); its wall times vary by
// up to 1.8 x. integration/peer measures them again.
type baseline struct {
	seconds  float64
	heapMB   int
	nodes    string
	usd      string
	perBound string
}

var karpenter = map[[2]string]baseline{
	{"b", "cmr"}:   {0.58, 77, "2", "17.36", "2.11"},
	{"b", "cmr32"}: {3.9, 93, "19", "9.28", "1.12"},
	{"c", "cmr"}:   {24.4, 149, "18-20", "125.6-146.3", "3.1-3.6"},
	{"c", "cmr32"}: {76, 163, "91-96", "70.6-79.9", "1.74-1.97"},
	{"d", "cmr"}:   {18.1, 205, "19", "154.55", "1.82"},
	{"d", "cmr32"}: {278, 218, "195", "99.83", "1.17"},
	{"e", "cmr"}:   {281, 733, "102", "926.12", "1.89"},
}

// karpenterDecisions is one consolidation decision of Karpenter's on clusters of the
// same kind, from the same measurement.
var karpenterDecisions = []struct {
	nodes, pods int
	fill        string
	seconds     float64
	heapMB      int
	decision    string
}{
	{100, 1095, "39 / 31%", 2.3, 115, "99 nodes replaced by one m8i.96xlarge (spot)"},
	{500, 5310, "38 / 31%", 0.92, 275, "delete 101"},
	{2000, 21901, "39 / 32%", 2.4, 840, "delete 101"},
	{500, 9208, "80 / 64%, on demand", 2.4, 352, "101 replaced by one"},
	{2000, 38271, "79 / 66%, on demand", 4.5, 1205, "101 replaced by one"},
}

// goal is what we want to reach: the price in relation to the bound, at the default
// fee per node, and the time of a solve, seconds.
type goal struct{ ratio, seconds float64 }

var goals = map[[2]string]goal{
	{"b", "cmr"}: {1.05, 0.05}, {"b", "cmr32"}: {1.05, 0.05},
	{"c", "cmr"}: {1.08, 0.25}, {"c", "cmr32"}: {1.08, 0.25},
	{"d", "cmr"}: {1.04, 0.3}, {"d", "cmr32"}: {1.04, 0.3},
	{"e", "cmr"}: {1.04, 1}, {"e", "cmr32"}: {1.08, 1},
}
