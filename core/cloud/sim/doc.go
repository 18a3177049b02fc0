// Package sim is an EC2 that behaves: it sells machines from a catalogue, honours
// client tokens, runs out of capacity, throttles, reclaims spot instances with a
// two-minute notice, lags behind in its listings, and keeps a bill.
//
// What comes in are the calls of cloud.Provider and the control calls of whoever
// plays the world: set a capacity, lose an answer, reclaim an instance. What goes
// out are the same answers, instance states and errors that the real service
// gives, EventBridge events as JSON, and the bill.
//
// Time comes from the clock function of the configuration and nothing happens by
// itself: each call first lets everything happen that is due by that clock. In
// virtual time the caller moves its clock to NextAt and calls Advance; in real
// time a ticker does. The same seed, clock and calls give the same ids, choices
// and events.
//
// Handler puts an EC2 behind HTTP and Dial is the provider on the other side, so
// that the machines survive the death of whoever bought them. The package must
// not know Kubernetes, and must not sleep: the latency of a call is the
// business of the front that serves it.
package sim
