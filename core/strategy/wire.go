package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/plugins/sdk"
)

// sendTimes is how many times as long as a call the sending of a catalogue may take.
const sendTimes = 5

// keptHashes is of how many catalogues an instance remembers that they were taken or refused.
const keptHashes = 16

// allowance is the time for the answers to one question. What it takes to send a catalogue
// is not in it: that has time of its own.
type allowance struct {
	left, sending time.Duration
	part          *allowance // that this one is a part of, nil = none
}

type allowanceKey struct{}

// allow gives a question so much time, and no more than a question has that it is part of.
func allow(ctx context.Context, limit time.Duration) context.Context {
	a := allowanceOf(ctx)
	if a != nil {
		limit = min(limit, a.left)
	}
	return context.WithValue(ctx, allowanceKey{}, &allowance{left: limit, sending: sendTimes * limit, part: a})
}

// apart gives one of several who are asked at the same time as long as all have.
func apart(ctx context.Context) context.Context {
	a := allowanceOf(ctx)
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, allowanceKey{}, &allowance{left: a.left, sending: a.sending})
}

// use takes time away, here and from what this is a part of.
func (a *allowance) use(d time.Duration) {
	for ; a != nil; a = a.part {
		a.left -= d
	}
}

func allowanceOf(ctx context.Context) *allowance {
	a, _ := ctx.Value(allowanceKey{}).(*allowance)
	return a
}

// within makes a call with the time that is left. Calls of one question come one after the other.
func within(ctx context.Context, call func(context.Context) error) error {
	a := allowanceOf(ctx)
	if a == nil {
		return call(ctx)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.left)
	defer cancel()
	defer func() { a.use(time.Since(began)) }()
	return call(ctx)
}

// withCatalogue makes sure that the process holds the catalogue, and sends it once
// more should the process say that it does not.
func (in *instance) withCatalogue(ctx context.Context, c *sdk.Catalogue, call func(context.Context) error) error {
	if err := in.send(ctx, c, false); err != nil {
		return err
	}
	err := within(ctx, call)
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	if err := in.send(ctx, c, true); err != nil {
		return err
	}
	return within(ctx, call)
}

// send sends a catalogue that the process does not hold. One that it has refused is not
// sent again; one that is not taken in time is errSlow.
func (in *instance) send(ctx context.Context, c *sdk.Catalogue, again bool) error {
	if a := allowanceOf(ctx); a != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.sending, errSlow)
		defer cancel()
	}
	select {
	case in.sending <- struct{}{}:
		defer func() { <-in.sending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if why, refused := in.refused[c.Hash]; refused {
		return why
	}
	if slices.Contains(in.held, c.Hash) && !again {
		return nil
	}
	err := in.client.Configure(ctx, nil, c)
	if err == nil {
		in.held = append(slices.DeleteFunc(in.held, func(h [32]byte) bool { return h == c.Hash }), c.Hash)
		in.held = in.held[max(0, len(in.held)-keptHashes):]
		return nil
	}
	err = fmt.Errorf("sending the catalogue: %w", err)
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return fmt.Errorf("%w: %w", errSlow, err)
	case refusesForGood(err):
		if in.refused == nil || len(in.refused) >= keptHashes {
			in.refused = map[[32]byte]error{}
		}
		in.refused[c.Hash] = err
	}
	return err
}

// errSlow ends the sending of a catalogue: the process is taken for hung.
var errSlow = errors.New("it did not take the catalogue in time")

// refusesForGood says that the same catalogue would be refused again.
func refusesForGood(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented, codes.OutOfRange:
		return true
	}
	return false
}

// laidOut is how a catalogue is cut for the wire.
func (in *instance) laidOut(c *sdk.Catalogue) *shelves {
	in.laying.Lock()
	defer in.laying.Unlock()
	for _, s := range in.laid {
		if s.whole.Hash == c.Hash && len(s.whole.Offerings) == len(c.Offerings) {
			return s
		}
	}
	s := newShelves(c)
	in.laid = append(in.laid, s)
	in.laid = in.laid[max(0, len(in.laid)-keptShelves):]
	return s
}

// price asks for prices and checks the answer. Where the answer is good for some pools, it
// comes with an error of type *partly.
func (in *instance) price(ctx context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	cuts, err := in.laidOut(req.Catalogue).cutPrices(req)
	if err != nil {
		return nil, err
	}
	out, faults := &sdk.PriceAnswer{Pools: make([]sdk.PoolPrices, len(req.Pools))}, map[int]error{}
	var ended error
	for _, c := range cuts {
		var ans *sdk.PriceAnswer
		if err = ended; err == nil {
			ans, err = in.priceCut(ctx, c.req)
		}
		for i, pool := range c.pools {
			if fault := faultOf(err, i); fault != nil {
				faults[pool] = fault
				continue
			}
			out.Pools[pool] = c.shelf.prices(ans.Pools[i])
		}
		if ends(err) {
			ended = err
		}
	}
	if len(req.Pools) == 0 {
		return out, err
	}
	return out, inPart(faults, len(req.Pools))
}

