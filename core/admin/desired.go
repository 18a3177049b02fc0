package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/config"
)

// Document is a text that all replicas see, and that may not be there.
type Document interface {
	// Read is the text, nil where there is none.
	Read(ctx context.Context) ([]byte, error)
	// Change writes what f makes of the text; f may be called again when somebody else
	// wrote meanwhile. An error of f is answered as it is.
	Change(ctx context.Context, f func([]byte) ([]byte, error)) error
}

// Desired are the strategies that were swapped by command. They stand beside the
// configuration, whose owner (Helm, say) would write over them.
type Desired struct {
	Strategies map[string]Swap `json:"strategies,omitempty"`
	// RolledBack are strategies of the configuration that were taken out of service again:
	// what served before them serves in their place, also after a restart.
	RolledBack []RolledBack `json:"rolledBack,omitempty"`
}

// RolledBack says that a strategy was taken out of service, and what serves instead.
type RolledBack struct {
	Name string `json:"name"`
	// Binding is the kind of decision whose binding went back to another strategy; empty =
	// the strategy itself went back to what it was before.
	Binding string `json:"binding,omitempty"`
	// Serves is the name of what is in service instead, and Settings what the configuration
	// said of it.
	Serves   string          `json:"serves"`
	Settings config.Strategy `json:"settings"`
	// Instead is the fingerprint of what the configuration says of the strategy: once it says
	// something else, that is the newer word and is tried.
	Instead string    `json:"instead"`
	From    string    `json:"from"` // name and version
	To      string    `json:"to"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
}

// Fingerprint names all that a configuration says of a strategy. A field that is empty does
// not count, so that one which a later version adds makes no other of it.
func Fingerprint(cfg *config.Config, name string) (string, error) {
	s, _ := cfg.Strategy(name)
	text, err := json.Marshal(s)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil || v == "" || v == false || v == 0.0 })
	if err == nil {
		text, err = json.Marshal(fields)
	}
	if err != nil {
		return "", fmt.Errorf("strategies.%s: %w", name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Swap is the program that a strategy is to run instead of that of its configuration.
type Swap struct {
	Image  string `json:"image,omitempty"`
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Instead is the program of the configuration when the swap was asked for: once the
	// configuration names another, it is the newer word and the swap is over.
	Instead string    `json:"instead"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	// RolledBack says why it was taken back: it is not tried again.
	RolledBack string `json:"rolledBack,omitempty"`
}

// Program names it: an image, a path and its hash, or that it is built in.
func Program(image, path, sha256 string) string {
	switch {
	case image != "" && path != "":
		return image + " " + path
	case image != "":
		return image
	case path != "" && sha256 != "":
		return path + "@sha256:" + sha256
	case path != "":
		return path
	}
	return "built in"
}

// Program is what the swap is to run.
func (s Swap) Program() string { return Program(s.Image, s.Path, s.SHA256) }

func programOf(cfg *config.Config, name string) string {
	s, _ := cfg.Strategy(name)
	return Program(s.Image, s.Path, s.SHA256)
}

// ReadDesired reads the document of swaps; nothing is no swaps.
func ReadDesired(text []byte) (Desired, error) {
	var d Desired
	err := config.OneDocument(text)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &d)
	}
	if err != nil {
		return Desired{}, fmt.Errorf("the strategies that were swapped by command cannot be read: %w", err)
	}
	return d, nil
}

// Text is the document.
func (d Desired) Text() ([]byte, error) { return yaml.Marshal(d) }

// Ended is swaps, by name, and roll-backs that are over.
type Ended struct {
	Swaps      []string
	RolledBack []RolledBack
}

// None says whether there are none.
func (e Ended) None() bool { return len(e.Swaps)+len(e.RolledBack) == 0 }

// Over is a configuration with the swaps and roll-backs in it, and the names of those that
// are over: the configuration says something else by now, or has no such strategy any more.
// Swaps that were rolled back are left out. source names the document in errors.
func (d Desired) Over(cfg *config.Config, source string) (out *config.Config, over Ended, err error) {
	others := map[string]config.Strategy{}
	base := *cfg
	if over.RolledBack, err = d.goBack(&base, others); err != nil {
		return nil, over, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Strategies)) {
		swap := d.Strategies[name]
		s, ok := cfg.Strategy(name)
		switch {
		case !ok || swap.Instead != programOf(cfg, name):
			over.Swaps = append(over.Swaps, name)
			continue
		case swap.RolledBack != "":
			continue
		}
		s.Image, s.Path, s.SHA256 = swap.Image, swap.Path, swap.SHA256
		others[name] = s
	}
	if len(others) == 0 && base.Bindings == cfg.Bindings {
		return cfg, over, nil
	}
	out, err = base.WithStrategies(source, others)
	return out, over, err
}

