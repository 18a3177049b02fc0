package weircdk

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// calls finds the operations of AWS that a program asks for, in the sources of all packages
// of ours that it is made of: whoever calls one names its input. The module of the program is
// a folder of the repository.
func calls(t *testing.T, module, program string) []string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, module))
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}	{{.Dir}}{{end}}`, program)
	list.Dir = dir
	var said strings.Builder
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", program, err, said.String())
	}
	input := regexp.MustCompile(`[&*](ec2|ssm|iam|eks|pricing|sqs|dynamodb|sts|arczonalshift|ecr|s3|kms)\.([A-Z][A-Za-z]+)Input\b`)
	// Who links no client of the SDK for a service names the operation as its protocol does.
	target := regexp.MustCompile(`"AmazonEC2ContainerRegistry_V[0-9]+\.([A-Z][A-Za-z]+)"`)
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !strings.HasPrefix(path, "github.com/weir-project/weir/") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range input.FindAllStringSubmatch(string(b), -1) {
				service := m[1]
				if service == "arczonalshift" {
					service = "arc-zonal-shift"
				}
				found[service+":"+m[2]] = true
			}
			for _, m := range target.FindAllStringSubmatch(string(b), -1) {
				found["ecr:"+m[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Rights that an operation needs where they are not called like it.
var asRights = map[string][]string{
	"dynamodb:TransactWriteItems": {"dynamodb:PutItem"},  // checked as what it is made of
	"sqs:DeleteMessageBatch":      {"sqs:DeleteMessage"}, // one right for both
	"ec2:CreateFleet":             {"ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"},
	"iam:CreateInstanceProfile":   {"iam:CreateInstanceProfile", "iam:TagInstanceProfile"},
}

// Calls that need no right of the role's: of sts, who one is is told to everybody.
var freeCalls = []string{"sts:GetCallerIdentity"}

// program is one that runs with a role of the stack.
type program struct {
	module, path string
	role         string            // what the ids of its role's policies begin with
	least        int               // calls that are found at the least: the test still reads the sources
	uncalled     map[string]string // rights that nothing of its sources asks for, with the reason
	unused       map[string]string // calls that are in its sources, and that it does not make, with the reason
}

// programs are all of ours that ask AWS for something.
var programs = map[string]program{
	"scaler": {module: ".", path: "./cmd/weir-scaler", role: "ScalerRole", least: 30, uncalled: map[string]string{
		"kms:Decrypt":         "DynamoDB uses the key in the role's name",
		"kms:DescribeKey":     "DynamoDB uses the key in the role's name",
		"kms:Encrypt":         "DynamoDB uses the key in the role's name",
		"kms:GenerateDataKey": "DynamoDB uses the key in the role's name",
		"kms:ReEncryptFrom":   "DynamoDB uses the key in the role's name",
		"kms:ReEncryptTo":     "DynamoDB uses the key in the role's name",

		"ecr:BatchGetImage":          "a pull over the registry's own protocol",
		"ecr:GetDownloadUrlForLayer": "a pull over the registry's own protocol",
	}},
	"functions": {module: ".", path: "./lambda/interruption", role: "Interruption", least: 4, uncalled: map[string]string{
		"logs:CreateLogStream":        "the runtime writes what the function says",
		"logs:PutLogEvents":           "the runtime writes what the function says",
		"sqs:ChangeMessageVisibility": "Lambda's poller reads the queue with the role of the function",
		"sqs:DeleteMessage":           "Lambda's poller reads the queue with the role of the function",
		"sqs:GetQueueAttributes":      "Lambda's poller reads the queue with the role of the function",
		"sqs:ReceiveMessage":          "Lambda's poller reads the queue with the role of the function",
		"kms:Decrypt":                 "DynamoDB and SQS use the key in the role's name",
		"kms:DescribeKey":             "DynamoDB uses the key in the role's name",
		"kms:Encrypt":                 "DynamoDB uses the key in the role's name",
		"kms:GenerateDataKey":         "DynamoDB and SQS use the key in the role's name",
		"kms:ReEncryptFrom":           "DynamoDB uses the key in the role's name",
		"kms:ReEncryptTo":             "DynamoDB uses the key in the role's name",
	}, unused: map[string]string{
		"dynamodb:DescribeTable":      "the scaler alone checks the table's shape",
		"dynamodb:DescribeTimeToLive": "the scaler alone checks the table's shape",
	}},
	"installer": {module: "lambda/deploy", path: ".", role: "Release", least: 1, uncalled: map[string]string{
		"logs:CreateLogStream":            "the runtime writes what the function says",
		"logs:PutLogEvents":               "the runtime writes what the function says",
		"ecr:BatchCheckLayerAvailability": "a push over the registry's own protocol",
		"ecr:BatchGetImage":               "a push over the registry's own protocol",
		"ecr:CompleteLayerUpload":         "a push over the registry's own protocol",
		"ecr:InitiateLayerUpload":         "a push over the registry's own protocol",
		"ecr:PutImage":                    "a push over the registry's own protocol",
		"ecr:UploadLayerPart":             "a push over the registry's own protocol",
	}},
}

// TestProgramsHaveTheRightsThatTheyUse: each has the rights for what it asks of AWS, and no
// others but for a reason.
func TestProgramsHaveTheRightsThatTheyUse(t *testing.T) {
	t.Parallel()
	all := statements(synth(t, func(c *Config) {
		c.Queue, c.Key, c.StrategyRepositories = "karpenter", KeyCreate, []string{"team/carbon"}
	}))
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allowed := map[string]bool{}
			for _, s := range all {
				if strings.HasPrefix(s.id, p.role) && s.data["Principal"] == nil && s.data["Effect"] == "Allow" {
					for _, a := range strings.Split(show(s.data["Action"]), ", ") {
						allowed[a] = true
					}
				}
			}
			made := calls(t, p.module, p.path)
			if len(made) < p.least {
				t.Fatalf("only %v were found: does the test still read the sources?", made)
			}
			idle := maps.Clone(allowed)
			for _, call := range made {
				if slices.Contains(freeCalls, call) || p.unused[call] != "" {
					continue
				}
				rights, other := asRights[call]
				if !other {
					rights = []string{call}
				}
				for _, r := range rights {
					if !allowed[r] {
						t.Errorf("%s is called without the right %s", call, r)
					}
					delete(idle, r)
				}
			}
			reasons := maps.Clone(p.uncalled)
			for r := range idle {
				if reasons[r] == "" {
					t.Errorf("the right %s is there, and nothing is called that needs it", r)
				}
				delete(reasons, r)
			}
			for r := range reasons {
				t.Errorf("the right %s is to have a reason (%s), and is used or not there", r, p.uncalled[r])
			}
			for call, why := range p.unused {
				if !slices.Contains(made, call) {
					t.Errorf("%s is not called anywhere (%s)", call, why)
				}
			}
		})
	}
}
