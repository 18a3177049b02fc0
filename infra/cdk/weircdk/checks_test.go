package weircdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/google/go-cmp/cmp"
)

// envLint names the program cfn-lint (make cfn-lint installs it).
const envLint = "WEIR_CFN_LINT"

// variants are the stacks that are looked at as a whole.
var variants = map[string]func(awscdk.App, Config) awscdk.Stack{
	"required":   func(app awscdk.App, c Config) awscdk.Stack { return NewStack(app, c) },
	"everything": func(app awscdk.App, c Config) awscdk.Stack { everything(&c); return NewStack(app, c) },
	"key":        func(app awscdk.App, c Config) awscdk.Stack { c.Key = KeyCreate; return NewStack(app, c) },
	"cluster":    func(app awscdk.App, c Config) awscdk.Stack { newCluster(&c); return NewStacks(app, c)[0] },
}

// fingerprint is the hash of an asset.
var fingerprint = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// The snapshots show what a change does to the whole. integration/aws sends events
// through the rules of required.json.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	for name, stack := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := json.Indent(&b, fingerprint.ReplaceAll(synthStack(t, stack).raw, []byte("HASH")), "", "  "); err != nil {
				t.Fatal(err)
			}
			b.WriteByte('\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
				t.Errorf("the template changed; if that is meant: go test ./weircdk -run TestSnapshots -update (-golden +is):\n%s", diff)
			}
		})
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	program := os.Getenv(envLint)
	if program == "" {
		t.Skipf("no cfn-lint: set %s to the program (make cfn-lint installs one)", envLint)
	}
	for name, stack := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), name+".template.json")
			if err := os.WriteFile(file, synthStack(t, stack).raw, 0o644); err != nil {
				t.Fatal(err)
			}
			// W3005: the CDK has a function depend on its role by name as well as by use.
			out, err := exec.Command(program, "--ignore-checks", "W3005", "--regions", "us-east-1", "eu-west-1", "--", file).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// cdk-nag's findings are none that has no reason beside the code.
func TestNag(t *testing.T) {
	t.Parallel()
	for name, stack := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := nag(t, func(app awscdk.App) awscdk.Stack { return stack(app, config(t)) }); len(found) > 0 {
				t.Errorf("findings:\n%s", strings.Join(found, "\n"))
			}
		})
	}
}

// TestNagFinds: a test that finds nothing ever would prove nothing.
func TestNagFinds(t *testing.T) {
	t.Parallel()
	found := nag(t, func(app awscdk.App) awscdk.Stack {
		stack := awscdk.NewStack(app, jsii.String("Other"), nil)
		role := NewScalerRole(stack, "X", ScalerRoleProps{ClusterName: "demo", Namespace: "n", ServiceAccount: "s", NodeRoleArn: "arn:aws:iam::123456789012:role/x", Ledger: NewLedgerTable(stack, "L", "t", nil)})
		attach(stack, "Wide", "", role.Role, []Statement{{Sid: "Wide", Actions: []string{"s3:GetObject"}, Resources: []string{"*"}}})
		return stack
	})
	if len(found) != 1 || !strings.Contains(found[0], "AwsSolutions-IAM5") || !strings.Contains(found[0], "/Other/Wide/") {
		t.Errorf("found %q, expected the one statement without a reason", found)
	}
}

// nag answers what AWS's rules for solutions find in a stack.
func nag(t *testing.T, stack func(awscdk.App) awscdk.Stack) []string {
	synthMu.Lock()
	defer synthMu.Unlock()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
	s := stack(app)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
	told := assertions.Annotations_FromStack(s)
	var found []string
	messages := append(*told.FindError(jsii.String("*"), assertions.Match_AnyValue()), *told.FindWarning(jsii.String("*"), assertions.Match_AnyValue())...)
	for _, m := range messages {
		if text := fmt.Sprint(m.Entry.Data); !strings.Contains(text, "[ack: weir:") { // our own list of gaps
			found = append(found, *m.Id+": "+text)
		}
	}
	return found
}
