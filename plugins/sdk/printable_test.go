package sdk

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"as it is, ü and 日本", 100, "as it is, ü and 日本"},
		{"two\nlines\tand\r\na third", 100, "two lines and  a third"},
		{"\x1b[2Jgone\x00\x7f\u0085", 100, "\ufffd[2Jgone\ufffd\ufffd "},
		{"ab\u202ecd\u2066\ufeff", 100, "ab\ufffdcd\ufffd\ufffd"},
		{"bad \xff\xfe", 100, "bad \ufffd\ufffd"},
		{"0123456789", 10, "0123456789"},
		{"0123456789a", 10, "0123456..."},
		{"012345ü789", 10, "012345..."}, // the character does not go in half
		{"", 0, ""},
	} {
		if got := Printable(c.text, c.most); got != c.want {
			t.Errorf("%q, at most %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]0;title\a", 5)
	f.Add(strings.Repeat("\xff", 100), 50)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, most%4096)
		got := Printable(text, most)
		if len(got) > most || !utf8.ValidString(got) || Printable(got, most) != got {
			t.Errorf("%q, at most %d: %q", text, most, got)
		}
	})
}

func TestDescriptionIsPrintable(t *testing.T) {
	t.Parallel()
	for _, d := range []Description{{Name: "x", Version: "1\x1b[2J"}, {Name: "x", Version: "1", Summary: "two\nlines"}, {Name: "x", Version: "1", Documentation: "https://\u202e"}} {
		if err := CheckDescription(d); err == nil || !isPrintable(err.Error()) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}
