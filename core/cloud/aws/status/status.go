package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/model"
)

// The timings, which are Karpenter's.
const (
	Every      = time.Minute     // between two looks
	Impaired   = 2 * time.Minute // a failed check counts once it has failed for so long
	callWithin = 30 * time.Second
)

// The categories of what is found, as the metric names them.
const (
	InstanceStatus = "InstanceStatus" // the check of the instance's software and network
	SystemStatus   = "SystemStatus"   // the check of what is below it
	EventStatus    = "EventStatus"    // a planned event
)

// codes are the events that end or restart an instance.
var codes = []types.EventCode{types.EventCodeInstanceReboot, types.EventCodeSystemReboot, types.EventCodeSystemMaintenance,
	types.EventCodeInstanceRetirement, types.EventCodeInstanceStop}

// over begins the description of an event that has ended or was called off; EC2 lists it for up to a week more.
var over = []string{"[completed]", "[canceled]", "[cancelled]"}

// API is what is asked of EC2; *ec2.Client has it.
type API interface {
	ec2.DescribeInstanceStatusAPIClient
}

// Found is what was found about one instance in one category.
type Found struct {
	Category string
	Notice   model.Notice
}

// Handlers hear what is found. Calls come from Run's goroutine, one after the other.
type Handlers struct {
	// Found hears of everything that is found, at each look; first says that it was not there at the look before.
	Found func(f Found, first bool)
	// State hears nil once a look has succeeded, and of an error when it is another one than before.
	State func(err error)
}

// Read asks once. Errors are of package awserr.
func Read(ctx context.Context, api API, now time.Time) ([]Found, error) {
	var out []Found
	for _, filter := range []types.Filter{
		{Name: sdk.String("instance-status.status"), Values: []string{string(types.SummaryStatusImpaired)}},
		{Name: sdk.String("system-status.status"), Values: []string{string(types.SummaryStatusImpaired)}},
		{Name: sdk.String("event.code"), Values: texts(codes)},
	} {
		for p := ec2.NewDescribeInstanceStatusPaginator(api, &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{filter}}); p.HasMorePages(); {
			page, err := p.NextPage(ctx)
			if err != nil {
				return nil, awserr.Of("DescribeInstanceStatus", err)
			}
			for _, s := range page.InstanceStatuses {
				for _, f := range of(s, now) {
					// An instance may be on several of the lists.
					if !slices.ContainsFunc(out, func(o Found) bool {
						return o.Category == f.Category && o.Notice.InstanceID == f.Notice.InstanceID && o.Notice.EventID == f.Notice.EventID
					}) {
						out = append(out, f)
					}
				}
			}
		}
	}
	return out, nil
}

func texts(codes []types.EventCode) []string {
	var out []string
	for _, c := range codes {
		out = append(out, string(c))
	}
	return out
}

// of reads the status of one instance.
func of(s types.InstanceStatus, now time.Time) []Found {
	id := sdk.ToString(s.InstanceId)
	if id == "" {
		return nil
	}
	var out []Found
	for category, summary := range map[string]*types.InstanceStatusSummary{InstanceStatus: s.InstanceStatus, SystemStatus: s.SystemStatus} {
		if since, ok := failed(summary, now); ok {
			out = append(out, Found{category, model.Notice{Kind: model.NoticeStatus, InstanceID: id, EventID: "status/" + category + "/" + since.UTC().Format(time.RFC3339),
				Time: now, Action: category}})
		}
	}
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.Category, b.Category) })
	for _, e := range s.Events {
		if !slices.Contains(codes, e.Code) || ended(sdk.ToString(e.Description)) {
			continue
		}
		n := model.Notice{Kind: model.NoticeScheduled, InstanceID: id, EventID: sdk.ToString(e.InstanceEventId), Time: now, Action: string(e.Code)}
		if e.NotBefore != nil {
			at := e.NotBefore.UTC()
			n.Deadline = &at
		}
		if n.EventID == "" {
			n.EventID = fmt.Sprintf("status/%s/%s", id, e.Code)
		}
		out = append(out, Found{EventStatus, n})
	}
	return out
}

// failed says whether a check has failed for long enough, and since when.
func failed(s *types.InstanceStatusSummary, now time.Time) (since time.Time, ok bool) {
	if s == nil || s.Status != types.SummaryStatusImpaired {
		return time.Time{}, false
	}
	for _, d := range s.Details {
		if d.Status != types.StatusTypeFailed || d.ImpairedSince == nil || now.Sub(*d.ImpairedSince) < Impaired {
			continue
		}
		if !ok || d.ImpairedSince.Before(since) {
			since, ok = *d.ImpairedSince, true
		}
	}
	return since, ok
}

func ended(description string) bool {
	d := strings.ToLower(strings.TrimSpace(description))
	return slices.ContainsFunc(over, func(prefix string) bool { return strings.HasPrefix(d, prefix) })
}

// Run looks every minute until the context ends. Where the right is missing it says so once and ends: other sources tell of
// most of it.
func Run(ctx context.Context, api API, now func() time.Time, h Handlers) {
	known := map[[3]string]bool{} // category, instance, event
	said := "?"
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, callWithin)
		list, err := Read(call, api, now())
		cancel()
		if ctx.Err() != nil {
			return
		}
		if text := fmt.Sprint(err); text != said {
			said = text
			h.State(err)
		}
		if err != nil && cloud.KindOf(err) == cloud.Auth {
			return
		}
		if err == nil {
			next := map[[3]string]bool{}
			for _, f := range list {
				key := [3]string{f.Category, f.Notice.InstanceID, f.Notice.EventID}
				next[key] = true
				h.Found(f, !known[key])
			}
			known = next
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
