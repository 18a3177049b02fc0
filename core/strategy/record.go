package strategy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/plugins/sdk"
)

// RecordOptions say where calls are recorded.
type RecordOptions struct {
	Folder   string // is made if it is not there; empty = nothing is recorded
	MaxBytes int64  // of all files together, the oldest go; 0 = 256 MiB
}

// RecordStatus counts what was recorded.
type RecordStatus struct {
	Written, Dropped, Failed int64 // dropped = the disk was slower than the calls
	LastError                string
}

// Names of the files: calls and what shadows made of them.
const (
	callFiles     = "calls-"
	shadowFiles   = "shadow-"
	recordEnding  = ".jsonl"
	maxRecordFile = 100 // files of one kind
	maxWaiting    = 64  // lines
	keptFiles     = 8   // of which the ring consists when it is full
)

// line is one line of a file: exactly one of the three.
type line struct {
	Catalogue *catalogueLine `json:"catalogue,omitempty"`
	Call      *Record        `json:"call,omitempty"`
	Shadow    *Difference    `json:"shadow,omitempty"`
}

// Record is one call as it is in a file. Its catalogue is in the same file, before it.
type Record struct {
	Time     time.Time `json:"time"`
	Strategy string    `json:"strategy"` // name in the configuration
	Version  string    `json:"version"`
	SHA256   string    `json:"sha256,omitempty"` // of the program, where it is one
	// ConfigSHA256 tells whether the strategy was configured as another is; the
	// configuration itself may hold what is nobody's business.
	ConfigSHA256 string          `json:"configSha256,omitempty"`
	Kind         sdk.Kind        `json:"kind"`
	Level        string          `json:"level"`
	Outcome      Outcome         `json:"outcome"`
	Error        string          `json:"error,omitempty"`
	TookSeconds  float64         `json:"tookSeconds"`
	Catalogue    string          `json:"catalogue"` // hash, hexadecimal
	Input        json.RawMessage `json:"input"`
	Answer       json.RawMessage `json:"answer,omitempty"` // of calls that went well
	// Instead is what was used in the place of an answer; nil where the call went well or
	// nobody answered. Files of former versions do not have it.
	Instead *Instead `json:"instead,omitempty"`
	// Waiting is the pods that waited, of calls for prices; see Recorded.World.
	Waiting []PodGroup `json:"waiting,omitempty"`
}

// Instead is the answer of the rung of the ladder that answered in a strategy's place.
type Instead struct {
	By     string          `json:"by"`   // name and version
	Rung   Rung            `json:"rung"` // ByLastGood or ByBuiltin
	Answer json.RawMessage `json:"answer"`
}

// catalogueLine is a catalogue, types once.
type catalogueLine struct {
	Hash      string             `json:"hash"`
	Types     []sdk.InstanceType `json:"types"`
	Offerings []offeringLine     `json:"offerings"`
}

type offeringLine struct {
	Type         int    `json:"t"` // index into types
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Reservation  string `json:"reservation,omitempty"`
}

func fromCatalogue(c *sdk.Catalogue) *catalogueLine {
	out := &catalogueLine{Hash: hex.EncodeToString(c.Hash[:])}
	at := map[*sdk.InstanceType]int{}
	for i := range c.Offerings {
		o := &c.Offerings[i]
		t, ok := at[o.Type]
		if !ok {
			t = len(out.Types)
			at[o.Type] = t
			out.Types = append(out.Types, *o.Type)
		}
		out.Offerings = append(out.Offerings, offeringLine{Type: t, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.ReservationID})
	}
	return out
}

// withoutCatalogue takes the catalogue out of an input; false for inputs of a kind that
// is not recorded.
func withoutCatalogue(input any) (any, *sdk.Catalogue, bool) {
	switch req := input.(type) {
	case *sdk.PriceRequest:
		bare := *req
		bare.Catalogue = nil
		return &bare, req.Catalogue, true
	case *sdk.PlanRequest:
		bare := *req
		bare.Catalogue = nil
		return &bare, req.Catalogue, true
	case *sdk.ScoreRequest:
		bare := *req
		bare.Catalogue = nil
		return &bare, req.Catalogue, true
	case *Proposing:
		return req.line(), req.World.Catalogue, true
	}
	return nil, nil, false
}

