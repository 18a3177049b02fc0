package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/strategy"
)

// User is whose a token is.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// ErrNobody says that a token is nobody's.
var ErrNobody = errors.New("the token is nobody's: it is not of this cluster, or has expired")

// Reviewer knows users and their rights.
type Reviewer interface {
	// Who answers whose the token is; ErrNobody where it is nobody's.
	Who(ctx context.Context, token string) (User, error)
	// May says whether the user has the verb on the non-resource URL path, and why not.
	May(ctx context.Context, u User, verb, path string) (allowed bool, why string, err error)
}

// State is what a scaler runs.
type State struct {
	Strategies []strategy.Status
	Config     *config.Config // of the file, without swaps
	InForce    *config.Config // with them
	Swaps      Desired
}

// Options are what the interface works with. All are required.
type Options struct {
	Scaler   string // name of this replica
	Reviewer Reviewer
	State    func() State
	// Leads says whether this replica leads, and if not, who does.
	Leads   func() (bool, string)
	Logs    *Logs
	Desired Document
	// Back takes a strategy out of service, for a reason, and the version before it back in.
	// Errors: strategy.ErrNoLastGood, and that of the context where that version does not start.
	Back func(ctx context.Context, name, why string) (strategy.RollBack, error)
	// Retry tries once more what was rolled back under a name; strategy.ErrNotRolledBack.
	Retry func(name string) error
	// Check says what is wrong with a configuration of strategies, beyond its form.
	Check func(*config.Config) error
	Now   func() time.Time
	Log   *zap.Logger
}

// Bounds of a request.
const (
	maxBody   = 64 << 10
	maxToken  = 16 << 10
	answersIn = 20 * time.Second
)

type server struct{ Options }

// Handler serves the interface.
func Handler(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, s.allowed(VerbGet, s.list))
	mux.Handle("GET "+Path+"/{name}", s.allowed(VerbGet, s.one))
	mux.Handle("GET "+Path+"/{name}/logs", s.allowed(VerbGet, s.logs))
	mux.Handle("POST "+Path+"/{name}/swap", s.allowed(VerbUpdate, s.swap))
	return mux
}

// refusal is an answer that says no, with its status.
type refusal struct {
	status int
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// allowed answers for users with the verb on the request's path, on the leader.
func (s *server) allowed(verb string, answer func(*http.Request, User) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answersIn)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		user, err := s.user(r, verb)
		var out any
		if err == nil {
			if leads, who := s.Leads(); !leads {
				err = refuse(http.StatusServiceUnavailable, "this scaler, %s, does not lead: %s", s.Scaler, who)
			} else {
				out, err = answer(r, user)
			}
		}
		status := http.StatusOK
		if err != nil {
			var no *refusal
			if status = http.StatusInternalServerError; errors.As(err, &no) {
				status = no.status
			} else {
				s.Log.Error("admin request", zap.String("path", r.URL.Path), zap.String("user", user.Name), zap.Error(err))
			}
			out = failure{Error: err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// Whoever asked may be gone; there is nobody else to tell.
		_ = json.NewEncoder(w).Encode(out)
	})
}

// user is who asks, if they may.
func (s *server) user(r *http.Request, verb string) (User, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > maxToken {
		return User{}, refuse(http.StatusUnauthorized, "a bearer token is missing")
	}
	u, err := s.Reviewer.Who(r.Context(), token)
	switch {
	case errors.Is(err, ErrNobody):
		return User{}, &refusal{http.StatusUnauthorized, err}
	case err != nil:
		return User{}, fmt.Errorf("asking whose the token is: %w", err)
	}
	allowed, why, err := s.Reviewer.May(r.Context(), u, verb, r.URL.Path)
	switch {
	case err != nil:
		return u, fmt.Errorf("asking what %s may do: %w", u.Name, err)
	case !allowed:
		s.Log.Info("admin request refused", zap.String("user", u.Name), zap.String("verb", verb), zap.String("path", r.URL.Path))
		if why != "" {
			why = ": " + why
		}
		return u, refuse(http.StatusForbidden, "user %q may not %s %s%s", u.Name, verb, r.URL.Path, why)
	}
	return u, nil
}

// Listed is the list as it is now.
func (o Options) Listed() List {
	st := o.State()
	return List{Kind: "StrategyList", Scaler: o.Scaler, At: o.Now().UTC(), Strategies: Describe(st.Strategies, st.InForce, st.Swaps)}
}

func (s *server) list(*http.Request, User) (any, error) { return s.Listed(), nil }

func (s *server) named(r *http.Request) (Strategy, error) {
	l := s.Listed()
	st, ok := l.find(r.PathValue("name"))
	if !ok {
		var names []string
		for _, x := range l.Strategies {
			names = append(names, x.Name)
		}
		return st, refuse(http.StatusNotFound, "there is no strategy %q in this scaler, there are %s", r.PathValue("name"), strings.Join(names, ", "))
	}
	return st, nil
}

func (s *server) one(r *http.Request, _ User) (any, error) { return s.named(r) }

