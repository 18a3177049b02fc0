// Package sdktest is a kit that holds a strategy against what the host expects of
// every strategy. An author's test is one line:
//
//	func TestStrategy(t *testing.T) { sdktest.Run(t, func() sdk.Strategy { return &preferArm{} }) }
//
// What comes in is a way to make the strategy, or an executable; what goes out are
// test failures that name the rule. The checks: a legal manifest, defaults that
// work, unknown configuration refused, legal answers to the sample problem and to
// empty ones, equal answers to equal questions where the manifest promises it, and
// calls side by side. Fault injection into the host and latency on large clusters
// are not in it yet.
package sdktest