// recorder writes lines behind the calls. A nil one writes nothing.
type recorder struct {
	opts RecordOptions
	log  *zap.Logger
	done chan struct{} // closed when everything is written

	mu     sync.Mutex // guards what follows
	jobs   chan func()
	ended  bool
	status RecordStatus
	told   time.Time // when a failure was logged last
	short  time.Time // when a dropped line was

	calls, shadows *ring // of the writing goroutine
}

func newRecorder(o RecordOptions, log *zap.Logger) *recorder {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	r := &recorder{opts: o, log: log.Named("strategy"), jobs: make(chan func(), maxWaiting), done: make(chan struct{}),
		calls:   &ring{folder: o.Folder, prefix: callFiles, max: o.MaxBytes - o.MaxBytes/8},
		shadows: &ring{folder: o.Folder, prefix: shadowFiles, max: o.MaxBytes / 8}}
	go func() {
		defer close(r.done)
		for f := range r.jobs {
			f()
		}
		r.calls.close()
		r.shadows.close()
	}()
	return r
}

// end writes what waits and closes the files.
func (r *recorder) end() {
	if r == nil {
		return
	}
	r.mu.Lock()
	if !r.ended {
		r.ended = true
		close(r.jobs)
	}
	r.mu.Unlock()
	<-r.done
}

// later takes a job on, or drops it.
func (r *recorder) later(f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	select {
	case r.jobs <- func() { r.result(f()) }:
	default:
		r.status.Dropped++
		if time.Since(r.short) > time.Minute {
			r.short = time.Now()
			r.log.Warn("records of calls are dropped: the disk is slower than the calls", zap.Int64("dropped", r.status.Dropped))
		}
	}
}

func (r *recorder) result(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.status.Written++
		return
	}
	r.status.Failed++
	r.status.LastError = err.Error()
	if time.Since(r.told) > time.Minute {
		r.told = time.Now()
		r.log.Warn("a call could not be recorded", zap.Error(err), zap.Int64("failed", r.status.Failed))
	}
}

// Records counts what was recorded.
func (h *Host) Records() RecordStatus {
	if h.writer == nil {
		return RecordStatus{}
	}
	h.writer.mu.Lock()
	defer h.writer.mu.Unlock()
	return h.writer.status
}

// record has a call recorded, once it is known who answered.
func (h *Host) record(q *question, s *slot, c *Call, at time.Time) {
	if h.writer == nil || q.answer == nil || q.input == nil {
		return
	}
	rec := &Record{Time: at.UTC(), Strategy: c.Strategy, Version: c.Version, Kind: c.Kind, Level: c.Level, Outcome: c.Outcome, TookSeconds: c.Took.Seconds()}
	if c.Err != nil {
		rec.Error = c.Err.Error()
	}
	if s != nil {
		s.mu.Lock()
		rec.SHA256 = s.status.SHA256
		s.mu.Unlock()
		rec.ConfigSHA256 = configSum(s.spec.Config)
	}
	var answer any
	switch {
	case c.Outcome == OK:
		answer = q.answer()
	case c.Rung == ByLastGood || c.Rung == ByBuiltin:
		answer, rec.Instead = q.answer(), &Instead{By: c.Fallback, Rung: c.Rung}
	}
	p := q.problem
	h.writer.later(func() error { return h.writer.call(rec, p, answer) })
}

// configSum is the hash of a configuration, empty where there is none.
func configSum(config []byte) string {
	if len(config) == 0 {
		return ""
	}
	sum := sha256.Sum256(config)
	return hex.EncodeToString(sum[:])
}

// call writes a call, and its catalogue where the file does not have it.
func (r *recorder) call(rec *Record, p problem, answer any) error {
	bare, catalogue, ok := withoutCatalogue(p.input)
	if !ok {
		return fmt.Errorf("a %T is not recorded", p.input)
	}
	p.prepare()
	rec.Catalogue = hex.EncodeToString(catalogue.Hash[:])
	var err error
	if p.world != nil && p.level == LevelPrice {
		rec.Waiting = groupPods(p.world.Pods, p.world.Pools, catalogue)
	}
	if rec.Input, err = json.Marshal(bare); err != nil {
		return fmt.Errorf("writing the input of %s: %w", rec.Strategy, err)
	}
	if answer != nil {
		text, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("writing the answer of %s: %w", rec.Strategy, err)
		}
		if rec.Instead != nil {
			rec.Instead.Answer = text
		} else {
			rec.Answer = text
		}
	}
	text, err := encodeLine(line{Call: rec})
	if err != nil {
		return err
	}
	return r.calls.write(text, rec.Catalogue, func() ([]byte, error) { return encodeLine(line{Catalogue: fromCatalogue(catalogue)}) })
}

