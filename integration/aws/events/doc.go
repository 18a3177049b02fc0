// Package events holds the test that events reach what acts on them: the rules of the
// CDK app's template, in moto's EventBridge, with queues for targets.
package events
