package config

import (
	"fmt"
	"strings"
)

// Error is one thing that is wrong, with where it was said.
type Error struct {
	Source  string // file:line, "environment variable X", "flag --x", or "default"
	Field   string // such as batch.idle; empty for the document as a whole
	Message string // what is wrong and what was expected
}

// Error is source, field and message.
func (e Error) Error() string {
	var b strings.Builder
	if e.Source != "" {
		b.WriteString(e.Source + ": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Message
}

// Errors is everything that is wrong with a configuration, one line each.
type Errors []Error

// Error is one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

func (e *Errors) add(source, field, format string, args ...any) {
	*e = append(*e, Error{Source: source, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Nearest is the candidate that a person most likely meant, or empty.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of letters to add, drop, change or swap with their neighbour.
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
