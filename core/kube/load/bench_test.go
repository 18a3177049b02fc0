package load_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/core/kube/load"
)

// manyPods writes pods as the benchmark generator does: an array, a compact pod a line.
func manyPods(n int) []byte {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		app := i / 250
		fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"deploy-%03d"},"name":"e-%05d","namespace":"default"},`+
			`"spec":{"containers":[{"image":"registry.k8s.io/pause:3.10","name":"app","resources":{"requests":{"cpu":"%dm","memory":"%dMi"}}}],`+
			`"schedulerName":"default-scheduler"}}`, app, i, 10+app, 64+app)
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}

func BenchmarkFiles(b *testing.B) {
	file := filepath.Join(b.TempDir(), "pods.json")
	data := manyPods(50_000)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		in, err := load.Files([]string{file}, nil, load.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(in.Pods) != 50_000 {
			b.Fatalf("%d pods", len(in.Pods))
		}
	}
}
