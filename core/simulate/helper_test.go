package simulate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/kube/load"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/strategy"
)

const demo = "../../integration/demo"

func zones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

func sells(c *model.NodeClass) []*model.Offering {
	return catalogue.Embedded().Offerings(c, zones(), catalogue.Options{})
}

// few is a small part of what is sold, for tests that run a story many times.
func few(c *model.NodeClass) []*model.Offering {
	var out []*model.Offering
	for _, o := range sells(c) {
		switch o.Type.Labels[model.AWSLabelDomain+"/instance-family"] {
		case "c6a", "m6a", "c7i-flex", "m5":
			out = append(out, o)
		}
	}
	return out
}

// files loads files of a folder, as apply steps name them.
func files(folder string) func([]string) (*Input, error) {
	return func(paths []string) (*Input, error) {
		full := make([]string, len(paths))
		for i, p := range paths {
			full[i] = filepath.Join(folder, p)
		}
		in, err := load.Files(full, nil, load.Options{})
		if err != nil {
			return nil, err
		}
		return FromFiles(in), nil
	}
}

func options(t testing.TB) Options {
	t.Helper()
	host, err := strategy.New(strategy.Config{}, strategy.Options{CallTimeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return Options{Catalogue: sells, Strategy: host, Load: files(demo)}
}

func scenario(t testing.TB, path string) *Scenario {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := ParseScenario(f, path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