func (in *instance) priceCut(ctx context.Context, req *sdk.PriceRequest) (*sdk.PriceAnswer, error) {
	var ans *sdk.PriceAnswer
	err := in.withCatalogue(ctx, req.Catalogue, func(ctx context.Context) (err error) {
		ans, err = in.client.Price(ctx, req)
		return err
	})
	var form sdk.PoolFaults
	if err != nil && !errors.As(err, &form) {
		return nil, err
	}
	return ans, checkPrices(req, ans, form)
}

// score asks for verdicts and checks the answer. Where the answer is good for some moves,
// it comes with an error of type *partly.
func (in *instance) score(ctx context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	cuts, err := in.laidOut(req.Catalogue).cutScores(req)
	if err != nil {
		return nil, err
	}
	out, faults := &sdk.ScoreAnswer{Verdicts: make([]sdk.Verdict, len(req.Moves))}, map[int]error{}
	var ended error
	for _, c := range cuts {
		var ans *sdk.ScoreAnswer
		if err = ended; err == nil {
			ans, err = in.scoreCut(ctx, c.req)
		}
		for k, i := range c.moves {
			if fault := faultOf(err, k); fault != nil {
				faults[i] = fault
				continue
			}
			out.Verdicts[i] = ans.Verdicts[k]
		}
		if ends(err) {
			ended = err
		}
	}
	if len(req.Moves) == 0 {
		return out, err
	}
	return out, inPart(spread(req, faults), len(req.Moves))
}

func (in *instance) scoreCut(ctx context.Context, req *sdk.ScoreRequest) (*sdk.ScoreAnswer, error) {
	var ans *sdk.ScoreAnswer
	err := in.withCatalogue(ctx, req.Catalogue, func(ctx context.Context) (err error) {
		ans, err = in.client.Score(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ans, checkScores(req, ans)
}

// ends says that after this error there is no use in asking on.
func ends(err error) bool {
	switch outcome(err, false) {
	case Late, Dead:
		return true
	}
	return false
}

// partly is why an answer is good for some of what was asked only.
type partly struct {
	faults map[int]error // by position in the question
	first  int
}

// Error implements error.
func (p *partly) Error() string {
	if more := len(p.faults) - 1; more > 0 {
		return fmt.Sprintf("%v, and %d more", p.faults[p.first], more)
	}
	return p.faults[p.first].Error()
}

// Unwrap gives the fault that comes first.
func (p *partly) Unwrap() error { return p.faults[p.first] }

// inPart sums up the faults of an answer to so many things.
func inPart(faults map[int]error, asked int) error {
	if len(faults) == 0 {
		return nil
	}
	p := &partly{faults: faults, first: asked}
	for i := range faults {
		p.first = min(p.first, i)
	}
	if len(faults) == asked {
		return p.Unwrap()
	}
	return p
}

// faultOf is what the error of an answer says of one of the things asked about.
func faultOf(err error, i int) error {
	var p *partly
	if errors.As(err, &p) {
		return p.faults[i]
	}
	return err
}

// checkPrices says what is wrong with an answer, pool by pool. form is what is wrong with
// its form.
func checkPrices(req *sdk.PriceRequest, ans *sdk.PriceAnswer, form sdk.PoolFaults) error {
	if len(ans.Pools) == 0 && len(req.Pools) > 0 {
		return errEmpty
	}
	if len(ans.Pools) != len(req.Pools) {
		return invalid("%d pools answered, %d asked", len(ans.Pools), len(req.Pools))
	}
	faults := map[int]error{}
	for i := range ans.Pools {
		err := form[i]
		if err == nil {
			err = sdk.CheckPoolPrices(&req.Pools[i], &ans.Pools[i])
		}
		if err != nil {
			faults[i] = invalid("pool %q: %w", req.Pools[i].Name, err)
		}
	}
	return inPart(faults, len(req.Pools))
}

// checkScores says what is wrong with an answer: a wrong verdict is a fault of all moves
// of its pool.
func checkScores(req *sdk.ScoreRequest, ans *sdk.ScoreAnswer) error {
	if len(ans.Verdicts) == 0 && len(req.Moves) > 0 {
		return errEmpty
	}
	if len(ans.Verdicts) != len(req.Moves) {
		return invalid("%d moves answered, %d asked", len(ans.Verdicts), len(req.Moves))
	}
	faults := map[int]error{}
	for i := range ans.Verdicts {
		if err := sdk.CheckVerdict(&ans.Verdicts[i]); err != nil {
			faults[i] = invalid("move %d, pool %q: %w", i, req.Pools[req.Moves[i].Pool].Name, err)
		}
	}
	return inPart(spread(req, faults), len(req.Moves))
}

// spread makes the fault of a move that of all moves of its pool.
func spread(req *sdk.ScoreRequest, faults map[int]error) map[int]error {
	if len(faults) == 0 {
		return faults
	}
	byPool := map[int]error{}
	for i := range req.Moves {
		if pool := req.Moves[i].Pool; faults[i] != nil && byPool[pool] == nil {
			byPool[pool] = faults[i]
		}
	}
	out := map[int]error{}
	for i := range req.Moves {
		if err := byPool[req.Moves[i].Pool]; err != nil {
			out[i] = err
		}
	}
	return out
}
