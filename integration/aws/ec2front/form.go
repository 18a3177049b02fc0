package ec2front

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiError is an error as EC2 answers it.
type apiError struct {
	Status        int // 0 = 400
	Code, Message string
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func fail(code, format string, args ...any) error {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// params is a form as a tree: EC2 writes lists and structures as names with dots. It knows what of it was asked for, so
// that what nobody asked for is an error.
type params struct {
	path string
	text string
	has  bool // it has a value itself
	read bool
	kids map[string]*params
}

func parse(form url.Values) (*params, error) {
	root := &params{}
	for key, values := range form {
		if len(values) != 1 {
			return nil, fail("InvalidParameterCombination", "The parameter %s appears %d times", key, len(values))
		}
		p := root
		for _, part := range strings.Split(key, ".") {
			p = p.child(part)
		}
		p.text, p.has = values[0], true
	}
	return root, nil
}

func (p *params) child(name string) *params {
	if k := p.kids[name]; k != nil {
		return k
	}
	k := &params{path: strings.TrimPrefix(p.path+"."+name, ".")}
	if p.kids == nil {
		p.kids = map[string]*params{}
	}
	p.kids[name] = k
	return k
}

// get is a part of the tree, empty where it is not there.
func (p *params) get(name string) *params {
	if k := p.kids[name]; k != nil {
		return k
	}
	return &params{path: strings.TrimPrefix(p.path+"."+name, ".")}
}

func (p *params) str(name string) string {
	k := p.get(name)
	k.read = true
	return k.text
}

func (p *params) integer(name string, min, max, byDefault int) (int, error) {
	text := p.str(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < min || n > max {
		return 0, fail("InvalidParameterValue", "Value ( %s ) for parameter %s is invalid. Expecting a value between %d and %d.", text, p.get(name).path, min, max)
	}
	return n, nil
}

func (p *params) number(name string) (float64, error) {
	text := p.str(name)
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fail("InvalidParameterValue", "Value ( %s ) for parameter %s is invalid. Expecting a number.", text, p.get(name).path)
	}
	return f, nil
}

func (p *params) boolean(name string) (bool, error) {
	switch text := p.str(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fail("InvalidParameterValue", "Value ( %s ) for parameter %s is invalid. Expecting a boolean.", text, p.get(name).path)
	}
}

func (p *params) time(name string) (time.Time, error) {
	text := p.str(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fail("InvalidParameterValue", "Value ( %s ) for parameter %s is invalid. Expecting a date and time.", text, p.get(name).path)
	}
	return at, nil
}

// list is the items name.1, name.2 and so on; EC2 takes no gaps.
func (p *params) list(name string) ([]*params, error) {
	k := p.get(name)
	out := make([]*params, len(k.kids))
	for key, item := range k.kids {
		n, err := strconv.Atoi(key)
		if err != nil || n < 1 || n > len(out) {
			return nil, fail("InvalidParameterValue", "The list %s has the item %s among %d items", k.path, key, len(out))
		}
		out[n-1] = item
	}
	return out, nil
}

// strings is a list of values.
func (p *params) strings(name string) ([]string, error) {
	items, err := p.list(name)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(items))
	for i, item := range items {
		item.read = true
		if !item.has || item.text == "" {
			return nil, fail("InvalidParameterValue", "The parameter %s is empty", item.path)
		}
		out[i] = item.text
	}
	return out, nil
}

// done says whether everything in the form was asked for.
func (p *params) done() error {
	var left []string
	p.unread(&left)
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return fail("UnknownParameter", "The parameter %s is not recognized", left[0])
}

func (p *params) unread(out *[]string) {
	if p.has && !p.read {
		*out = append(*out, p.path)
	}
	for _, k := range p.kids {
		k.unread(out)
	}
}

// tags reads a list of keys and values.
func (p *params) tags(name string) (map[string]string, error) {
	items, err := p.list(name)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, t := range items {
		key := t.str("Key")
		switch _, twice := out[key]; {
		case key == "" || len(key) > 127:
			return nil, fail("InvalidParameterValue", "Tag key %q is invalid: expecting 1 to 127 characters", key)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, fail("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		case twice:
			return nil, fail("InvalidParameterValue", "Duplicate tag key '%s' specified.", key)
		}
		out[key] = t.str("Value")
	}
	if len(out) > 50 {
		return nil, fail("TagLimitExceeded", "More than 50 tags specified")
	}
	return out, nil
}

// tagSpecifications reads tags by kind of resource; other kinds than the allowed are refused.
func (p *params) tagSpecifications(allowed ...string) (map[string]map[string]string, error) {
	items, err := p.list("TagSpecification")
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, s := range items {
		kind := s.str("ResourceType")
		if !slices.Contains(allowed, kind) {
			return nil, fail("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
		if out[kind], err = s.tags("Tag"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// condition is a filter: any of the values will do.
type condition struct {
	name   string
	values []string
}

// filters reads the filters; names other than those known, tag-key and tag:* are refused.
func (p *params) filters(known ...string) ([]condition, error) {
	items, err := p.list("Filter")
	if err != nil {
		return nil, err
	}
	var out []condition
	for _, f := range items {
		c := condition{name: f.str("Name")}
		if !slices.Contains(known, c.name) && c.name != "tag-key" && !strings.HasPrefix(c.name, "tag:") {
			return nil, fail("InvalidParameterValue", "The filter '%s' is invalid", c.name)
		}
		if c.values, err = f.strings("Value"); err != nil {
			return nil, err
		}
		if len(c.values) > 200 {
			return nil, fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is 200")
		}
		out = append(out, c)
	}
	return out, nil
}

// met says whether something of these fields and tags passes all conditions. A field may have several values.
func met(list []condition, tags map[string]string, field func(name string) []string) bool {
	for _, c := range list {
		var have []string
		switch key, isTag := strings.CutPrefix(c.name, "tag:"); {
		case isTag:
			if v, ok := tags[key]; ok {
				have = []string{v}
			}
		case c.name == "tag-key":
			for k := range tags {
				have = append(have, k)
			}
		default:
			have = field(c.name)
		}
		if !slices.ContainsFunc(have, func(s string) bool {
			return slices.ContainsFunc(c.values, func(pattern string) bool { return wild(pattern, s) })
		}) {
			return false
		}
	}
	return true
}

// wild matches a filter's value: * any characters, ? one.
func wild(pattern, s string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == s
	}
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
