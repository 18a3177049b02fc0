package load

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysGivenTwice(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 3 * manyKeys {
		many = append(many, fmt.Sprintf(`"k%d":"k0"`, i))
	}
	wide := strings.Join(many, ",")
	for name, x := range map[string]struct{ in, key string }{
		"none":            {`{"a":{"a":"b"},"b":[{"a":1},{"a":2}],"c":"a"}`, ""},
		"top":             {`{"a":1,"b":2,"a":3}`, `"a"`},
		"below":           {`{"a":{"b":1},"c":[0,{"d":{"x":"d","e":1,"e":1}}]}`, `"e"`},
		"after an object": {`{"a":{"b":1},"a":2}`, `"a"`},
		"after a list":    {`[{"a":[1,{"a":1}],"a":2}]`, `"a"`},
		"in a text":       {`{"a":"{\"b\":1,\"b\":2}","b":",\"a\":"}`, ""},
		"many":            {`{` + wide + `}`, ""},
		"many and one":    {`{` + wide + `,"k7":1}`, `"k7"`},
		"not JSON":        {`}{"a`, ""},
		"nothing":         {``, ""},
	} {
		if key, at := repeated([]byte(x.in)); key != x.key || key != "" && !strings.HasPrefix(x.in[at:], key) {
			t.Errorf("%s: key %s at %d, want %s", name, key, at, x.key)
		}
	}
	rapid.Check(t, func(r *rapid.T) { repeated(rapid.SliceOf(rapid.SampledFrom([]byte(`{}[]",:\a`))).Draw(r, "text")) })
}

func TestRepeatedKeysAreRefused(t *testing.T) {
	t.Parallel()
	const pod = `"spec":{"containers":[{"name":"c","image":"x"}]}`
	for name, x := range map[string]struct{ in, want string }{
		"JSON": {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\n\"metadata\":{\"name\":\"a\"},\n\"metadata\":{\"name\":\"b\"}," + pod + "}", `line 3: key "metadata" already set`},
		"YAML": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\n", `line 3: key "name" already set`},
		"no separator": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: x}]}\n" +
			"apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: c, image: x}]}\n", "without a line of --- between them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Files([]string{"-"}, strings.NewReader(x.in), Options{})
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want one that says %q", err, x.want)
			}
		})
	}
}
