// Package replace finds new places for the pods of nodes that interruption notices
// take. What comes in are notices and a snapshot; what goes out is a plan in which
// those pods were waiting. Pure. It is apart from core/interrupt because the Lambda,
// which drains and plans nothing, does not link the engine.
package replace
