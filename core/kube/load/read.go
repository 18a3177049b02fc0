package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-project/weir/core/userfile"
)

// Options of Files.
type Options struct {
	// MaxBytes is the largest file that is read, in bytes; 0 = that of the package.
	MaxBytes int64
	// SpreadDefaults are the constraints that kube-scheduler was told to apply to pods
	// without any. With them the selectors of services and controllers count.
	SpreadDefaults []corev1.TopologySpreadConstraint
}

// MaxBytes is the largest file that is read unless Options say otherwise, in bytes.
const MaxBytes = 256 << 20

// Files reads the given files, folders ("*.yaml", "*.yml" and "*.json" below them) and
// standard input ("-"). Errors are *Error, several of them joined.
func Files(paths []string, stdin io.Reader, opts Options) (*Input, error) {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = MaxBytes
	}
	l := newLoader()
	l.around.Defaults = opts.SpreadDefaults
	if len(paths) == 0 {
		return nil, &Error{File: "-f", Msg: "expected at least one file, folder or -"}
	}
	read := map[string]bool{}
	for _, path := range paths {
		if path == "-" {
			if read["-"] {
				return nil, &Error{File: "-", Msg: "standard input is named twice"}
			}
			read["-"] = true
			if err := l.stdin(stdin, opts.MaxBytes); err != nil {
				return nil, err
			}
			continue
		}
		if err := l.path(path, read, opts.MaxBytes); err != nil {
			return nil, err
		}
	}
	if len(l.errs) > 0 {
		return nil, join(l.errs)
	}
	return l.assemble()
}

func (l *loader) stdin(r io.Reader, most int64) error {
	if r == nil {
		return &Error{File: "-", Msg: "there is no standard input"}
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return &Error{File: "-", Msg: "cannot be read: " + err.Error()}
	}
	if int64(len(data)) > most {
		return &Error{File: "-", Msg: fmt.Sprintf("more than %d MiB", most>>20)}
	}
	l.file("-", data, true)
	return nil
}

func (l *loader) path(path string, read map[string]bool, most int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return &Error{File: path, Msg: reason(err)}
	}
	if !info.IsDir() {
		return l.open(path, true, read, most)
	}
	found := false
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return &Error{File: p, Msg: reason(err)}
		}
		switch strings.ToLower(filepath.Ext(p)) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		info, err := os.Stat(p) // a link may lead to a file
		switch {
		case err != nil:
			return &Error{File: p, Msg: reason(err)}
		case info.IsDir():
			return nil
		case !info.Mode().IsRegular(): // reading a pipe that nobody writes to would never end
			return &Error{File: p, Msg: "is a pipe, a socket or a device, expected a file"}
		}
		found = true
		return l.open(p, false, read, most)
	})
	if err != nil {
		return err
	}
	if !found {
		return &Error{File: path, Msg: "the folder holds no *.yaml, *.yml or *.json file"}
	}
	return nil
}

// reason is an error of the file system without the path, which is told beside it.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file or folder"
	}
	return "cannot be read: " + err.Error()
}

func (l *loader) open(path string, named bool, read map[string]bool, most int64) error {
	key := filepath.Clean(path)
	if read[key] {
		return nil // named twice, or named and in a named folder
	}
	read[key] = true
	f, err := userfile.Open(path)
	if err != nil {
		return &Error{File: path, Msg: reason(err)}
	}
	defer f.Close()
	var data []byte
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		if info.Size() > most {
			return &Error{File: path, Msg: fmt.Sprintf("the file has %d MiB, more than the %d MiB that are read", info.Size()>>20, most>>20)}
		}
		data = make([]byte, 0, info.Size()+1)
	}
	buf := bytes.NewBuffer(data)
	if _, err := buf.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return &Error{File: path, Msg: reason(err)}
	}
	if int64(buf.Len()) > most {
		return &Error{File: path, Msg: fmt.Sprintf("more than %d MiB", most>>20)}
	}
	l.file(path, buf.Bytes(), named)
	return nil
}

// file reads the content of one file. A file that was named must hold something that
// is read; one that was found in a folder need not.
func (l *loader) file(name string, data []byte, named bool) {
	l.files = append(l.files, name)
	l.known, l.unknown = 0, nil
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	p := place{file: int32(len(l.files) - 1), item: -1}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		l.fail(p, "", "", "is UTF-16, expected UTF-8")
		return
	}
	if blank(data) {
		if named {
			l.fail(p, "", "", "the file holds no object")
		} else {
			l.warn("%s: holds no object", name)
		}
		return
	}
	if !l.jsonStream(p, data) {
		l.yamlStream(p, data)
	}
	if len(l.unknown) == 0 {
		return
	}
	sort.Strings(l.unknown)
	what := compactList(l.unknown)
	if named && l.known == 0 {
		l.fail(p, "", "", "nothing in it is of a kind that is read: "+what)
		return
	}
	l.warn("%s: not of a kind that is read: %s", name, what)
}

// written is the size up to which people write files; what is larger a program has made,
// which gives no key twice.
const written = 16 << 20

