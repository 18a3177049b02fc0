package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The scanner finds the borders of JSON values without building anything, so that a
// list of many thousand objects is cut into pieces at the speed of memory. It checks
// structure only as far as it must; every piece that is used is decoded, and with
// that checked, by a real decoder.

var errSyntax = errors.New("not JSON")

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString answers the index behind a string that starts at i.
func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, errSyntax
}

// skipValue answers the index behind the value that starts at i.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, errSyntax
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				end, err := skipString(b, i)
				if err != nil {
					return 0, err
				}
				i = end
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			}
			i++
		}
		return 0, errSyntax
	}
	start := i
word:
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			break word
		}
		i++
	}
	if i == start {
		return 0, errSyntax
	}
	return i, nil
}

// elements calls f for each element of the array b, which starts with '['.
func elements(b []byte, f func(i int, value []byte) error) error {
	i := skipSpace(b, 1)
	if i < len(b) && b[i] == ']' {
		return rest(b, i+1)
	}
	for n := 0; ; n++ {
		end, err := skipValue(b, i)
		if err != nil {
			return err
		}
		if err := f(n, b[i:end]); err != nil {
			return err
		}
		i = skipSpace(b, end)
		if i >= len(b) {
			return errSyntax
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return rest(b, i+1)
		default:
			return errSyntax
		}
	}
}

// members calls f for each member of the object b, which starts with '{'.
func members(b []byte, f func(key string, value []byte) error) error {
	i := skipSpace(b, 1)
	if i < len(b) && b[i] == '}' {
		return rest(b, i+1)
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return errSyntax
		}
		end, err := skipString(b, i)
		if err != nil {
			return err
		}
		key, err := text(b[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ':' {
			return errSyntax
		}
		i = skipSpace(b, i+1)
		end, err = skipValue(b, i)
		if err != nil {
			return err
		}
		if err := f(key, b[i:end]); err != nil {
			return err
		}
		i = skipSpace(b, end)
		if i >= len(b) {
			return errSyntax
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return rest(b, i+1)
		default:
			return errSyntax
		}
	}
}

func rest(b []byte, i int) error {
	if skipSpace(b, i) != len(b) {
		return errSyntax
	}
	return nil
}

// manyKeys is from how many keys on those of an object are looked up, not compared.
const manyKeys = 32

// repeated finds the first key that an object in b gives twice: the key in its quotes and
// where the second one is, or nothing. What is not JSON is for others to say.
func repeated(b []byte) (key string, at int) {
	type frame struct {
		object bool
		first  int // of its keys
		many   map[string]bool
	}
	var stack []frame
	var keys [][]byte
	wanted := false // the next string is a key
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end, err := skipString(b, i)
			if err != nil {
				return "", 0
			}
			if wanted {
				k, f := b[i:end], &stack[len(stack)-1]
				if f.many == nil && len(keys)-f.first >= manyKeys {
					f.many = map[string]bool{}
					for _, have := range keys[f.first:] {
						f.many[string(have)] = true
					}
				}
				if f.many[string(k)] || f.many == nil && slices.ContainsFunc(keys[f.first:], func(have []byte) bool { return bytes.Equal(have, k) }) {
					return string(k), i
				}
				if f.many != nil {
					f.many[string(k)] = true
				}
				keys, wanted = append(keys, k), false
			}
			i = end - 1
		case '{', '[':
			wanted = b[i] == '{'
			stack = append(stack, frame{object: wanted, first: len(keys)})
		case '}', ']':
			if len(stack) == 0 {
				return "", 0
			}
			keys, stack, wanted = keys[:stack[len(stack)-1].first], stack[:len(stack)-1], false
		case ',':
			wanted = len(stack) > 0 && stack[len(stack)-1].object
		}
	}
	return "", 0
}

// common are texts that every object repeats; text answers these without a copy.
var common = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		"apiVersion", "kind", "metadata", "spec", "status", "items", "name", "namespace", "uid", "labels", "annotations", "generateName",
		"generation", "creationTimestamp", "deletionTimestamp", "ownerReferences", "resourceVersion", "managedFields", "v1", "Pod", "default",
		"containers", "nodeName", "volumes", "tolerations", "affinity", "schedulerName", "nodeSelector", "restartPolicy",
	} {
		m[s] = s
	}
	return m
}()

// text is the value of a JSON string.
func text(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' {
		return "", fmt.Errorf("expected a string, got %s", short(b))
	}
	inner := b[1 : len(b)-1]
	if s, ok := common[string(inner)]; ok {
		return s, nil
	}
	for _, c := range inner {
		if c == '\\' || c < ' ' || c >= 0x80 {
			var s string
			err := json.Unmarshal(b, &s)
			return s, err
		}
	}
	return string(inner), nil
}

// short is a value cut for a message.
func short(b []byte) string {
	const most = 40
	if len(b) > most {
		return string(bytes.ToValidUTF8(b[:most], nil)) + "…"
	}
	return string(bytes.ToValidUTF8(b, nil))
}

// jsonProblem reads a stream of JSON values slowly, to say where it is broken.
func jsonProblem(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			continue
		}
		at := d.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = max(syntax.Offset-1, 0)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			at = int64(len(b))
		}
		at = min(at, int64(len(b)))
		return fmt.Errorf("broken JSON at line %d: %w", 1+bytes.Count(b[:at], []byte("\n")), err)
	}
}
