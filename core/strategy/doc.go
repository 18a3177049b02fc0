// Package strategy hosts strategies: it asks them for prices and for verdicts on
// moves, and always has an answer.
//
// What comes in is a configuration (which strategies there are, which is bound
// where) and, for each call, a world. What goes out are model.Prices and
// model.MoveScore, with the name of who answered and how it went; from strategies that
// decide by themselves, drafts of nodes and proposals of moves. A strategy with a
// path runs as a process of its own through hashicorp/go-plugin over gRPC: its
// executable is opened once, hashed, held against the pin and executed from a
// private copy; its environment is empty but for an allow-list; calls have
// deadlines; it is restarted with back-off; its death ends its children and ours
// ends it. Whatever it answers is checked before it is used. Where it is dead, late
// or wrong, a built-in strategy answers in process within the same batch and the
// outcome says so.
//
// A new configuration is taken into service between two plans, once every process
// that it needs has started, described and configured itself and answered a sample
// problem and the last ones that there were; until then the one before goes on. Where
// there is none before, the built-in answers meanwhile. What took another's place is on
// probation: it is rolled back when too many of its calls go wrong, or when its plans
// are dearer by more than a margin. The version before is the second rung of the ladder.
//
// Beside the calls, and never in their way, they are recorded in files that can be
// replayed, and shadows are asked what they would have answered.
//
// The package must not decide anything about pods or nodes, and must not fail a
// batch because of a strategy.
package strategy
