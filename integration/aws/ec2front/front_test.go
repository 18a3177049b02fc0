package ec2front

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
)

var update = flag.Bool("update", false, "write the golden answers")

// golden are the calls of testdata in their order: NAME.txt is the form, a parameter a line; NAME.xml the answer.
var golden = []string{"vpc", "subnet", "group", "images", "template", "template-again", "versions", "fleet", "fleet-again", "fleet-mismatch", "fleet-short", "fleet-dry-run", "instances",
	"instances-missing", "instances-bad-filter", "types", "spot-prices", "subnets", "tags", "terminate", "unknown-parameter", "unknown-action", "placement-groups", "placement-group-unknown"}

// What is asked and answered, byte by byte: whoever knows EC2's protocol can read whether we do.
func TestGoldenDocuments(t *testing.T) {
	t.Parallel()
	var types []*catalogue.Type
	for _, name := range []string{"m5.large", "m5.xlarge", "m6g.large"} {
		types = append(types, catalogue.Embedded().Get(name))
	}
	table, err := catalogue.New(types, "test")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s := Start(t, Options{Now: func() time.Time { return now }, Table: table})
	s.AddImage(Image{ID: "ami-00000000000000001", Name: "node", Owner: "amazon", Arch: "x86_64", Created: now})
	s.AddPlacementGroup(PlacementGroup{ID: "pg-00000000000000001", Name: "kafka", Strategy: "partition", Partitions: 3})
	for _, name := range golden {
		if name == "fleet-short" {
			if err := s.EC2().SetCapacity("m5.large/us-east-1a/spot", 0); err != nil {
				t.Fatal(err)
			}
		}
		got := ask(t, s, filepath.Join("testdata", name+".txt"))
		file := filepath.Join("testdata", name+".xml")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func ask(t *testing.T, s *Server, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"Version": {"2016-11-15"}}
	for line := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			t.Fatalf("%s: line %q, expected a parameter and its value", file, line)
		}
		form.Set(k, v)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDTEST")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("<!-- %s -->\n%s\n", resp.Status, strings.TrimSpace(lines.ReplaceAllString(string(body), ">\n<")))
}

// lines breaks an answer where elements stand one in another, so that differences can be read.
var lines = regexp.MustCompile(`>\s*<`)

func TestWildcards(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		pattern, s string
		want       bool
	}{{"m5.*", "m5.large", true}, {"m5.*", "m6.large", false}, {"*", "", true}, {"m?.large", "m5.large", true}, {"*large", "m5.large", true}, {"a*b*c", "aXbYbZc", true},
		{"a*b", "a", false}, {"m5.large", "m5.large", true}, {"", "m5", false}} {
		if got := wild(x.pattern, x.s); got != x.want {
			t.Errorf("%q matches %q: %v, want %v", x.pattern, x.s, got, x.want)
		}
	}
}

// What a request asks for and nobody understands is an error, before anything is done.
func TestNothingIsIgnored(t *testing.T) {
	t.Parallel()
	f := New(Options{})
	for _, form := range []string{"Action=CreateVpc&CidrBlock=10.0.0.0/16&Color=red", "Action=DescribeInstances&Filter.1.Name=colour&Filter.1.Value.1=red",
		"Action=DescribeInstances&Filter.2.Name=instance-id&Filter.2.Value.1=i-1", "Action=DescribeInstances&MaxResults=2000", "Action=RebootInstances", "Action=DescribeInstances&InstanceId.x=i-1"} {
		v, err := url.ParseQuery(form + "&Version=2016-11-15")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := f.do(v.Get("Action"), v); err == nil {
			t.Errorf("%s is answered: %s", form, out)
		}
	}
	if len(f.vpcs) != 0 {
		t.Error("the VPC was made")
	}
}
