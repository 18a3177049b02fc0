package zonalshift

import (
	"context"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	"github.com/weir-project/weir/core/cloud/aws/awserr"
)

// ARC is the call of Application Recovery Controller that is made.
type ARC interface {
	GetManagedResource(context.Context, *arczonalshift.GetManagedResourceInput, ...func(*arczonalshift.Options)) (*arczonalshift.GetManagedResourceOutput, error)
}

// How often zones are asked for.
const (
	Every      = time.Minute
	EveryOther = 10 * time.Minute // of a cluster that is not registered
)

// Read answers the ids of the zones that the cluster is shifted away from at now, and after how long to ask again; 0 = never,
// for want of the right, which err tells of.
func Read(ctx context.Context, api ARC, cluster string, now time.Time) (away []string, again time.Duration, err error) {
	out, err := api.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &cluster})
	switch {
	case awserr.Is(err, "ResourceNotFoundException"):
		return nil, EveryOther, nil
	case awserr.Is(err, "AccessDeniedException", "AccessDenied", "UnauthorizedOperation"):
		return nil, 0, awserr.Of("GetManagedResource", err)
	case err != nil:
		return nil, Every, awserr.Of("GetManagedResource", err)
	}
	for _, s := range out.ZonalShifts {
		if s.AppliedStatus == types.AppliedStatusApplied && (s.ExpiryTime == nil || now.Before(*s.ExpiryTime)) {
			away = append(away, sdk.ToString(s.AwayFrom))
		}
	}
	for _, s := range out.Autoshifts {
		if s.AppliedStatus == types.AutoshiftAppliedStatusApplied {
			away = append(away, sdk.ToString(s.AwayFrom))
		}
	}
	slices.Sort(away)
	return slices.Compact(away), Every, nil
}
