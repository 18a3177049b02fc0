package load

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxYAMLDocument is the largest YAML document that is read in one piece, in bytes.
// A list is read item by item and may be as large as a file.
const maxYAMLDocument = 32 << 20

// document is one YAML document and the line of the file on which it starts, from 0.
type document struct {
	text []byte
	line int
}

// documents cuts a YAML stream at its separators. Documents of nothing but space and
// comments are left out.
func documents(b []byte) []document {
	var out []document
	start, startLine, line := 0, 0, 0
	add := func(end int) {
		if d := b[start:end]; !blank(d) {
			out = append(out, document{d, startLine})
		}
	}
	for i := 0; i < len(b); {
		end := bytes.IndexByte(b[i:], '\n')
		next := len(b)
		if end >= 0 {
			next = i + end + 1
		}
		switch l := b[i:next]; {
		case mark(l, "---"):
			add(i)
			start, startLine = i+3, line
		case mark(l, "..."): // ends a document without starting one; what follows is the next
			add(i)
			start, startLine = next, line+1
		}
		i, line = next, line+1
	}
	add(len(b))
	return out
}

// mark says whether a line starts with a mark between documents.
func mark(l []byte, m string) bool {
	return bytes.HasPrefix(l, []byte(m)) && (len(l) == len(m) || bytes.IndexByte([]byte(" \t\r\n"), l[len(m)]) >= 0)
}

// blank says whether a document holds nothing but space, comments and end marks.
func blank(b []byte) bool {
	for len(b) > 0 {
		l := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			l, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		l = bytes.TrimSpace(l)
		if len(l) > 0 && l[0] != '#' && string(l) != "..." && string(l) != "---" {
			return false
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`line (\d+):`)

// toJSON converts one YAML document; line numbers in errors are those of the file.
func toJSON(d document) ([]byte, error) {
	if len(d.text) > maxYAMLDocument {
		return nil, fmt.Errorf("a YAML document of %d MiB is more than the %d MiB that are read in one piece: split it, or write it as JSON", len(d.text)>>20, maxYAMLDocument>>20)
	}
	out, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		msg := yamlLine.ReplaceAllStringFunc(err.Error(), func(m string) string {
			n, _ := strconv.Atoi(yamlLine.FindStringSubmatch(m)[1])
			return fmt.Sprintf("line %d:", n+d.line)
		})
		if strings.Contains(msg, `key "apiVersion" already set`) || strings.Contains(msg, `key "kind" already set`) {
			msg += "\nare these two objects without a line of --- between them?"
		}
		return nil, fmt.Errorf("broken YAML: %s", msg)
	}
	return out, nil
}

// yamlList cuts a list as kubectl prints it (items at the margin, one "- " each) into
// the list without its items, and the items as documents of their own, so that a
// dump of a large cluster is never in memory as a tree. ok is false for everything
// that does not look exactly so.
func yamlList(d document) (head document, items []document, ok bool) {
	const key = "\nitems:"
	at := 0
	if !bytes.HasPrefix(d.text, []byte(key[1:])) {
		if at = bytes.Index(d.text, []byte(key)) + 1; at == 0 {
			return head, nil, false
		}
	}
	i := at + len(key) - 1
	eol := bytes.IndexByte(d.text[i:], '\n')
	if eol < 0 || len(bytes.TrimSpace(d.text[i:i+eol])) > 0 {
		return head, nil, false
	}
	i += eol + 1
	if bytes.ContainsAny(d.text[:at], "&*") {
		return head, nil, false
	}
	line := d.line + bytes.Count(d.text[:i], []byte("\n"))
	start, startLine := -1, 0
	end := i
	for end < len(d.text) {
		next := len(d.text)
		if n := bytes.IndexByte(d.text[end:], '\n'); n >= 0 {
			next = end + n + 1
		}
		l := d.text[end:next]
		switch {
		case bytes.HasPrefix(l, []byte("- ")):
			if start >= 0 {
				items = append(items, document{d.text[start:end], startLine})
			}
			start, startLine = end, line
		case l[0] == ' ' || l[0] == '#' || len(bytes.TrimSpace(l)) == 0:
			if start < 0 && l[0] == ' ' && len(bytes.TrimSpace(l)) > 0 {
				return head, nil, false // items are indented
			}
		default: // the next key of the list, such as kind
			goto tail
		}
		end, line = next, line+1
	}
tail:
	if start >= 0 {
		items = append(items, document{d.text[start:end], startLine})
	}
	if len(items) == 0 {
		return head, nil, false
	}
	head = document{append(append([]byte{}, d.text[:at]...), d.text[end:]...), d.line}
	return head, items, true
}

// itemJSON converts one item of yamlList: a sequence of one element.
func itemJSON(d document) ([]byte, error) {
	j, err := toJSON(d)
	if err != nil {
		return nil, err
	}
	var item []byte
	err = elements(j, func(i int, v []byte) error {
		if i > 0 {
			return errSyntax
		}
		item = v
		return nil
	})
	return item, err
}
