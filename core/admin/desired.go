package admin

import (
	"cmp"
	"context"
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
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return Desired{}, fmt.Errorf("the strategies that were swapped by command cannot be read: %w", err)
	}
	return d, nil
}

// Text is the document.
func (d Desired) Text() ([]byte, error) { return yaml.Marshal(d) }

// Over is a configuration with the swaps in it, and the names of those that are over:
// the configuration has another program by now, or no such strategy any more. Swaps
// that were rolled back are left out. source names the document in errors.
func (d Desired) Over(cfg *config.Config, source string) (out *config.Config, over []string, err error) {
	others := map[string]config.Strategy{}
	for _, name := range slices.Sorted(maps.Keys(d.Strategies)) {
		swap := d.Strategies[name]
		s, ok := cfg.Strategy(name)
		switch {
		case !ok || swap.Instead != programOf(cfg, name):
			over = append(over, name)
			continue
		case swap.RolledBack != "":
			continue
		}
		s.Image, s.Path, s.SHA256 = swap.Image, swap.Path, swap.SHA256
		others[name] = s
	}
	if len(others) == 0 {
		return cfg, over, nil
	}
	out, err = cfg.WithStrategies(source, others)
	return out, over, err
}

// Drop takes swaps out of the document.
func Drop(ctx context.Context, doc Document, names []string) error {
	return change(ctx, doc, func(d *Desired) error {
		for _, n := range names {
			delete(d.Strategies, n)
		}
		return nil
	})
}

// RolledBack writes down that a swap was taken back, unless there is another by now.
func RolledBack(ctx context.Context, doc Document, name string, swap Swap, why string) error {
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
		s.Calls = Calls{LastBy: s.Calls.LastBy}
		s.Shadow = nil
		if s.Trial != nil {
			s.Trial = &Trial{State: s.Trial.State, From: s.Trial.From}
		}
	}
	short, err := json.Marshal(l)
	return text, string(short), err
}
