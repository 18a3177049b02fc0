package measure

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Marks are the lines around the part of a document that a maker writes.
func Marks(maker string) (begin, end string) {
	return fmt.Sprintf("<!-- made by %s: begin -->", maker), fmt.Sprintf("<!-- made by %s: end -->", maker)
}

// Rewrite replaces what is between the marks of a maker in a document.
func Rewrite(path, maker, text string) error {
	markBegin, markEnd := Marks(maker)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := bytes.Index(data, []byte(markBegin)), bytes.Index(data, []byte(markEnd))
	if begin < 0 || end < begin {
		return fmt.Errorf("%s: expected the lines %q and %q", path, markBegin, markEnd)
	}
	out := slices.Concat(data[:begin+len(markBegin)], []byte("\n\n"+strings.TrimSpace(text)+"\n\n"), data[end:])
	return os.WriteFile(path, out, 0o644)
}
