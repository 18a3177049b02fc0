package load_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/core/kube/load"
)

// Whatever is read, the loader answers an input whose pods can be planned with, or
// errors that say where.
func FuzzFiles(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/seed/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add(manyPods(3))
	f.Add([]byte(class + pool + "---" + deployment))
	f.Add([]byte(`{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"\u0041"}},"spec":{"nodeName":"x","containers":[{"name":"c"}]},"status":{"phase":"Running"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := load.Files([]string{"-"}, bytes.NewReader(data), load.Options{MaxBytes: 1 << 20})
		if err != nil {
			var e *load.Error
			if !errors.As(err, &e) || e.File != "-" || e.Msg == "" {
				t.Fatalf("%v (%T) does not say where", err, err)
			}
			return
		}
		for _, p := range in.Pods {
			if p.Name == "" || p.Namespace == "" || len(p.Terms) == 0 || p.Requests.Base[2] != 1 || p.NodeName != "" {
				t.Fatalf("pod %+v", p)
			}
		}
		for _, n := range in.Nodes {
			if n.ID() == "" {
				t.Fatalf("node %+v", n)
			}
		}
	})
}
