// Package weircdk has the parts of Weir's stack as constructs that another CDK app can
// use one by one: LedgerTable, Interruption with its Alarms, ScalerRole, NodeRole,
// Network, DiscoveryTags, Release, which installs the charts, and Cluster, a new one.
// NewStacks puts them together for one EKS cluster.
//
// In: Config, read from CDK context by ReadConfig. Out: CloudFormation resources. The
// package makes no AWS call and looks nothing up: everything it must know of the
// cluster is handed to it, so that a template can be made anywhere.
//
// What the stack does not do yet is in Gaps; the same list is in the stack's README,
// and is told at each synthesis. A change that closes a gap removes it there.
//
// No statement allows an action "*". One whose resources are patterns says why, in the
// metadata of its policy and to cdk-nag; a test holds both.
package weircdk
