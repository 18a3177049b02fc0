package strategy

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-project/weir/plugins/sdk"
)

// maxRecordLine bounds what one line of a file of records may hold.
const maxRecordLine = 256 << 20

// RecordError says where a file of records is not what it should be.
type RecordError struct {
	File     string
	Line     int // from 1
	Expected string
	// Unfinished says that the file ends in the middle of its last line, as it does while it
	// is written and after a crash.
	Unfinished bool
	Err        error
}

// Error implements error.
func (e *RecordError) Error() string {
	text := fmt.Sprintf("%s:%d: expected %s", e.File, e.Line, e.Expected)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// LeftOut is the warning about a line that is not finished and is not read.
func (e *RecordError) LeftOut() string {
	return fmt.Sprintf("%s: line %d is not finished and was left out", e.File, e.Line)
}

// Unwrap gives the fault.
func (e *RecordError) Unwrap() error { return e.Err }

// Recorded is a line of a file of records: a call or a difference.
type Recorded struct {
	File string
	Line int
	// Call, with its input and its answer as the SDK has them; no answer where there was none.
	Call   *Record
	Input  any // *sdk.PriceRequest, *sdk.PlanRequest, *sdk.ScoreRequest or *Proposing
	Answer any // *sdk.PriceAnswer, *sdk.PlanAnswer, *sdk.ScoreAnswer or *sdk.Proposal, or nil
	// Instead is what was used in the place of an answer, as Answer has it, or nil.
	Instead any
	Shadow  *Difference
}

// ReadRecords reads a file of records. The first error, always a *RecordError, is the end.
func ReadRecords(r io.Reader, file string) iter.Seq2[*Recorded, error] {
	return func(yield func(*Recorded, error) bool) {
		catalogues := map[string]*sdk.Catalogue{}
		in := bufio.NewReaderSize(r, 1<<20)
		for n := 1; ; n++ {
			text, err := readLine(in)
			fail := func(expected string, err error) {
				yield(nil, &RecordError{File: file, Line: n, Expected: expected, Err: err, Unfinished: errors.Is(err, io.ErrUnexpectedEOF)})
			}
			switch {
			case errors.Is(err, io.EOF) && n == 1:
				fail("at least one line", errors.New("the file is empty"))
				return
			case errors.Is(err, io.EOF):
				return
			case errors.Is(err, io.ErrUnexpectedEOF):
				fail("a complete line that ends with a newline", err)
				return
			case err != nil:
				fail("a line", err)
				return
			}
			rec, catalogue, expected, err := parseLine(text, catalogues)
			if err != nil {
				fail(expected, err)
				return
			}
			if catalogue != nil {
				catalogues[hex.EncodeToString(catalogue.Hash[:])] = catalogue
				continue
			}
			rec.File, rec.Line = file, n
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// readLine is a line without its newline; io.ErrUnexpectedEOF where the newline is missing.
func readLine(in *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := in.ReadSlice('\n')
		out = append(out, part...)
		switch {
		case len(out) > maxRecordLine:
			return nil, fmt.Errorf("it has more than %d bytes", maxRecordLine)
		case err == nil:
			return bytes.TrimRight(out, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(out) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// parseLine reads one line: a catalogue, or else a record. With an error it says what was
// expected.
func parseLine(text []byte, catalogues map[string]*sdk.Catalogue) (rec *Recorded, catalogue *sdk.Catalogue, expected string, err error) {
	const form = `a JSON object with "catalogue", "call" or "shadow"`
	var l line
	if err := strictly(text, &l); err != nil {
		return nil, nil, form, err
	}
	kinds := 0
	for _, there := range []bool{l.Catalogue != nil, l.Call != nil, l.Shadow != nil} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, nil, form, fmt.Errorf("it has %d of them", kinds)
	}
	switch {
	case l.Catalogue != nil:
		c, err := l.Catalogue.catalogue()
		return nil, c, "a catalogue that is as its hash says", err
	case l.Shadow != nil:
		return &Recorded{Shadow: l.Shadow}, nil, "what a shadow made of a problem", l.Shadow.check()
	}
	if expected, err := checkCall(l.Call); err != nil {
		return nil, nil, expected, err
	}
	out := &Recorded{Call: l.Call}
	c := catalogues[l.Call.Catalogue]
	if c == nil {
		return nil, nil, "the catalogue of the call on an earlier line", fmt.Errorf("catalogue %.12q is not there", l.Call.Catalogue)
	}
	if expected, err := out.decode(c); err != nil {
		return nil, nil, expected, err
	}
	return out, nil, "", nil
}

func strictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it ends too early") // the line as such is complete
		}
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is more behind the JSON value")
	}
	return nil
}

func (l *catalogueLine) catalogue() (*sdk.Catalogue, error) {
	if len(l.Types) > sdk.MaxTypes || len(l.Offerings) > sdk.MaxOfferings {
		return nil, fmt.Errorf("%d types and %d offerings, at most %d and %d", len(l.Types), len(l.Offerings), sdk.MaxTypes, sdk.MaxOfferings)
	}
	c := &sdk.Catalogue{Offerings: make([]sdk.Offering, len(l.Offerings))}
	types := slices.Clone(l.Types)
	for i := range types {
		if types[i].Labels == nil {
			types[i].Labels = map[string]string{}
		}
	}
	for i, o := range l.Offerings {
		if o.Type < 0 || o.Type >= len(types) {
			return nil, fmt.Errorf("offering %d names type %d of %d", i, o.Type, len(types))
		}
		c.Offerings[i] = sdk.Offering{Type: &types[o.Type], Zone: o.Zone, CapacityType: o.CapacityType, ReservationID: o.Reservation}
	}
	sdk.HashCatalogue(c)
	if got := hex.EncodeToString(c.Hash[:]); got != l.Hash {
		return nil, fmt.Errorf("its hash is %.12s, it says %.12q", got, l.Hash)
	}
	return c, nil
}

// decode fills in the input and the answers of a call.
func (r *Recorded) decode(c *sdk.Catalogue) (expected string, err error) {
	if expected, err = r.decodeInput(c); err != nil {
		return expected, err
	}
	if r.Call.Outcome == OK {
		r.Answer, expected, err = r.checked(r.Call.Answer)
	} else if r.Call.Instead != nil {
		r.Instead, expected, err = r.checked(r.Call.Instead.Answer)
	}
	return expected, err
}

func (r *Recorded) decodeInput(c *sdk.Catalogue) (expected string, err error) {
	const fits = "an input that fits its catalogue"
	form := "an input of " + r.Call.Level
	switch {
	case r.Call.Kind == sdk.InstanceSelection && r.Call.Level == LevelPrice:
		req := &sdk.PriceRequest{}
		if err := strictly(r.Call.Input, req); err != nil {
			return form, err
		}
		req.Catalogue, r.Input = c, req
		for i := range r.Call.Waiting {
			if err := r.Call.Waiting[i].check(); err != nil {
				return "pods that can wait", err
			}
		}
		return fits, checkPriceInput(req)
	case r.Call.Kind == sdk.InstanceSelection && r.Call.Level == LevelPlan:
		req := &sdk.PlanRequest{}
		if err := strictly(r.Call.Input, req); err != nil {
			return form, err
		}
		req.Catalogue, r.Input = c, req
		return fits, checkPlanInput(req)
	case r.Call.Kind == sdk.Consolidation && r.Call.Level == LevelScore:
		req := &sdk.ScoreRequest{}
		if err := strictly(r.Call.Input, req); err != nil {
			return form, err
		}
		req.Catalogue, r.Input = c, req
		return fits, checkScoreInput(req)
	case r.Call.Kind == sdk.Consolidation && r.Call.Level == LevelPropose:
		req := &proposingLine{}
		if err := strictly(r.Call.Input, req); err != nil {
			return form, err
		}
		input, err := req.proposing(c)
		r.Input = input
		return fits, err
	}
	return fmt.Sprintf("a call of %s at level %s or %s, or of %s at level %s or %s", sdk.InstanceSelection, LevelPrice, LevelPlan, sdk.Consolidation, LevelScore, LevelPropose),
		fmt.Errorf("it is of %q at level %q", r.Call.Kind, r.Call.Level)
}

// checked is an answer to the input, which has been decoded.
func (r *Recorded) checked(text json.RawMessage) (answer any, expected string, err error) {
	var check func() error
	switch req := r.Input.(type) {
	case *sdk.PriceRequest:
		ans := &sdk.PriceAnswer{}
		answer, check = ans, func() error { return sdk.CheckPrices(req, ans) }
	case *sdk.PlanRequest:
		ans := &sdk.PlanAnswer{}
		answer, check = ans, func() error { return sdk.CheckPlan(req, ans) }
	case *sdk.ScoreRequest:
		ans := &sdk.ScoreAnswer{}
		answer, check = ans, func() error { return sdk.CheckScores(req, ans) }
	case *Proposing:
		ans := &sdk.Proposal{}
		answer, check = ans, func() error { return sdk.CheckMoves(req.World, ans.Moves) }
	}
	if err := strictly(text, answer); err != nil {
		return nil, "an answer of " + r.Call.Level, err
	}
	return answer, "an answer that fits its input", check()
}

func checkPriceInput(req *sdk.PriceRequest) error {
	n := len(req.Catalogue.Offerings)
	if len(req.USDPerHour) != n {
		return fmt.Errorf("%d prices for %d offerings", len(req.USDPerHour), n)
	}
	for o := range req.Health {
		if o < 0 || o >= n {
			return fmt.Errorf("health of offering %d of %d", o, n)
		}
	}
	if err := checkMarket(req); err != nil {
		return err
	}
	return checkPools(req.Pools, n)
}

func checkPlanInput(req *sdk.PlanRequest) error {
	if err := checkPriceInput(&req.PriceRequest); err != nil {
		return err
	}
	for i, set := range req.Sets {
		last := -1
		for _, o := range set {
			if o <= last || o >= len(req.Catalogue.Offerings) {
				return fmt.Errorf("set %d: offering %d is not in the catalogue or not in order", i, o)
			}
			last = o
		}
	}
	for i := range req.Groups {
		g := &req.Groups[i]
		if g.Pods < 0 {
			return fmt.Errorf("group %d has %d pods", i, g.Pods)
		}
		for _, a := range g.Allowed {
			if a.Pool < 0 || a.Pool >= len(req.Pools) || a.Set < 0 || a.Set >= len(req.Sets) {
				return fmt.Errorf("group %d may use set %d of %d in pool %d of %d", i, a.Set, len(req.Sets), a.Pool, len(req.Pools))
			}
		}
		for _, n := range g.Neighbours {
			for _, k := range n.Groups {
				if k < 0 || k >= len(req.Groups) {
					return fmt.Errorf("group %d asks something of group %d of %d", i, k, len(req.Groups))
				}
			}
		}
	}
	if len(req.Rooms) != len(req.Pools) {
		return fmt.Errorf("rooms of %d pools, there are %d", len(req.Rooms), len(req.Pools))
	}
	for i, room := range req.Rooms {
		for _, d := range room.Daemons {
			if d.Set < 0 || d.Set >= len(req.Sets) {
				return fmt.Errorf("daemons of pool %d are on set %d of %d", i, d.Set, len(req.Sets))
			}
		}
	}
	return nil
}

func checkScoreInput(req *sdk.ScoreRequest) error {
	n := len(req.Catalogue.Offerings)
	for i := range req.Moves {
		m := &req.Moves[i]
		if m.Pool < 0 || m.Pool >= len(req.Pools) {
			return fmt.Errorf("move %d is of pool %d of %d", i, m.Pool, len(req.Pools))
		}
		for _, x := range m.Remove {
			if x.Offering < -1 || x.Offering >= n {
				return fmt.Errorf("move %d removes offering %d of %d", i, x.Offering, n)
			}
		}
		for _, x := range m.Launch {
			if x.Offering < 0 || x.Offering >= n {
				return fmt.Errorf("move %d launches offering %d of %d", i, x.Offering, n)
			}
		}
		if err := checkMove(m); err != nil {
			return fmt.Errorf("move %d: %w", i, err)
		}
	}
	return checkPools(req.Pools, n)
}

func checkPools(pools []sdk.Pool, n int) error {
	for i := range pools {
		if err := inRange("volumes in USD per hour", pools[i].VolumesUSDPerHour, 0, sdk.MaxUSDPerHour); err != nil {
			return fmt.Errorf("pool %q: %w", pools[i].Name, err)
		}
		last := -1
		for _, o := range pools[i].Offerings {
			if o <= last || o >= n {
				return fmt.Errorf("pool %q: offering %d is not in the catalogue or not in order", pools[i].Name, o)
			}
			last = o
		}
		for _, r := range pools[i].Running {
			if r.Offering < -1 || r.Offering >= n {
				return fmt.Errorf("pool %q: running offering %d of %d", pools[i].Name, r.Offering, n)
			}
			if r.Nodes < 0 || r.InFlight < 0 {
				return fmt.Errorf("pool %q: %d nodes run, %d are on their way", pools[i].Name, r.Nodes, r.InFlight)
			}
			if err := recordedSum("what runs", r.USDPerHour); err != nil {
				return fmt.Errorf("pool %q: %w", pools[i].Name, err)
			}
		}
	}
	return nil
}

// RecordFiles lists the files that a path means: itself, or those of a folder, of calls
// or of shadows, oldest first.
func RecordFiles(path string, shadows bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	prefix := callFiles
	if shadows {
		prefix = shadowFiles
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), recordEnding) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no file %s*%s in it", path, prefix, recordEnding)
	}
	return out, nil
}
