package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// pass sends a message over the wire's form.
func pass[M proto.Message](t testing.TB, in, out M) M {
	t.Helper()
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRequestsCrossTheWire(t *testing.T) {
	t.Parallel()
	want := SamplePrice()
	want.Catalogue.Offerings[0].Type.Extended = map[string]int64{"nvidia.com/gpu": 4}
	want.Catalogue.Offerings[11].ReservationID = "cr-1"
	HashCatalogue(want.Catalogue)
	catalogue, err := toCatalogue(pass(t, fromCatalogue(want.Catalogue), &strategyv1.Catalogue{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want.Catalogue, catalogue) {
		t.Errorf("catalogue:\n%+v\n%+v", want.Catalogue, catalogue)
	}
	got, err := toPriceRequest(catalogue, pass(t, fromPriceRequest(want), &instancev1.PriceRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("price request:\n%+v\n%+v", want, got)
	}
	score := SampleScore()
	gotScore, err := toScoreRequest(score.Catalogue, pass(t, fromScoreRequest(score), &consolidationv1.ScoreRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(score, gotScore) {
		t.Errorf("score request:\n%+v\n%+v", score, gotScore)
	}
}

func TestAnswersCrossTheWire(t *testing.T) {
	t.Parallel()
	want := goodAnswer()
	got, err := toPriceAnswer(pass(t, fromPriceAnswer(want), &instancev1.PriceResponse{}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("price answer:\n%+v\n%+v", want, got)
	}
	scores := &ScoreAnswer{Verdicts: []Verdict{{Accept: true, Score: 1.5}, {Reason: "too little"}}}
	if got := toScoreAnswer(pass(t, fromScoreAnswer(scores), &consolidationv1.ScoreResponse{})); !reflect.DeepEqual(scores, got) {
		t.Errorf("score answer:\n%+v\n%+v", scores, got)
	}
}

// goodAnswer uses everything that an answer to the sample problem can hold.
func goodAnswer() *PriceAnswer {
	return &PriceAnswer{Pools: []PoolPrices{
		{USDPerHour: make([]float64, 12), FeePerNode: 0.02, LargestFirst: true,
			Steps:  map[int][]Step{4: {{USDPerHour: 0, SumUSDPerHour: 0.3, Shared: "plan"}, {USDPerHour: 0.01, Nodes: 2}, {USDPerHour: 0.1728}}},
			Vetoes: []Veto{{Reason: "short", Offerings: []int{3, 7}}},
			Limits: []Limit{
				{Name: "spot", Share: &Share{Selector: Selector{{Key: LabelCapacityType, Values: []string{Spot}, Negate: true}}, Min: 0.1, Max: 0.7, Measure: MeasureCPU}},
				{Name: "spread", Variety: &Variety{Over: OverSpotPools, Min: 3}},
				{Name: "blast", PodsPerNode: &PodsPerNode{Max: 2, Share: 0.25}},
			}},
		{USDPerHour: make([]float64, 6)},
	}}
}

func TestCheckPrices(t *testing.T) {
	t.Parallel()
	if err := CheckPrices(SamplePrice(), goodAnswer()); err != nil {
		t.Fatalf("a good answer: %v", err)
	}
	for want, spoil := range map[string]func(*PriceAnswer){
		"1 pools answered, 2 asked":        func(a *PriceAnswer) { a.Pools = a.Pools[:1] },
		"11 prices answered":               func(a *PriceAnswer) { a.Pools[0].USDPerHour = a.Pools[0].USDPerHour[1:] },
		"price NaN":                        func(a *PriceAnswer) { a.Pools[1].USDPerHour[2] = math.NaN() },
		"price +Inf":                       func(a *PriceAnswer) { a.Pools[1].USDPerHour[2] = math.Inf(1) },
		"price -1":                         func(a *PriceAnswer) { a.Pools[1].USDPerHour[2] = -1 },
		"price 1e+09":                      func(a *PriceAnswer) { a.Pools[1].USDPerHour[2] = 1e9 },
		"fee per node":                     func(a *PriceAnswer) { a.Pools[0].FeePerNode = -0.1 },
		"offering 1 is not one":            func(a *PriceAnswer) { a.Pools[1].Steps = map[int][]Step{1: {{}}} },
		"0 steps":                          func(a *PriceAnswer) { a.Pools[0].Steps[4] = nil },
		"step 0: price":                    func(a *PriceAnswer) { a.Pools[0].Steps[4][0].USDPerHour = math.NaN() },
		"step 0, sum":                      func(a *PriceAnswer) { a.Pools[0].Steps[4][0].SumUSDPerHour = math.NaN() },
		"a number of nodes, a sum":         func(a *PriceAnswer) { a.Pools[0].Steps[4][0].Nodes = 1 },
		"only the last":                    func(a *PriceAnswer) { a.Pools[0].Steps[4] = a.Pools[0].Steps[4][:2] },
		"veto reason":                      func(a *PriceAnswer) { a.Pools[0].Vetoes[0].Reason = "" },
		`veto "short": offering -1 is not`: func(a *PriceAnswer) { a.Pools[0].Vetoes[0].Offerings[0] = -1 },
		"share 0.8 to 0.7":                 func(a *PriceAnswer) { a.Pools[0].Limits[0].Share.Min = 0.8 },
		"share NaN":                        func(a *PriceAnswer) { a.Pools[0].Limits[0].Share.Min = math.NaN() },
		"unknown measure 9":                func(a *PriceAnswer) { a.Pools[0].Limits[0].Share.Measure = 9 },
		"want a key and 1 to 256 values":   func(a *PriceAnswer) { a.Pools[0].Limits[0].Share.Selector[0].Values = nil },
		"variety over 0":                   func(a *PriceAnswer) { a.Pools[0].Limits[1].Variety.Over = 0 },
		"2 rules":                          func(a *PriceAnswer) { a.Pools[0].Limits[1].PodsPerNode = &PodsPerNode{Max: 1} },
		"0 rules":                          func(a *PriceAnswer) { a.Pools[0].Limits[2].PodsPerNode = nil },
		"pods per node -3":                 func(a *PriceAnswer) { a.Pools[0].Limits[2].PodsPerNode.Max = -3 },
		"pods per node 0, share 0":         func(a *PriceAnswer) { a.Pools[0].Limits[2].PodsPerNode = &PodsPerNode{} },
		"share 1.5: want":                  func(a *PriceAnswer) { a.Pools[0].Limits[2].PodsPerNode.Share = 1.5 },
		"share NaN: want":                  func(a *PriceAnswer) { a.Pools[0].Limits[2].PodsPerNode.Share = math.NaN() },
		"limits, at most 64":               func(a *PriceAnswer) { a.Pools[0].Limits = make([]Limit, 65) },
		`pool "on-demand"`:                 func(a *PriceAnswer) { a.Pools[1].USDPerHour = nil },
		"want a name of at most 63":        func(a *PriceAnswer) { a.Pools[0].Limits[2].Name = strings.Repeat("x", 64) },
		"want 1 to 200 characters":         func(a *PriceAnswer) { a.Pools[0].Vetoes[0].Reason = strings.Repeat("x", 201) },
	} {
		a := goodAnswer()
		spoil(a)
		if err := CheckPrices(SamplePrice(), a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestCheckScores(t *testing.T) {
	t.Parallel()
	req := SampleScore()
	good := func() *ScoreAnswer { return &ScoreAnswer{Verdicts: make4(Verdict{Accept: true})} }
	if err := CheckScores(req, good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*ScoreAnswer){
		"3 moves answered": func(a *ScoreAnswer) { a.Verdicts = a.Verdicts[1:] },
		"score NaN":        func(a *ScoreAnswer) { a.Verdicts[1].Score = math.NaN() },
		"score -Inf":       func(a *ScoreAnswer) { a.Verdicts[1].Score = math.Inf(-1) },
		"without a reason": func(a *ScoreAnswer) { a.Verdicts[1].Accept = false },
		"characters":       func(a *ScoreAnswer) { a.Verdicts[1].Reason = strings.Repeat("x", 300) },
	} {
		a := good()
		spoil(a)
		if err := CheckScores(req, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func make4(v Verdict) []Verdict { return []Verdict{v, v, v, v} }

func TestDecode(t *testing.T) {
	t.Parallel()
	type config struct {
		Fee  float64 `json:"fee"`
		Deep struct{ Name string }
	}
	for in, want := range map[string]string{
		``: "", ` {} `: "", `{"fee": 2}`: "",
		`{"fees": 2}`:           "configuration: fees: unknown field",
		`{"fee": "two"}`:        "configuration: fee: got string, want float64",
		`{"Deep": {"Name": 3}}`: "configuration: Deep.Name: got number, want string",
		`{"fee": 2} {"fee": 3}`: "configuration: more than one JSON value",
		`[1]`:                   "configuration: got array, want sdk.config",
		`{"fee":`:               "configuration: unexpected EOF",
	} {
		c := config{Fee: 1}
		err := Decode(json.RawMessage(in), &c)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: error %q, want %q", in, text, want)
		}
	}
}

// TestHashIsOfTheContent: equal content has an equal hash, and every change another.
func TestHashIsOfTheContent(t *testing.T) {
	t.Parallel()
	base := SamplePrice().Catalogue.Hash
	if again := SamplePrice().Catalogue.Hash; again != base {
		t.Error("two equal catalogues have different hashes")
	}
	for name, change := range map[string]func(*Catalogue){
		"label":       func(c *Catalogue) { c.Offerings[0].Type.Labels[LabelArch] = "arm64" },
		"memory":      func(c *Catalogue) { c.Offerings[0].Type.MemoryBytes++ },
		"zone":        func(c *Catalogue) { c.Offerings[5].Zone = "us-east-1c" },
		"reservation": func(c *Catalogue) { c.Offerings[5].ReservationID = "cr-1" },
		"order":       func(c *Catalogue) { c.Offerings[0], c.Offerings[1] = c.Offerings[1], c.Offerings[0] },
		"fewer":       func(c *Catalogue) { c.Offerings = c.Offerings[:11] },
		"extended":    func(c *Catalogue) { c.Offerings[0].Type.Extended = map[string]int64{"a": 1} },
		"class":       func(c *Catalogue) { c.Offerings[0].Type.NodeClass = "other" },
	} {
		c := SamplePrice().Catalogue
		change(c)
		HashCatalogue(c)
		if c.Hash == base {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}

// silent answers nothing at all.
type silent struct{}

func (silent) Describe() Description           { return Description{Name: "p", Version: "1"} }
func (silent) Configure(json.RawMessage) error { return nil }
func (silent) Price(context.Context, *PriceRequest) (*PriceAnswer, error) {
	return nil, nil
}

func TestServerRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := &server{strategy: silent{}}
	req := SamplePrice()
	m := fromPriceRequest(req)
	if _, err := s.Price(context.Background(), m); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("catalogue never sent: %v, want FailedPrecondition", err)
	}
	if _, err := s.Configure(context.Background(), &strategyv1.ConfigureRequest{Catalogue: fromCatalogue(req.Catalogue)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Price(context.Background(), m); status.Code(err) != codes.Internal {
		t.Errorf("neither answer nor error: %v, want Internal", err)
	}
	m.Pools[0].Offerings[2] = 99
	if _, err := s.Price(context.Background(), m); status.Code(err) != codes.InvalidArgument {
		t.Errorf("offering out of range: %v, want InvalidArgument", err)
	}
	if len(s.catalogues) != 1 {
		t.Fatalf("%d catalogues kept", len(s.catalogues))
	}
}

// A process forgets the oldest catalogues: small ones by their number, large ones by what
// they have together, but never the last two.
func TestServerForgetsCatalogues(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{10: mostCatalogues, MaxOfferings / 2: 4, MaxOfferings: keptCatalogues, 2 * MaxOfferings: keptCatalogues} {
		s := &server{}
		for i := range mostCatalogues + 2 {
			s.remember(&Catalogue{Offerings: make([]Offering, size), Hash: [32]byte{byte(i)}})
		}
		if got := len(s.catalogues); got != want {
			t.Errorf("%d catalogues of %d offerings kept, want %d", got, size, want)
			continue
		}
		if last := s.catalogues[want-1].Hash[0]; last != mostCatalogues+1 {
			t.Errorf("the last one kept is number %d", last)
		}
	}
}

func TestConfigErrorsKeepTheirField(t *testing.T) {
	t.Parallel()
	got := configErrors(errors.Join(&ConfigError{Field: "fee", Message: "too high"}))
	if len(got) != 1 || got[0].Field != "fee" || got[0].Message != "too high" {
		t.Errorf("errors %v", got)
	}
}

// FuzzMessages feeds arbitrary bytes to everything that reads a message: an error or
// a value, never a panic.
func FuzzMessages(f *testing.F) {
	req, score := SamplePrice(), SampleScore()
	for _, m := range []proto.Message{fromCatalogue(req.Catalogue), fromPriceRequest(req), fromScoreRequest(score), fromPriceAnswer(goodAnswer())} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c strategyv1.Catalogue
		if proto.Unmarshal(b, &c) == nil {
			if got, err := toCatalogue(&c); err == nil {
				HashCatalogue(got)
			}
		}
		var p instancev1.PriceRequest
		if proto.Unmarshal(b, &p) == nil {
			if got, err := toPriceRequest(req.Catalogue, &p); err == nil {
				fromPriceRequest(got)
			}
		}
		var s consolidationv1.ScoreRequest
		if proto.Unmarshal(b, &s) == nil {
			if got, err := toScoreRequest(req.Catalogue, &s); err == nil {
				fromScoreRequest(got)
			}
		}
		var a instancev1.PriceResponse
		if proto.Unmarshal(b, &a) == nil {
			if got, err := toPriceAnswer(&a); err == nil {
				_ = CheckPrices(req, got)
			}
		}
	})
}
