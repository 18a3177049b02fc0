// Package strategy hosts strategies: it asks them for prices and for verdicts on
// moves, and always has an answer.
//
// What comes in is a configuration (which strategies there are, which is bound
// where) and, for each call, a world. What goes out are model.Prices and
// model.MoveScore, with the name of who answered and how it went. A strategy with a
// path runs as a process of its own through hashicorp/go-plugin over gRPC: its
// executable is opened once, hashed, held against the pin and executed from a
// private copy; its environment is empty but for an allow-list; calls have
// deadlines; it is restarted with back-off; its death ends its children and ours
// ends it. Whatever it answers is checked before it is used. Where it is dead, late
// or wrong, a built-in strategy answers in process within the same batch and the
// outcome says so.
//
// A new configuration is taken into service between two calls, once every process
// that it needs has started, described and configured itself and answered a sample
// problem; until then the one before goes on. Where there is none before, the
// built-in answers meanwhile.
//
// The package must not decide anything about pods or nodes, and must not fail a
// batch because of a strategy.
package strategy
