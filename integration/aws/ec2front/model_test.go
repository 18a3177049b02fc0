package ec2front

import (
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// serviceModel is AWS's own description of EC2, as botocore carries it.
type serviceModel struct {
	Operations map[string]struct {
		Input, Output *struct{ Shape string }
	}
	Shapes map[string]modelShape
}

type modelShape struct {
	Type    string
	Members map[string]member
	Member  *member
}

type member struct {
	Shape, LocationName, QueryName string
}

func readModel(t *testing.T) *serviceModel {
	t.Helper()
	python := os.Getenv("WEIR_MOTO")
	if python == "" {
		t.Skip("no botocore: set WEIR_MOTO to a Python that has it (make moto makes one)")
	}
	dir, err := exec.CommandContext(t.Context(), python, "-c", "import botocore, os; print(os.path.dirname(botocore.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "data/ec2/2016-11-15/service-2.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &serviceModel{}
	if err := json.NewDecoder(text).Decode(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every parameter of the golden requests and every element of the golden answers is one that AWS's description of EC2 has,
// in its place and of its type.
func TestDocumentsAreOfTheService(t *testing.T) {
	t.Parallel()
	m := readModel(t)
	checked := 0
	for _, name := range golden {
		request, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if name == "unknown-parameter" || name == "unknown-action" {
			continue
		}
		op := ""
		for line := range strings.Lines(string(request)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			if k == "Action" {
				op = v
				continue
			}
			if !m.parameter(m.Operations[op].Input.Shape, strings.Split(k, ".")) {
				t.Errorf("%s.txt: %s has no parameter %s", name, op, k)
			}
			checked++
		}
		answer, err := os.ReadFile(filepath.Join("testdata", name+".xml"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(answer), "<!-- 200") {
			checked += m.answer(t, name, op, string(answer))
		}
	}
	if checked < 300 {
		t.Errorf("only %d names were checked", checked)
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// parameter finds a path of a form in a shape. Lists have numbers.
func (m *serviceModel) parameter(shape string, path []string) bool {
	s := m.Shapes[shape]
	switch {
	case len(path) == 0:
		return s.Type != "structure" && s.Type != "list"
	case s.Type == "list":
		_, err := strconv.Atoi(path[0])
		return err == nil && m.parameter(s.Member.Shape, path[1:])
	}
	for name, x := range s.Members {
		wire := x.QueryName
		if wire == "" && x.LocationName != "" {
			wire = capital(x.LocationName)
		}
		if wire == "" {
			wire = name
		}
		if wire == path[0] {
			return m.parameter(x.Shape, path[1:])
		}
	}
	return false
}

// answer walks an answer down the shapes of its operation and tells how many elements it saw.
func (m *serviceModel) answer(t *testing.T, name, op, text string) int {
	t.Helper()
	root := ""
	if o := m.Operations[op].Output; o != nil {
		root = o.Shape
	}
	var stack []string // shapes; empty = a value
	seen := 0
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return seen
		}
		if err != nil {
			t.Fatalf("%s.xml: %v", name, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			seen++
			if len(stack) == 0 {
				if e.Name.Local != op+"Response" || e.Name.Space != namespace {
					t.Errorf("%s.xml begins with %v", name, e.Name)
				}
				stack = append(stack, root)
				continue
			}
			stack = append(stack, m.element(t, name, stack, e.Name.Local))
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			m.value(t, name, stack, strings.TrimSpace(string(e)))
		}
	}
}

func (m *serviceModel) element(t *testing.T, name string, stack []string, local string) string {
	t.Helper()
	if len(stack) == 1 && (local == "requestId" || local == "return") {
		return ""
	}
	s := m.Shapes[stack[len(stack)-1]]
	if s.Type == "list" {
		want := "item"
		if s.Member.LocationName != "" {
			want = s.Member.LocationName
		}
		if local != want {
			t.Errorf("%s.xml: list of %s instead of %s", name, local, want)
		}
		return s.Member.Shape
	}
	for _, x := range s.Members {
		if x.LocationName == local {
			return x.Shape
		}
	}
	t.Errorf("%s.xml: %s has no element %s", name, stack[len(stack)-1], local)
	return ""
}

func (m *serviceModel) value(t *testing.T, name string, stack []string, text string) {
	t.Helper()
	if text == "" || len(stack) == 0 {
		return
	}
	var err error
	switch shape := stack[len(stack)-1]; m.Shapes[shape].Type {
	case "integer", "long":
		_, err = strconv.ParseInt(text, 10, 64)
	case "double", "float":
		_, err = strconv.ParseFloat(text, 64)
	case "boolean":
		_, err = strconv.ParseBool(text)
	case "structure", "list":
		t.Errorf("%s.xml: %s has the text %q", name, shape, text)
	}
	if err != nil {
		t.Errorf("%s.xml: %v", name, err)
	}
}
