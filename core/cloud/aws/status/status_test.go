package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud/aws/status"
	"github.com/weir-project/weir/core/event"
	"github.com/weir-project/weir/core/interrupt"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/modeltest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake answers by the filters of a call, one status a page.
type fake struct {
	mu    sync.Mutex // guards all below
	all   []types.InstanceStatus
	err   error
	calls int
}

func (f *fake) DescribeInstanceStatus(_ context.Context, in *ec2.DescribeInstanceStatusInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceStatusOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return nil, f.err
	}
	var match []types.InstanceStatus
	for _, s := range f.all {
		for _, filter := range in.Filters {
			var have []string
			switch sdk.ToString(filter.Name) {
			case "instance-status.status":
				have = append(have, state(s.InstanceStatus))
			case "system-status.status":
				have = append(have, state(s.SystemStatus))
			case "event.code":
				for _, e := range s.Events {
					have = append(have, string(e.Code))
				}
			default:
				return nil, fmt.Errorf("filter %s", sdk.ToString(filter.Name))
			}
			if slices.ContainsFunc(have, func(h string) bool { return slices.Contains(filter.Values, h) }) {
				match = append(match, s)
			}
		}
	}
	at := 0
	if t := sdk.ToString(in.NextToken); t != "" {
		if _, err := fmt.Sscan(t, &at); err != nil {
			return nil, err
		}
	}
	out := &ec2.DescribeInstanceStatusOutput{}
	if at < len(match) {
		out.InstanceStatuses = match[at : at+1]
	}
	if at+1 < len(match) {
		out.NextToken = sdk.String(fmt.Sprint(at + 1))
	}
	return out, nil
}

func state(s *types.InstanceStatusSummary) string {
	if s == nil {
		return ""
	}
	return string(s.Status)
}

func impaired(since time.Duration) *types.InstanceStatusSummary {
	at := noon.Add(-since)
	return &types.InstanceStatusSummary{Status: types.SummaryStatusImpaired, Details: []types.InstanceStatusDetails{
		{Name: types.StatusNameReachability, Status: types.StatusTypeFailed, ImpairedSince: &at},
	}}
}

func planned(code types.EventCode, in time.Duration, description string) types.InstanceStatusEvent {
	at := noon.Add(in)
	return types.InstanceStatusEvent{Code: code, NotBefore: &at, Description: &description, InstanceEventId: sdk.String("instance-event-1")}
}

func instance(n int, system *types.InstanceStatusSummary, events ...types.InstanceStatusEvent) types.InstanceStatus {
	return types.InstanceStatus{InstanceId: sdk.String(fmt.Sprintf("i-0aaa000000000000%d", n)), SystemStatus: system, Events: events}
}

// The first three are case B110.
func instances() []types.InstanceStatus {
	young := instance(7, nil)
	young.InstanceStatus = impaired(time.Minute)
	software := instance(8, nil)
	software.InstanceStatus = impaired(3 * time.Minute)
	return []types.InstanceStatus{
		instance(1, impaired(10*time.Minute)),
		instance(2, &types.InstanceStatusSummary{Status: types.SummaryStatusOk}, planned(types.EventCodeSystemReboot, 72*time.Hour, "")),
		instance(3, impaired(10*time.Minute), planned(types.EventCodeInstanceRetirement, time.Hour, "The instance is running on degraded hardware")),
		instance(4, nil, planned(types.EventCodeInstanceStop, -time.Hour, "[Completed] The instance is running on degraded hardware")),
		instance(5, nil, planned(types.EventCodeInstanceReboot, time.Hour, " [Canceled] x")),
		instance(6, impaired(time.Minute)),
		young, software,
	}
}

func text(f status.Found) string {
	until := "-"
	if f.Notice.Deadline != nil {
		until = f.Notice.Deadline.Sub(noon).String()
	}
	return fmt.Sprintf("%s %s %s %s", f.Notice.InstanceID[len(f.Notice.InstanceID)-1:], f.Category, f.Notice.Kind, until)
}

func TestRead(t *testing.T) {
	t.Parallel()
	found, err := status.Read(t.Context(), &fake{all: instances()}, noon)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, text(f))
	}
	slices.Sort(got)
	want := []string{"1 SystemStatus status -", "2 EventStatus scheduled 72h0m0s", "3 EventStatus scheduled 1h0m0s", "3 SystemStatus status -", "8 InstanceStatus status -"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// B110: a broken machine ends by force, one with planned maintenance drains, one with both ends by force.
func TestReactions(t *testing.T) {
	t.Parallel()
	found, err := status.Read(t.Context(), &fake{all: instances()[:3]}, noon)
	if err != nil {
		t.Fatal(err)
	}
	w := &model.World{Now: noon}
	for i := 1; i <= 3; i++ {
		w.Nodes = append(w.Nodes, modeltest.Node(fmt.Sprintf("n%d", i), 2000, 8192, nil, modeltest.Managed("default"), func(n *model.Node) {
			n.ProviderID = model.ProviderID("us-east-2a", fmt.Sprintf("i-0aaa000000000000%d", i))
		}))
	}
	d := interrupt.NewDecider(w, interrupt.Options{Now: noon})
	got := map[string]interrupt.Action{}
	for _, f := range found {
		v := d.Notice(event.ScheduledChange, f.Notice)
		if v.Action.Acts() {
			got[v.Node] = v.Action
		}
	}
	if diff := cmp.Diff(map[string]interrupt.Action{"n1": interrupt.Remove, "n2": interrupt.Drain, "n3": interrupt.Remove}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is found is told at each look and counted once; an error is told once and ends nothing, the missing right ends the looks.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{all: instances()[:1]}
		var said []string // guarded by the mutex of the fake, too
		say := func(text string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			said = append(said, text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			status.Run(ctx, f, func() time.Time { return noon }, status.Handlers{
				Found: func(f status.Found, first bool) { say(fmt.Sprint(text(f), " first=", first)) },
				State: func(err error) {
					said = append(said, "state "+fmt.Sprint(err)[max(0, strings.LastIndex(fmt.Sprint(err), ": ")):])
				},
			})
		}()
		step := func(want ...string) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if diff := cmp.Diff(want, said); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			said = nil
		}
		step("state <nil>", "1 SystemStatus status - first=true")
		time.Sleep(status.Every / 2) // every later step is between two looks
		time.Sleep(status.Every)
		step("1 SystemStatus status - first=false")
		now := func(all []types.InstanceStatus, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.all, f.err = all, err
		}
		now(nil, errors.New("connection refused"))
		time.Sleep(status.Every)
		step("state : connection refused")
		time.Sleep(status.Every)
		step()
		now(nil, nil)
		time.Sleep(status.Every)
		step("state <nil>")
		now(instances()[:1], nil)
		time.Sleep(status.Every)
		step("1 SystemStatus status - first=true")
		now(nil, &smithy.GenericAPIError{Code: "UnauthorizedOperation", Message: "no"})
		time.Sleep(status.Every)
		step("state : no")
		<-ended
		calls := f.calls
		time.Sleep(time.Hour)
		if f.calls != calls {
			t.Errorf("it was asked %d times without the right", f.calls-calls)
		}
	})
}