// goBack takes in what was rolled back: bindings of the configuration, and the settings of
// strategies; it answers those that are over.
func (d Desired) goBack(cfg *config.Config, others map[string]config.Strategy) (over []RolledBack, err error) {
	for _, r := range d.RolledBack {
		now, err := Fingerprint(cfg, r.Name)
		if err != nil {
			return nil, err
		}
		bound := map[string]*string{"": nil, config.InstanceSelection: &cfg.Bindings.InstanceSelection, config.Consolidation: &cfg.Bindings.Consolidation}[r.Binding]
		if now != r.Instead || bound != nil && *bound != r.Name {
			over = append(over, r)
			continue
		}
		if bound != nil {
			*bound = r.Serves
			if _, ok := cfg.Strategy(r.Serves); ok {
				continue
			}
		}
		others[r.Serves] = r.Settings
	}
	return over, nil
}

// Drop takes what is over out of the document.
func Drop(ctx context.Context, doc Document, over Ended) error {
	return change(ctx, doc, func(d *Desired) error {
		for _, n := range over.Swaps {
			delete(d.Strategies, n)
		}
		d.RolledBack = slices.DeleteFunc(d.RolledBack, func(r RolledBack) bool {
			return slices.ContainsFunc(over.RolledBack, func(o RolledBack) bool { return r.of(o) && r.At.Equal(o.At) })
		})
		return nil
	})
}

// untake forgets that a strategy was rolled back, and says whether it was.
func (d *Desired) untake(name string) bool {
	n := len(d.RolledBack)
	d.RolledBack = slices.DeleteFunc(d.RolledBack, func(r RolledBack) bool { return r.Name == name })
	return len(d.RolledBack) < n
}

// of says whether two are of the same strategy or binding.
func (r RolledBack) of(o RolledBack) bool { return r.Name == o.Name && r.Binding == o.Binding }

// Keep writes down that a strategy was rolled back, in place of what is there of it.
func Keep(ctx context.Context, doc Document, r RolledBack) error {
	return change(ctx, doc, func(d *Desired) error {
		d.RolledBack = slices.DeleteFunc(d.RolledBack, r.of)
		d.RolledBack = append(d.RolledBack, r)
		return nil
	})
}

// TakeBack writes down that a swap was taken back, unless there is another by now.
func TakeBack(ctx context.Context, doc Document, name string, swap Swap, why string) error {
	return change(ctx, doc, func(d *Desired) error {
		if now, ok := d.Strategies[name]; ok && now == swap {
			now.RolledBack = cmp.Or(why, "for no reason that was told")
			d.Strategies[name] = now
		}
		return nil
	})
}

func change(ctx context.Context, doc Document, f func(*Desired) error) error {
	return doc.Change(ctx, func(text []byte) ([]byte, error) {
		d, err := ReadDesired(text)
		if err != nil {
			return nil, err
		}
		if d.Strategies == nil {
			d.Strategies = map[string]Swap{}
		}
		if err := f(&d); err != nil {
			return nil, err
		}
		return d.Text()
	})
}

// Status is the document that tells what runs. Counters alone are no reason to write it
// often: essence is the same text without them.
func Status(l List) (text []byte, essence string, err error) {
	if text, err = yaml.Marshal(l); err != nil {
		return nil, "", err
	}
	l.At, l.Strategies = time.Time{}, slices.Clone(l.Strategies)
	for i := range l.Strategies {
		s := &l.Strategies[i]
		s.Calls = Calls{LastBy: s.Calls.LastBy, FellBack: s.Calls.FellBack}
		s.Shadow = nil
		if s.Trial != nil {
			s.Trial = &Trial{State: s.Trial.State, From: s.Trial.From}
		}
	}
	short, err := json.Marshal(l)
	return text, string(short), err
}
