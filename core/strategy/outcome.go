package strategy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/plugins/sdk"
)

// Outcome says how a strategy answered. Everything but OK means that its last good
// version or the built-in answered in its place.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Empty   Outcome = "empty"   // an answer came and held nothing
	Late    Outcome = "late"    // no answer within the deadline
	Invalid Outcome = "invalid" // an answer came and made no sense, or the strategy panicked
	Dead    Outcome = "dead"    // no process to ask: starting, ended, or ended during the call
	Refused Outcome = "refused" // the strategy said it will not, or asks for what this host cannot keep
)

var outcomes = []Outcome{OK, Empty, Late, Invalid, Dead, Refused}

// Call is the record of one call, for metrics and events.
type Call struct {
	Strategy string // name in the configuration, or in an annotation
	Unknown  bool   // no strategy of this name is in service: somebody made it up, or it starts
	Version  string // of the strategy that was asked, empty if none could be
	Kind     sdk.Kind
	Level    string // price, score, plan or propose
	Pools    []string
	Outcome  Outcome
	Err      error         // why, for every outcome but OK
	Fallback string        // name and version of who answered in its place, empty for OK
	FellBack []string      // of Pools, those that it answered for
	Rung     Rung          // who answered
	Took     time.Duration // of the strategy's part, fallback excluded
	Trace    string        // id of the trace that the strategy was told
	// Accepted and Declined count the moves that the strategy itself judged.
	Accepted, Declined int

	start int // of the process that was asked, by number; 0 = none
	began time.Time
}

// question is one call of some kind and level. remote puts it to a process, local to a
// strategy in this process; both check the answer and keep it, and what is kept last
// is used.
type question struct {
	problem
	remote func(context.Context, *instance) error
	local  func(context.Context, sdk.Strategy) error
	answer func() any // what was kept, which nobody changes any more; nil = it is not recorded
	// rest notes that somebody answered, and how, and is the question about what has no good
	// answer yet, nil where all has one; nil = an answer is good as a whole or not at all.
	rest  func(who string, how Outcome) *question
	limit time.Duration // less time than the strategy's call time-out allows; 0 = no less
}

func (q *question) within(timeout time.Duration) time.Duration {
	if q.limit > 0 {
		return min(timeout, q.limit)
	}
	return timeout
}

// problem is what is asked, without whom.
type problem struct {
	kind   sdk.Kind
	level  string
	serves func(*sdk.Manifest) bool // whether a process serves the level; nil = as its manifest says of the kind
	input  any                      // the request with its catalogue, which nobody changes any more
	hash   func()                   // fills in the catalogue's hash, nil = it has one
	world  *model.World             // whose waiting pods are recorded with it; nil = none are
}

func (p *problem) served(m *sdk.Manifest) bool {
	if p.serves != nil {
		return p.serves(m)
	}
	return m.Serves(p.kind)
}

// prepare makes the input fit to be sent.
func (p *problem) prepare() {
	if p.hash != nil {
		p.hash()
	}
}

// errEmpty and friends tell judge how an answer failed.
var (
	errEmpty = errors.New("the answer is empty")
	errDead  = errors.New("no process is running")
)

// MaxError is how many bytes of an error of a strategy are told.
const MaxError = 1 << 10

// shownError is an error in a strategy's words, as logs, conditions and terminals may show it.
type shownError struct{ error }

func (e shownError) Error() string { return sdk.Printable(e.error.Error(), MaxError) }

func (e shownError) Unwrap() error { return e.error }

// shown keeps nil.
func shown(err error) error {
	if err == nil {
		return nil
	}
	return shownError{err}
}

// refusal is a well-formed answer that this host cannot use.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// outcome sorts the error of a call. dead says whether the process has ended.
func outcome(err error, dead bool) Outcome {
	var answer *sdk.AnswerError
	var refused *refusal
	switch {
	case err == nil:
		return OK
	case errors.Is(err, errEmpty):
		return Empty
	case errors.As(err, &answer):
		return Invalid
	case errors.As(err, &refused):
		return Refused
	case errors.Is(err, errDead):
		return Dead
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Late
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return Late
	case codes.Canceled:
		if dead {
			return Dead
		}
		return Late
	case codes.Unavailable:
		return Dead
	case codes.Aborted, codes.Unimplemented, codes.FailedPrecondition, codes.InvalidArgument:
		return Refused
	}
	if dead {
		return Dead
	}
	return Invalid
}

// invalid wraps what is wrong with an answer.
func invalid(format string, args ...any) error {
	return &sdk.AnswerError{Err: fmt.Errorf(format, args...)}
}

// Levels of calls.
const (
	LevelPrice = "price"
	LevelScore = "score"
)
