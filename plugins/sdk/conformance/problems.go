package conformance

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/weir-project/weir/plugins/sdk"
)

// Problem is a question to a strategy: exactly one of Price and Score is set.
type Problem struct {
	Name  string
	Price *sdk.PriceRequest
	Score *sdk.ScoreRequest
}

// Catalogue is the catalogue that the problem refers to.
func (p *Problem) Catalogue() *sdk.Catalogue {
	if p.Price != nil {
		return p.Price.Catalogue
	}
	return p.Score.Catalogue
}

// Kind is the kind of decision asked for.
func (p *Problem) Kind() sdk.Kind {
	if p.Price != nil {
		return sdk.InstanceSelection
	}
	return sdk.Consolidation
}

//go:embed problems/*.json
var golden embed.FS

// Golden are the problems of the kit: the samples, and the corners that a strategy
// should have been in before it is taken into service. Each call makes new ones.
func Golden() []Problem {
	out := []Problem{{Name: "sample", Price: sdk.SamplePrice()}, {Name: "sample", Score: sdk.SampleScore()}}
	entries, err := golden.ReadDir("problems")
	if err != nil {
		panic(err) // a broken build: the folder is embedded
	}
	for _, e := range entries {
		f, err := golden.Open(path.Join("problems", e.Name()))
		if err != nil {
			panic(err)
		}
		problems, err := ReadProblems(f, strings.TrimSuffix(e.Name(), ".json"))
		f.Close()
		if err != nil {
			panic(err) // a broken build: TestGolden reads them all
		}
		out = append(out, problems...)
	}
	return out
}

// entry is one JSON value of a file of problems: what the host records of a call, or
// the catalogue that calls behind it refer to. Fields that the kit has no use for are
// passed over.
type entry struct {
	Catalogue *struct {
		Hash      string
		Types     []sdk.InstanceType
		Offerings []struct {
			Type         int `json:"t"`
			Zone         string
			CapacityType string
			Reservation  string
		}
	}
	Call *struct {
		Kind      sdk.Kind
		Level     string
		Catalogue string
		Input     json.RawMessage
	}
}

// ReadProblems reads problems as the host records them: JSON values one after the
// other, {"catalogue": ...} before the {"call": ...} that name it. The name is for
// messages. Calls of levels other than price and score are passed over.
func ReadProblems(r io.Reader, name string) ([]Problem, error) {
	catalogues := map[string]*sdk.Catalogue{}
	var out []Problem
	dec := json.NewDecoder(r)
	for n := 1; ; n++ {
		var e entry
		err := dec.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s, value %d: %w", name, n, err)
		case e.Catalogue != nil:
			c := &sdk.Catalogue{}
			for i, o := range e.Catalogue.Offerings {
				if o.Type < 0 || o.Type >= len(e.Catalogue.Types) {
					return nil, fmt.Errorf("%s, value %d: offering %d is of type %d, there are %d types", name, n, i, o.Type, len(e.Catalogue.Types))
				}
				c.Offerings = append(c.Offerings, sdk.Offering{Type: &e.Catalogue.Types[o.Type], Zone: o.Zone, CapacityType: o.CapacityType, ReservationID: o.Reservation})
			}
			sdk.HashCatalogue(c)
			catalogues[e.Catalogue.Hash] = c
		case e.Call != nil:
			c, ok := catalogues[e.Call.Catalogue]
			if !ok {
				return nil, fmt.Errorf("%s, value %d: the catalogue %.12q is not in the file before it", name, n, e.Call.Catalogue)
			}
			p := Problem{Name: name}
			if len(out) > 0 {
				p.Name = fmt.Sprintf("%s, call %d", name, len(out)+1)
			}
			switch e.Call.Level {
			case "price":
				p.Price = &sdk.PriceRequest{}
				err = json.Unmarshal(e.Call.Input, p.Price)
				p.Price.Catalogue = c
			case "score":
				p.Score = &sdk.ScoreRequest{}
				err = json.Unmarshal(e.Call.Input, p.Score)
				p.Score.Catalogue = c
			default:
				continue
			}
			if err == nil {
				err = p.check()
			}
			if err != nil {
				return nil, fmt.Errorf("%s, value %d: %w", name, n, err)
			}
			out = append(out, p)
		}
	}
}

// check holds the indexes of a problem that was read against its catalogue.
func (p *Problem) check() error {
	offerings := len(p.Catalogue().Offerings)
	pools := []sdk.Pool{}
	if p.Price != nil {
		pools = p.Price.Pools
		if len(p.Price.USDPerHour) != offerings {
			return fmt.Errorf("%d prices for a catalogue of %d offerings", len(p.Price.USDPerHour), offerings)
		}
		for o := range p.Price.Health {
			if o < 0 || o >= offerings {
				return fmt.Errorf("health of offering %d of %d", o, offerings)
			}
		}
	} else {
		pools = p.Score.Pools
		for i, m := range p.Score.Moves {
			if m.Pool < 0 || m.Pool >= len(pools) {
				return fmt.Errorf("move %d is of pool %d of %d", i, m.Pool, len(pools))
			}
			for _, n := range m.Remove {
				if n.Offering < -1 || n.Offering >= offerings {
					return fmt.Errorf("move %d removes offering %d of %d", i, n.Offering, offerings)
				}
			}
			for _, n := range m.Launch {
				if n.Offering < 0 || n.Offering >= offerings {
					return fmt.Errorf("move %d launches offering %d of %d", i, n.Offering, offerings)
				}
			}
		}
	}
	for _, pool := range pools {
		last := -1
		for _, o := range pool.Offerings {
			if o <= last || o >= offerings {
				return fmt.Errorf("pool %q: offering %d: want ascending indexes below %d", pool.Name, o, offerings)
			}
			last = o
		}
		for _, r := range pool.Running {
			if r.Offering < -1 || r.Offering >= offerings {
				return fmt.Errorf("pool %q: runs offering %d of %d", pool.Name, r.Offering, offerings)
			}
		}
	}
	return nil
}