// difference has a difference recorded.
func (r *recorder) difference(d *Difference) {
	if r == nil {
		return
	}
	r.later(func() error {
		text, err := encodeLine(line{Shadow: d})
		if err != nil {
			return err
		}
		return r.shadows.write(text, "", nil)
	})
}

func encodeLine(l line) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ring is the files of one kind in a folder, bounded in bytes and number. Each file can
// be read by itself.
type ring struct {
	folder, prefix string
	max            int64

	opened bool
	files  []ringFile // closed ones, oldest first
	total  int64      // bytes of them
	file   *os.File   // being written, nil = none yet
	size   int64
	has    map[string]bool // catalogues that it holds
	serial int
}

type ringFile struct {
	path string
	size int64
}

// write appends a line, before it a catalogue that the file does not hold yet.
func (r *ring) write(text []byte, catalogue string, head func() ([]byte, error)) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.file != nil && r.size+int64(len(text)) > r.max/keptFiles {
		r.rotate()
	}
	whole := text
	if catalogue != "" && (r.file == nil || !r.has[catalogue]) {
		first, err := head()
		if err != nil {
			return err
		}
		whole = append(first, text...)
	}
	if int64(len(whole)) > r.max {
		return fmt.Errorf("a line of %d bytes is more than all records may have, %d", len(whole), r.max)
	}
	if r.size+int64(len(whole)) > r.max {
		r.rotate()
	}
	if err := r.makeRoom(int64(len(whole))); err != nil {
		return err
	}
	if r.file == nil {
		if err := r.create(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(whole)
	r.size += int64(n)
	if err != nil {
		r.rotate() // what is half written ends its file
		return fmt.Errorf("recording: %w", err)
	}
	if catalogue != "" {
		r.has[catalogue] = true
	}
	return nil
}

// open looks at what is in the folder from before.
func (r *ring) open() error {
	if r.opened {
		return nil
	}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return fmt.Errorf("folder for records: %w", err)
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return fmt.Errorf("folder for records: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), r.prefix) || !strings.HasSuffix(e.Name(), recordEnding) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it went meanwhile
		}
		r.files = append(r.files, ringFile{filepath.Join(r.folder, e.Name()), info.Size()})
		r.total += info.Size()
	}
	slices.SortFunc(r.files, func(a, b ringFile) int { return strings.Compare(a.path, b.path) })
	r.opened = true
	return nil
}

// TryRecords makes the folder where there is none, and finds out whether records can be
// written there; nothing is left in it.
func TryRecords(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("folder for records: %w", err)
	}
	f, err := os.CreateTemp(folder, ".try-")
	if err != nil {
		return fmt.Errorf("folder for records: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (r *ring) create() error {
	r.serial++
	name := fmt.Sprintf("%s%s-%d-%06d%s", r.prefix, time.Now().UTC().Format("20060102T150405.000000000Z"), os.Getpid(), r.serial, recordEnding)
	f, err := os.OpenFile(filepath.Join(r.folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	r.file, r.size, r.has = f, 0, map[string]bool{}
	return nil
}

// makeRoom removes the oldest files until so many bytes more fit.
func (r *ring) makeRoom(n int64) error {
	for len(r.files) > 0 && (r.total+r.size+n > r.max || len(r.files) >= maxRecordFile) {
		if err := os.Remove(r.files[0].path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the oldest record: %w", err)
		}
		r.total -= r.files[0].size
		r.files = r.files[1:]
	}
	return nil
}

// rotate closes the file.
func (r *ring) rotate() {
	if r.file == nil {
		return
	}
	r.files = append(r.files, ringFile{r.file.Name(), r.size})
	r.total += r.size
	r.file.Close()
	r.file, r.size, r.has = nil, 0, nil
}

func (r *ring) close() { r.rotate() }
