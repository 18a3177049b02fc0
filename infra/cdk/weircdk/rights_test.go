package weircdk

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// calls finds the operations of AWS that programs ask for, in their sources: whoever
// calls one names its input.
func calls(t *testing.T, folders ...string) []string {
	t.Helper()
	input := regexp.MustCompile(`[&*](ec2|ssm|iam|eks|pricing|sqs|dynamodb|sts|arczonalshift|ecr|s3)\.([A-Z][A-Za-z]+)Input\b`)
	found := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range input.FindAllStringSubmatch(string(b), -1) {
				service := m[1]
				if service == "arczonalshift" {
					service = "arc-zonal-shift"
				}
				found[service+":"+m[2]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
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

// The scaler has the rights for what it asks of AWS, and no others.
func TestScalerHasTheRightsThatItUses(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{}
	for _, s := range statements(synth(t, func(c *Config) { c.Queue = "karpenter" })) {
		if strings.HasPrefix(s.id, "ScalerRole") && s.data["Principal"] == nil && s.data["Effect"] == "Allow" {
			for _, a := range strings.Split(show(s.data["Action"]), ", ") {
				allowed[a] = true
			}
		}
	}
	made := calls(t, "core", "cmd/weir-scaler")
	if len(made) < 30 {
		t.Fatalf("only %v were found: does the test still read the sources?", made)
	}
	unused := maps.Clone(allowed)
	for _, call := range made {
		rights, other := asRights[call]
		if !other {
			rights = []string{call}
		}
		for _, r := range rights {
			if !allowed[r] {
				t.Errorf("the scaler calls %s without the right %s", call, r)
			}
			delete(unused, r)
		}
	}
	// Rights of Karpenter's policy that the scaler does not use, so that either can take over.
	delete(unused, "arc-zonal-shift:GetManagedResource")
	for _, r := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("the scaler has the right %s and calls nothing that needs it", r)
	}
}
