package ec2front

import (
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/status"
)

// TestStatus: what is set of an instance is what the scaler reads of it, by the SDK and its filters.
func TestStatus(t *testing.T) {
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
	for _, name := range golden { // makes instances
		if name != "terminate" {
			ask(t, s, filepath.Join("testdata", name+".txt"))
		}
	}
	client := ec2.NewFromConfig(s.Config())
	out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if i.State.Name == "running" {
				ids = append(ids, sdk.ToString(i.InstanceId))
			}
		}
	}
	if len(ids) < 2 {
		t.Fatalf("only %v run", ids)
	}
	if found, err := status.Read(t.Context(), client, now); err != nil || len(found) != 0 {
		t.Fatalf("of good instances it is found that %+v, %v", found, err)
	}
	s.SetStatus(ids[0], Status{System: now.Add(-10 * time.Minute)})
	s.SetStatus(ids[1], Status{Events: []StatusEvent{{ID: "instance-event-1", Code: "instance-retirement", Description: "it ages", NotBefore: now.Add(72 * time.Hour)}}})
	found, err := status.Read(t.Context(), client, now)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		line := f.Category + " of " + f.Notice.InstanceID
		if f.Notice.Deadline != nil {
			line += " by " + f.Notice.Deadline.Format(time.RFC3339)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"SystemStatus of " + ids[0], "EventStatus of " + ids[1] + " by 2026-03-05T09:00:00Z"}, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
