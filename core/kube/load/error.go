package load

import (
	"errors"
	"fmt"
	"strings"
)

// Error says what is wrong with an input, and where.
type Error struct {
	File     string // path as given or found, "-" for standard input
	Document int    // from 1; 0 = the file as a whole
	Object   string // "NodePool default", or empty where it is not known
	Field    string // path inside the document, or empty
	Msg      string // what is wrong and what was expected
}

// Error is file: document (object): field: message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Document > 0 {
		fmt.Fprintf(&b, ": document %d", e.Document)
	}
	if e.Object != "" {
		fmt.Fprintf(&b, " (%s)", e.Object)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(readable(e.Field) + ": ")
	}
	return b.String() + readable(e.Msg)
}

// readable cuts the middle out of a text that nobody would read: a name of ten
// megabytes says no more than its beginning.
func readable(s string) string {
	const head, tail = 1200, 400
	if len(s) <= head+tail {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes left out) ...%s", strings.ToValidUTF8(s[:head], ""), len(s)-head-tail, strings.ToValidUTF8(s[len(s)-tail:], ""))
}

// place is where an object was read. Files are numbered in the loader.
type place struct {
	file, doc int32
	item      int32 // index in a list or array, -1 = the document itself
	list      bool  // item is under "items"
}

// join makes one error of several, nil of none.
func join(errs []error) error {
	const most = 20
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}
