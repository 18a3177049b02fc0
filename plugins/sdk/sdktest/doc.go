// Package sdktest is for the tests of a strategy. The conformance kit is one line:
//
//	func TestStrategy(t *testing.T) { sdktest.Run(t, func() sdk.Strategy { return &preferArm{} }) }
//
// and a test of what the strategy decides takes a Harness, which runs it in the same
// process as the test but speaks to it over the wire:
//
//	h := sdktest.New(t, &preferArm{}, `{"discount": 0.5}`)
//	req := sdk.SamplePrice()
//	if got := sdktest.Cheapest(req, h.Price(req), 0); got != "m6g.xlarge us-east-1a spot" { ... }
//
// What comes in is a strategy, or an executable; what goes out are test failures that
// name the rule. The checks are those of package conformance.
package sdktest
