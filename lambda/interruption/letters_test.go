package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// SQS refuses characters that XML 1.0 does not have, and messages that are too long.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "",
		`{"a":"ü"}`:          `{"a":"ü"}`,
		"a\x00b\x1bc\td\r\n": "a\uFFFDb\uFFFDc\td\r\n",
		"\xff\xfe":           "\uFFFD",
		"\uFFFE\uFFFF😀":      "\uFFFD\uFFFD😀",
	} {
		if got := printable(in, 100); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := printable(strings.Repeat("ü", 100), 99); len(got) > 102 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestRelayed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "queue": true} {
		if got, err := relayed(value); got != want || err != nil {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	if _, err := relayed("true"); err == nil || !strings.Contains(err.Error(), "WEIR_RELAY") {
		t.Errorf("error %v, want one that names the variable", err)
	}
}
