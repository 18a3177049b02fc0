package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the size of the largest configuration that is read, and of the largest file that
// one names, in bytes.
const MaxFile = 1 << 20

var (
	durationType = reflect.TypeFor[Duration]()
	strategyType = reflect.TypeFor[Strategy]()
	memberType   = reflect.TypeFor[ChainMember]()
	anyType      = reflect.TypeFor[any]()
)

// decoder writes a YAML tree into a struct, field by field, so that each complaint
// has a line and a path and all of them are told at once.
type decoder struct {
	file    string
	errs    Errors
	origins map[string]string // field path -> where it was said
}

func (d *decoder) at(n *yaml.Node) string { return d.file + ":" + strconv.Itoa(n.Line) }

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.errs.add(d.at(n), path, format, args...)
}

// decodeFile merges the file into cfg.
func (d *decoder) decodeFile(data []byte, cfg *Config) {
	if len(data) > MaxFile {
		d.errs.add(d.file, "", "is %d bytes long, at most %d are read", len(data), MaxFile)
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			d.errs.add(d.file, "", "is empty, expected apiVersion: %s, kind: %s", APIVersion, Kind)
			return
		}
		d.errs.add(d.file, "", "is not YAML or JSON: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		d.errs.add(d.file, "", "has more than one document, expected one %s", Kind)
		return
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		d.fail(root, "", "expected fields such as apiVersion: %s, kind: %s", APIVersion, Kind)
		return
	}
	// The type comes first: in another kind of document every field would be a mistake.
	if !d.header(root) {
		return
	}
	d.mapping(root, reflect.ValueOf(cfg).Elem(), "")
}

// OneDocument says what keeps a text from being one YAML or JSON document, or none: what
// reads only the first would pass over the others.
func OneDocument(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		case n > 0:
			return fmt.Errorf("line %d begins a second document, expected one", doc.Line)
		}
	}
}

func (d *decoder) header(root *yaml.Node) bool { return d.headerOf(root, Kind) }

func (d *decoder) headerOf(root *yaml.Node, kind string) bool {
	before := len(d.errs)
	for key, want := range map[string]string{"apiVersion": APIVersion, "kind": kind} {
		n := lookup(root, key)
		switch {
		case n == nil:
			d.fail(root, key, "is missing, expected %s", want)
		case n.Value != want:
			d.fail(n, key, "is %q, expected %s", n.Value, want)
		}
	}
	slices.SortFunc(d.errs, func(a, b Error) int { return strings.Compare(a.Field, b.Field) })
	return len(d.errs) == before
}

func lookup(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// value writes n into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fail(n, path, "anchors and aliases are not supported here, write the value out")
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // as in Kubernetes: null leaves the default
	}
	d.origins[path] = d.at(n)
	switch {
	case v.Type() == durationType:
		d.scalar(n, path, "a duration such as 10s or 5m", func() error { return setDuration(v, n.Value) })
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, path)
	case v.Kind() == reflect.Map:
		d.dictionary(n, v, path)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path)
	default:
		d.plain(n, v, path)
	}
}

func (d *decoder) plain(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		// Numbers are taken as they are written: an account may begin with a zero.
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float" {
			d.fail(n, path, "is %s, expected text%s", describe(n), quoteHint(n))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		d.scalar(n, path, "true or false", func() error { return setBool(v, n.Value) })
	case reflect.Int, reflect.Int64:
		d.scalar(n, path, "a whole number", func() error { return setInt(v, n.Value) })
	case reflect.Float64:
		d.scalar(n, path, "a number", func() error { return setFloat(v, n.Value) })
	default:
		d.fail(n, path, "cannot be set in a file")
	}
}

func (d *decoder) scalar(n *yaml.Node, path, expected string, set func() error) {
	if n.Kind != yaml.ScalarNode || set() != nil {
		d.fail(n, path, "is %s, expected %s", describe(n), expected)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "is %s, expected fields: %s", describe(n), strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if seen[key.Value] {
			d.fail(key, at, "is given twice")
			continue
		}
		seen[key.Value] = true
		f, ok := fieldByName(v, key.Value)
		if !ok {
			d.fail(key, at, "unknown field%s", suggest(key.Value, at, v.Type()))
			continue
		}
		d.value(val, f, at)
	}
}