func (s *server) logs(r *http.Request, _ User) (any, error) {
	st, err := s.named(r)
	if err != nil {
		return nil, err
	}
	number := func(key string, usual int64) (int64, error) {
		text := r.URL.Query().Get(key)
		if text == "" {
			return usual, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, refuse(http.StatusBadRequest, "%s=%q: expected a number of at least 0", key, text)
		}
		return n, nil
	}
	after, err := number("after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := number("limit", keptLines)
	if err != nil {
		return nil, err
	}
	lines, next := s.Logs.Of(st.Name, after, int(min(limit, keptLines)))
	if lines == nil {
		lines = []Line{}
	}
	return LogLines{Kind: "StrategyLogs", Name: st.Name, Lines: lines, Next: next}, nil
}

func (s *server) swap(r *http.Request, u User) (any, error) {
	var want SwapRequest
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&want); err != nil {
		return nil, refuse(http.StatusBadRequest, "body: expected image, path and sha256, or reset, back or retry: %w", err)
	}
	ways := 0
	for _, asked := range []bool{want.Image != "" || want.Path != "" || want.SHA256 != "", want.Reset, want.Back, want.Retry} {
		if asked {
			ways++
		}
	}
	if ways != 1 {
		return nil, refuse(http.StatusBadRequest, "body: expected either a program (image, or path and sha256), or one of reset, back and retry")
	}
	name := r.PathValue("name")
	if _, ok := s.State().Config.Strategy(name); !ok {
		return nil, refuse(http.StatusNotFound, "there is no strategy %q in the configuration, and none built in", name)
	}
	var answer *SwapAnswer
	var err error
	switch {
	case want.Back:
		answer, err = s.goBack(r.Context(), name, u)
	case want.Retry:
		answer, err = s.retry(r.Context(), name, u)
	default:
		answer, err = s.want(r.Context(), name, want, u)
	}
	if err != nil {
		return nil, err
	}
	answer.Kind, answer.Name, answer.At = "StrategySwap", name, s.Now().UTC()
	return answer, nil
}

// want writes down what program is wanted from now on.
func (s *server) want(ctx context.Context, name string, want SwapRequest, u User) (*SwapAnswer, error) {
	return s.changed(ctx, name, u, "a strategy is to be swapped", func(d *Desired, file *config.Config) error {
		delete(d.Strategies, name)
		d.untake(name)
		if !want.Reset {
			d.Strategies[name] = Swap{Image: want.Image, Path: want.Path, SHA256: want.SHA256, Instead: programOf(file, name), By: u.Name, At: s.Now().UTC().Truncate(time.Second)}
		}
		return nil
	})
}

// retry writes down that what was taken back is to be tried once more.
func (s *server) retry(ctx context.Context, name string, u User) (*SwapAnswer, error) {
	answer, err := s.changed(ctx, name, u, "what was taken back of a strategy is to be tried again", func(d *Desired, _ *config.Config) error {
		found := d.untake(name)
		if swap, ok := d.Strategies[name]; ok && swap.RolledBack != "" {
			found, swap.RolledBack, swap.By, swap.At = true, "", u.Name, s.Now().UTC().Truncate(time.Second)
			d.Strategies[name] = swap
		}
		if !found {
			return refuse(http.StatusConflict, "strategy %q: %w", name, strategy.ErrNotRolledBack)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.Retry(name); err != nil && !errors.Is(err, strategy.ErrNotRolledBack) { // by the document it may have happened already
		return nil, err
	}
	return answer, nil
}

// changed changes what is wanted of a strategy, if a scaler can run it.
func (s *server) changed(ctx context.Context, name string, u User, what string, f func(*Desired, *config.Config) error) (*SwapAnswer, error) {
	file, answer := s.State().Config, &SwapAnswer{}
	err := change(ctx, s.Desired, func(d *Desired) error {
		inForce, _, err := d.Over(file, "swaps")
		if err != nil {
			inForce = file // what is wrong there is about to be replaced, or told of below
		}
		answer.From = programOf(inForce, name)
		if err := f(d, file); err != nil {
			return err
		}
		next, _, err := d.Over(file, "swap")
		if err == nil {
			err = s.Check(next)
		}
		if err != nil {
			return &refusal{http.StatusUnprocessableEntity, err}
		}
		answer.To = programOf(next, name)
		_, answer.Swapped = d.Strategies[name]
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Log.Info(what, zap.String("strategy", name), zap.String("from", answer.From), zap.String("to", answer.To), zap.String("user", u.Name))
	return answer, nil
}

// goBack takes a strategy out of service at once, for the version before it.
func (s *server) goBack(ctx context.Context, name string, u User) (*SwapAnswer, error) {
	s.Log.Info("a strategy is to go back to the version before", zap.String("strategy", name), zap.String("user", u.Name))
	r, err := s.Back(ctx, name, "asked for by "+u.Name)
	switch {
	case errors.Is(err, strategy.ErrNoLastGood):
		return nil, &refusal{http.StatusConflict, err}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &refusal{http.StatusGatewayTimeout, err}
	case err != nil:
		return nil, err
	}
	return &SwapAnswer{From: r.From, To: r.To}, nil
}
