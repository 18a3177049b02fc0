package sdk

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"
)

// Bounds of what may cross the wire. The host holds answers against them, the SDK
// requests.
const (
	MaxMessageBytes = 16 << 20
	MaxConfigBytes  = 1 << 20
	MaxPools        = 1000
	MaxMoves        = 10000
	MaxTexts        = 200_000
	MaxTypes        = 20_000
	MaxOfferings    = 200_000
	MaxLimits       = 64
	MaxSteps        = 16
	MaxReason       = 200 // characters
	MaxUSDPerHour   = 1e6 // a price above is taken for an error
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckDescription says what is wrong with a manifest.
func CheckDescription(d Description) error {
	switch {
	case !nameForm.MatchString(d.Name):
		return fmt.Errorf("name %.70q: want lower case letters, digits and dashes, at most 63", d.Name)
	case d.Version == "" || len(d.Version) > 63:
		return fmt.Errorf("version %.70q: want 1 to 63 characters", d.Version)
	case !isPrintable(d.Version) || !isPrintable(d.Summary) || !isPrintable(d.Documentation):
		return fmt.Errorf("version %q, summary %.200q, documentation %.200q: want characters that can be printed, on one line", d.Version, d.Summary, d.Documentation)
	case utf8.RuneCountInString(d.Summary) > MaxReason:
		return fmt.Errorf("summary: %d characters, at most %d", utf8.RuneCountInString(d.Summary), MaxReason)
	case len(d.ConfigSchema) > MaxConfigBytes:
		return fmt.Errorf("config schema: %d bytes, at most %d", len(d.ConfigSchema), MaxConfigBytes)
	}
	return nil
}

// CheckPrices says what is wrong with an answer, nil if it may be used: one entry
// per pool, every price finite, not negative and of a believable size, every
// offering one of the pool's.
func CheckPrices(req *PriceRequest, ans *PriceAnswer) error {
	if len(ans.Pools) != len(req.Pools) {
		return fmt.Errorf("%d pools answered, %d asked", len(ans.Pools), len(req.Pools))
	}
	for i := range ans.Pools {
		if err := CheckPoolPrices(&req.Pools[i], &ans.Pools[i]); err != nil {
			return fmt.Errorf("pool %q: %w", req.Pools[i].Name, err)
		}
	}
	return nil
}

// CheckPoolPrices is CheckPrices for one pool.
func CheckPoolPrices(pool *Pool, p *PoolPrices) error {
	if len(p.USDPerHour) != len(pool.Offerings) {
		return fmt.Errorf("%d prices answered, %d offerings asked", len(p.USDPerHour), len(pool.Offerings))
	}
	for k, usd := range p.USDPerHour {
		if err := checkPrice(usd); err != nil {
			return fmt.Errorf("offering %d: %w", pool.Offerings[k], err)
		}
	}
	if err := checkPrice(p.FeePerNode); err != nil {
		return fmt.Errorf("fee per node: %w", err)
	}
	for offering, steps := range p.Steps {
		if err := checkSteps(pool, offering, steps); err != nil {
			return err
		}
	}
	for _, v := range p.Vetoes {
		if v.Reason == "" || utf8.RuneCountInString(v.Reason) > MaxReason {
			return fmt.Errorf("veto reason %.40q: want 1 to %d characters", v.Reason, MaxReason)
		}
		for _, o := range v.Offerings {
			if !pool.has(o) {
				return fmt.Errorf("veto %q: offering %d is not one of the pool's", v.Reason, o)
			}
		}
	}
	if len(p.Limits) > MaxLimits {
		return fmt.Errorf("%d limits, at most %d", len(p.Limits), MaxLimits)
	}
	for _, l := range p.Limits {
		if err := checkLimit(l); err != nil {
			return fmt.Errorf("limit %.63q: %w", l.Name, err)
		}
	}
	return nil
}

func (p *Pool) has(offering int) bool {
	_, ok := slices.BinarySearch(p.Offerings, offering)
	return ok
}

func checkPrice(usd float64) error {
	if math.IsNaN(usd) || usd < 0 || usd > MaxUSDPerHour {
		return fmt.Errorf("price %v: want 0 to %g USD per hour", usd, float64(MaxUSDPerHour))
	}
	return nil
}

func checkSteps(pool *Pool, offering int, steps []Step) error {
	if !pool.has(offering) {
		return fmt.Errorf("steps: offering %d is not one of the pool's", offering)
	}
	if len(steps) == 0 || len(steps) > MaxSteps {
		return fmt.Errorf("offering %d: %d steps, want 1 to %d", offering, len(steps), MaxSteps)
	}
	for i, s := range steps {
		if err := checkPrice(s.USDPerHour); err != nil {
			return fmt.Errorf("offering %d, step %d: %w", offering, i, err)
		}
		endless := s.Nodes == 0 && s.SumUSDPerHour == 0
		switch {
		case s.Nodes < 0, s.Nodes > 0 && s.SumUSDPerHour != 0:
			return fmt.Errorf("offering %d, step %d: want a number of nodes, a sum, or neither", offering, i)
		case endless != (i == len(steps)-1):
			return fmt.Errorf("offering %d, step %d: the last step, and only the last, is without end", offering, i)
		}
		if err := checkPrice(s.SumUSDPerHour); err != nil {
			return fmt.Errorf("offering %d, step %d, sum: %w", offering, i, err)
		}
	}
	return nil
}

func checkLimit(l Limit) error {
	rules := 0
	if l.Share != nil {
		rules++
		s := l.Share
		if !(s.Min >= 0 && s.Min <= s.Max && s.Max <= 1) {
			return fmt.Errorf("share %v to %v: want 0 <= min <= max <= 1", s.Min, s.Max)
		}
		if s.Measure < MeasureNodes || s.Measure > MeasureUSDPerHour {
			return fmt.Errorf("unknown measure %d", s.Measure)
		}
		if len(s.Selector) > 16 {
			return fmt.Errorf("%d matches in the selector, at most 16", len(s.Selector))
		}
		for _, m := range s.Selector {
			if m.Key == "" || len(m.Values) == 0 || len(m.Values) > 256 {
				return fmt.Errorf("selector %q: want a key and 1 to 256 values", m.Key)
			}
		}
	}
	if p := l.PodsPerNode; p != nil {
		rules++
		if p.Max < 0 || !(p.Share >= 0 && p.Share <= 1) || p.Max == 0 && p.Share == 0 {
			return fmt.Errorf("pods per node %d, share %v: want at least 1, or a share above 0 and at most 1, or both", p.Max, p.Share)
		}
	}
	if v := l.Variety; v != nil {
		rules++
		if v.Min < 1 || v.Over != OverZones && v.Over != OverSpotPools {
			return fmt.Errorf("variety over %d, at least %d: want zones or spot pools, at least 1", v.Over, v.Min)
		}
	}
	if rules != 1 || l.Name == "" || len(l.Name) > 63 {
		return fmt.Errorf("%d rules: want a name of at most 63 characters and exactly one rule", rules)
	}
	return nil
}

// CheckScores says what is wrong with an answer, nil if it may be used: one verdict
// per move, scores finite, a reason for every refusal.
func CheckScores(req *ScoreRequest, ans *ScoreAnswer) error {
	if len(ans.Verdicts) != len(req.Moves) {
		return fmt.Errorf("%d moves answered, %d asked", len(ans.Verdicts), len(req.Moves))
	}
	for i := range ans.Verdicts {
		if err := CheckVerdict(&ans.Verdicts[i]); err != nil {
			return fmt.Errorf("move %d: %w", i, err)
		}
	}
	return nil
}

// CheckVerdict is CheckScores for one move.
func CheckVerdict(v *Verdict) error {
	switch {
	case math.IsNaN(v.Score) || math.IsInf(v.Score, 0):
		return fmt.Errorf("score %v is not finite", v.Score)
	case !v.Accept && v.Reason == "":
		return errors.New("refused without a reason")
	case utf8.RuneCountInString(v.Reason) > MaxReason:
		return fmt.Errorf("reason of %d characters, at most %d", utf8.RuneCountInString(v.Reason), MaxReason)
	}
	return nil
}
