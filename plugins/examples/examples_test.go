package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A useful strategy is short: that is a promise to its authors.
func TestShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"prefer-arm", "carbon", "commitments-first"} {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines >= 60 {
			t.Errorf("%s/main.go has %d lines, want fewer than 60", name, lines)
		}
	}
}