// jsonStream reads a file of JSON values; false = it is not JSON.
func (l *loader) jsonStream(p place, data []byte) bool {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return false
	}
	const small = 1 << 20 // YAML in braces is looked for only in files that people write
	if len(data) <= small && !strings.HasSuffix(l.files[p.file], ".json") {
		d := json.NewDecoder(bytes.NewReader(data))
		for {
			var v json.RawMessage
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return false
			}
		}
	}
	for ; i < len(data); i = skipSpace(data, i) {
		p.doc++
		end, err := skipValue(data, i)
		if err == nil && len(data) <= written {
			if key, at := repeated(data[i:end]); key != "" {
				l.fail(p, "", "", fmt.Sprintf("broken JSON: line %d: key %s already set", 1+bytes.Count(data[:i+at], []byte("\n")), key))
				i = end
				continue
			}
		}
		if err == nil {
			err = l.value(p, data[i:end])
		}
		if err != nil {
			if why := jsonProblem(data); why != nil {
				err = why
			}
			l.fail(p, "", "", err.Error())
			return true
		}
		i = end
	}
	return true
}

func (l *loader) yamlStream(p place, data []byte) {
	for _, d := range documents(data) {
		p.doc++
		if head, items, ok := yamlList(d); ok && l.yamlItems(p, head, items) {
			continue
		}
		j, err := toJSON(d)
		if err == nil {
			err = l.value(p, j)
		}
		if err != nil {
			l.fail(p, "", "", err.Error())
		}
	}
}

// yamlItems reads a list item by item; false = it must be read in one piece.
func (l *loader) yamlItems(p place, head document, items []document) bool {
	j, err := toJSON(head)
	if err != nil {
		return false
	}
	h, err := readHeader(j)
	if err != nil || !h.isList() {
		return false
	}
	values := make([][]byte, len(items))
	for i, d := range items {
		if values[i], err = itemJSON(d); err != nil {
			return false
		}
	}
	p.list = true
	for i, v := range values {
		p.item = int32(i)
		if err := l.object(p, v, h.itemType()); err != nil {
			l.fail(p, "", "", err.Error())
		}
	}
	return true
}

// value reads one document.
func (l *loader) value(p place, v []byte) error {
	switch v[0] {
	case '[':
		return elements(v, func(i int, e []byte) error {
			p.item = int32(i)
			return l.object(p, e, typeMeta{})
		})
	case '{':
		return l.object(p, v, typeMeta{})
	}
	if string(v) == "null" {
		return nil
	}
	return fmt.Errorf("expected an object or a list of objects, got %s", short(v))
}

type typeMeta struct{ apiVersion, kind string }

// header is the outermost level of an object, in pieces.
type header struct {
	typeMeta
	metadata, spec, status, items []byte
	others                        bool
}

func readHeader(v []byte) (header, error) {
	var h header
	err := members(v, func(key string, value []byte) error {
		var err error
		switch key {
		case "apiVersion":
			h.apiVersion, err = fieldText(key, value)
		case "kind":
			h.kind, err = fieldText(key, value)
		case "metadata":
			h.metadata = value
		case "spec":
			h.spec = value
		case "status":
			h.status = value
		case "items":
			h.items = value
		default:
			h.others = true
		}
		return err
	})
	return h, err
}

func fieldText(key string, v []byte) (string, error) {
	if string(v) == "null" {
		return "", nil
	}
	s, err := text(v)
	if err != nil {
		return "", &fieldProblem{key, fmt.Sprintf("expected a string, got %s", short(v))}
	}
	return s, nil
}

// fieldProblem is an error of one field.
type fieldProblem struct{ field, msg string }

func (e *fieldProblem) Error() string { return e.field + ": " + e.msg }

func (h *header) isList() bool {
	return strings.HasSuffix(h.kind, "List") && h.spec == nil
}

// itemType is what items of the list are that do not say so themselves.
func (h *header) itemType() typeMeta {
	if h.kind == "List" {
		return typeMeta{}
	}
	return typeMeta{h.apiVersion, strings.TrimSuffix(h.kind, "List")}
}

// object reads one object; assumed is its type where it does not say. An error is
// broken syntax; all else is noted in the loader.
func (l *loader) object(p place, v []byte, assumed typeMeta) error {
	if v[0] != '{' {
		l.fail(p, "", "", "expected an object, got "+short(v))
		return nil
	}
	h, err := readHeader(v)
	var fp *fieldProblem
	if errors.As(err, &fp) {
		l.fail(p, "", fp.field, fp.msg)
		return nil
	}
	if err != nil {
		return err
	}
	if h.isList() {
		if h.items == nil || string(h.items) == "null" {
			return nil
		}
		if h.items[0] != '[' {
			l.fail(p, h.kind, "items", "expected a list, got "+short(h.items))
			return nil
		}
		l.known++ // an empty list is an answer, too
		p.list = true
		item := h.itemType()
		return elements(h.items, func(i int, e []byte) error {
			p.item = int32(i)
			return l.object(p, e, item)
		})
	}
	if h.kind == "" && h.apiVersion == "" {
		h.typeMeta = assumed
		if h.kind == "" && looksLikePod(h.spec) {
			h.typeMeta = typeMeta{"v1", "Pod"}
		}
	}
	return l.dispatch(p, v, &h)
}

func looksLikePod(spec []byte) bool {
	found := false
	if len(spec) > 0 && spec[0] == '{' {
		_ = members(spec, func(key string, v []byte) error { // a broken spec is no pod's
			found = found || key == "containers" && v[0] == '['
			return nil
		})
	}
	return found
}

// compactList names each text once with its count, at most ten of them.
func compactList(sorted []string) string {
	const most = 10
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(sorted)-i))
			break
		}
		if j-i > 1 {
			parts = append(parts, fmt.Sprintf("%s (%d times)", sorted[i], j-i))
		} else {
			parts = append(parts, sorted[i])
		}
		i = j
	}
	return strings.Join(parts, ", ")
}