func (d *decoder) dictionary(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "is %s, expected names with their values", describe(n))
		return
	}
	if v.Type().Elem() == anyType {
		m := map[string]any{}
		if err := n.Decode(&m); err != nil {
			d.fail(n, path, "cannot be read: %s", strings.TrimPrefix(err.Error(), "yaml: "))
			return
		}
		v.Set(reflect.ValueOf(m))
		d.settings(n, path)
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if seen[key.Value] {
			d.fail(key, at, "is given twice")
			continue
		}
		seen[key.Value] = true
		elem := reflect.New(v.Type().Elem()).Elem()
		if elem.Type() == strategyType {
			elem.Set(reflect.ValueOf(defaultStrategy()))
		}
		d.value(val, elem, at)
		if s, ok := elem.Interface().(Strategy); ok && s.Chain != nil {
			if _, said := d.origins[join(at, "callTimeout")]; !said {
				s.CallTimeout = 0 // as its members have
				elem.Set(reflect.ValueOf(s))
			}
		}
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	}
}

// settings remembers where the settings of a strategy were said: what they mean is not
// known here. Elements of lists go by their index, as a.0.
func (d *decoder) settings(n *yaml.Node, path string) {
	d.origins[path] = d.at(n)
	switch n.Kind {
	case yaml.AliasNode:
		d.settings(n.Alias, path)
	case yaml.ScalarNode:
		var v float64
		if n.ShortTag() == "!!float" && (n.Decode(&v) != nil || math.IsNaN(v) || math.IsInf(v, 0)) {
			d.fail(n, path, "is %s, expected a number that JSON has: it is handed to the strategy as JSON", n.Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!merge" {
				d.fail(key, join(path, key.Value), "the name is %s, expected text%s", describe(key), quoteHint(key))
			}
			d.settings(n.Content[i+1], join(path, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			d.settings(c, join(path, strconv.Itoa(i)))
		}
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "is %s, expected a list", describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		if v.Type().Elem() == memberType {
			out.Index(i).Set(reflect.ValueOf(defaultMember()))
		}
		d.value(c, out.Index(i), path+"["+strconv.Itoa(i)+"]")
	}
	v.Set(out)
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	default:
		if len(n.Value) > 60 {
			return strconv.Quote(n.Value[:60] + "...")
		}
		return strconv.Quote(n.Value)
	}
}

func quoteHint(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return " (put it in quotes)"
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func fieldNames(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		out = append(out, jsonName(t.Field(i)))
	}
	return out
}

func fieldByName(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if jsonName(v.Type().Field(i)) == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// suggest finds what was meant by a word at a path: a field of the same group, else one
// elsewhere.
func suggest(word, at string, t reflect.Type) string {
	names := fieldNames(t)
	if s := Nearest(word, names); s != "" {
		return fmt.Sprintf(", did you mean %q?", s)
	}
	for _, p := range Paths() {
		parts := strings.Split(p, ".")
		switch {
		case p == at || p == "kind" || p == "apiVersion": // not a field of this kind of file; nobody means the header
		case p == word:
			return fmt.Sprintf(", did you mean %q at the top of the file?", p)
		case strings.EqualFold(parts[len(parts)-1], word) || strings.EqualFold(strings.Join(parts, ""), word):
			return fmt.Sprintf(", did you mean %q?", p)
		}
	}
	return "; known here: " + strings.Join(names, ", ")
}

// Paths lists every field that can be set, groups left out, in the order of the
// structs. The name of a strategy is written <name>.
func Paths() []string {
	var out []string
	walk(reflect.TypeFor[Config](), "", func(path string, _ reflect.Type) { out = append(out, path) })
	return out
}

func walk(t reflect.Type, path string, leaf func(path string, t reflect.Type)) {
	switch {
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			walk(t.Field(i).Type, join(path, jsonName(t.Field(i))), leaf)
		}
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		walk(t.Elem(), path+".<name>", leaf)
	default:
		leaf(path, t)
	}
}

func setDuration(v reflect.Value, s string) error {
	x, err := time.ParseDuration(s)
	if err == nil {
		v.SetInt(int64(x))
	}
	return err
}

// setBool takes true and false only, as Karpenter does: "yes" and "1" are mistakes more often than not.
func setBool(v reflect.Value, s string) error {
	if s != "true" && s != "false" {
		return strconv.ErrSyntax
	}
	v.SetBool(s == "true")
	return nil
}

func setInt(v reflect.Value, s string) error {
	x, err := strconv.ParseInt(s, 10, v.Type().Bits())
	if err == nil {
		v.SetInt(x)
	}
	return err
}

func setFloat(v reflect.Value, s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil {
		v.SetFloat(x)
	}
	return err
}
