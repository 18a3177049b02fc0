package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud"
	ec2 "github.com/weir-project/weir/core/cloud/sim"
)

// Whatever EC2 does wrong, the story ends as it would have: pods run, one instance
// for each claim, no budget broken.
func TestFaultsOfTheCloud(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]Step{
		"launch answers are lost":    {{Fault: &FaultStep{Op: ec2.OpLaunch, Count: 3, Lose: true}}, {At: 5 * time.Minute, Fault: &FaultStep{Op: ec2.OpLaunch, Count: 1, Lose: true}}},
		"launches are throttled":     {{Fault: &FaultStep{Op: ec2.OpLaunch, Count: 4, Kind: cloud.Throttled, Code: "RequestLimitExceeded"}}},
		"launches fail":              {{Fault: &FaultStep{Op: ec2.OpLaunch, Count: 2, Kind: cloud.Internal, Code: "InternalError"}}},
		"terminations are lost":      {{At: 5 * time.Minute, Fault: &FaultStep{Op: ec2.OpTerminate, Count: 2, Lose: true}}},
		"terminations fail":          {{At: 5 * time.Minute, Fault: &FaultStep{Op: ec2.OpTerminate, Count: 3, Kind: cloud.Throttled}}},
		"descriptions fail":          {{Fault: &FaultStep{Op: ec2.OpDescribe, Count: 5, Kind: cloud.Internal}}, {At: 5 * time.Minute, Fault: &FaultStep{Op: ec2.OpDescribe, Count: 5, Kind: cloud.Internal}}},
		"the best spot type is gone": {{Short: &ShortStep{Offering: "m6a.2xlarge/*/spot", Left: 0}}},
		"a zone is out of spot":      {{At: 5 * time.Minute, Short: &ShortStep{Offering: "*/us-east-1a/spot", Left: 0}}},
		"one of each is left":        {{Short: &ShortStep{Offering: "*/*/spot", Left: 1}}},
		"offerings cannot be read":   {{Fault: &FaultStep{Op: ec2.OpOfferings, Count: 3, Kind: cloud.Internal}}},
		"lost answer, then death":    {{Fault: &FaultStep{Op: ec2.OpLaunch, Count: 1, Lose: true}}, {Kill: &KillStep{Effect: "SendLaunch", After: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t)
			opts.Catalogue = few
			script := storm(t)
			script.Steps = append(steps, script.Steps...)
			r, err := Run(t.Context(), &Input{}, script, opts)
			if err != nil {
				t.Fatal(err)
			}
			got := outcomeOf(r, r.Final.Instances)
			if d := cmp.Diff(outcome{Pods: map[string]int{"default/test-karpenter": 10, "default/web": 7}, Claims: true}, got); d != "" {
				t.Errorf("end (-want +got):\n%s", d)
			}
		})
	}
}
