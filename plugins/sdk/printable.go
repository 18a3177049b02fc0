package sdk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is text of a strategy as logs, conditions and terminals may show it: one line of
// at most so many bytes, in which white space is a space and what cannot be printed, such as
// control characters, marks that turn the direction of writing and bytes that are no UTF-8,
// is U+FFFD. What was cut ends with three dots.
func Printable(text string, most int) string {
	const cut = "..."
	long := len(text) > most
	if long {
		text = text[:max(0, most-len(cut))]
		for i := 0; i < utf8.UTFMax && len(text) > 0; i++ { // no half of a character
			if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most { // the replacement is longer than what it stands for
			break
		}
		b.WriteRune(r)
	}
	out := b.String()
	if long && len(out)+len(cut) <= most {
		out += cut
	}
	return out
}

// isPrintable says whether a text is one that Printable leaves as it is.
func isPrintable(text string) bool { return Printable(text, len(text)) == text }

// reason is a text of an answer, which the checks judge by its length.
func reason(text string) string { return Printable(text, maxReasonBytes) }

// maxReasonBytes is more than a legal reason has.
const maxReasonBytes = 2 * utf8.UTFMax * MaxReason
