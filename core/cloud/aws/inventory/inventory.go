package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
	"github.com/weir-project/weir/core/model"
)

// EC2 is the calls that are used.
type EC2 interface {
	ec2.DescribeInstanceTypesAPIClient
	ec2.DescribeInstanceTypeOfferingsAPIClient
	ec2.DescribeSpotPriceHistoryAPIClient
}

// ListPrices is the price list: on-demand prices of an hour by instance type. It may know some types only.
type ListPrices interface {
	OnDemand(ctx context.Context) (map[string]float64, error)
	Currency() string // of all its prices, and of those of spot: USD, in China CNY
}

// Inventory is what a region has. Its parts are read apart: types change every few months, prices every few hours.
type Inventory struct {
	ec2      EC2
	prices   ListPrices // nil = never asked
	embedded *catalogue.Table

	types    map[string]catalogue.Type
	zones    map[string][]string // type -> zones
	onDemand map[string]float64
	spot     map[[2]string]float64 // type, zone; nil = not read yet
}

// New makes an inventory that knows nothing yet. embedded fills what no API tells.
func New(e EC2, prices ListPrices, embedded *catalogue.Table) *Inventory {
	return &Inventory{ec2: e, prices: prices, embedded: embedded}
}

// ReadTypes asks which types there are and in which zones.
func (v *Inventory) ReadTypes(ctx context.Context) error {
	found := map[string]catalogue.Type{}
	in := &ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(100), Filters: []types.Filter{
		{Name: sdk.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: sdk.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
	}}
	for p := ec2.NewDescribeInstanceTypesPaginator(v.ec2, in); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return awserr.Of("DescribeInstanceTypes", err)
		}
		for _, x := range page.InstanceTypes {
			if t, ok := Type(x, v.embedded.Get(string(x.InstanceType))); ok {
				found[t.Name] = t
			}
		}
	}
	zones := map[string][]string{}
	for p := ec2.NewDescribeInstanceTypeOfferingsPaginator(v.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone, MaxResults: sdk.Int32(1000)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return awserr.Of("DescribeInstanceTypeOfferings", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			zones[string(o.InstanceType)] = append(zones[string(o.InstanceType)], deref(o.Location))
		}
	}
	if len(found) == 0 || len(zones) == 0 {
		return fmt.Errorf("DescribeInstanceTypes: %d types in %d offerings: the region has nothing to offer", len(found), len(zones))
	}
	v.types, v.zones = found, zones
	return nil
}

// ReadPrices asks for prices. What fails keeps its earlier answer; the errors come together.
func (v *Inventory) ReadPrices(ctx context.Context, now time.Time) error {
	var errs []error
	if v.prices != nil {
		list, err := v.prices.OnDemand(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		for name, usd := range list { // merged over the old ones: a type that is missing once is not free
			if v.onDemand == nil {
				v.onDemand = map[string]float64{}
			}
			v.onDemand[name] = usd
		}
	}
	spot, err := v.spotPrices(ctx, now)
	if err != nil {
		errs = append(errs, err)
	} else {
		v.spot = spot
	}
	return errors.Join(errs...)
}

func (v *Inventory) spotPrices(ctx context.Context, now time.Time) (map[[2]string]float64, error) {
	in := &ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: &now, MaxResults: sdk.Int32(1000)}
	out := map[[2]string]float64{}
	at := map[[2]string]time.Time{}
	for p := ec2.NewDescribeSpotPriceHistoryPaginator(v.ec2, in); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, awserr.Of("DescribeSpotPriceHistory", err)
		}
		for _, x := range page.SpotPriceHistory {
			usd, err := strconv.ParseFloat(strings.TrimSpace(deref(x.SpotPrice)), 64)
			if err != nil || !(usd > 0) {
				return nil, fmt.Errorf("DescribeSpotPriceHistory: %s in %s: price %q, expected a number above 0", x.InstanceType, deref(x.AvailabilityZone), deref(x.SpotPrice))
			}
			k := [2]string{string(x.InstanceType), deref(x.AvailabilityZone)}
			if when := deref(x.Timestamp); out[k] == 0 || when.After(at[k]) {
				out[k], at[k] = usd, when
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("DescribeSpotPriceHistory: no prices")
	}
	return out, nil
}

// The sources of prices, as offerings tell them.
const (
	SourceList     = "list"         // the price list
	SourceEmbedded = "embedded"     // the table that is built in: of us-east-1
	SourceSpot     = "spot-history" // what spot costs now
)

// Table is the catalogue as it is known now.
func (v *Inventory) Table() (*catalogue.Table, error) {
	if v.types == nil {
		return nil, errors.New("instance types have not been read yet")
	}
	list := make([]*catalogue.Type, 0, len(v.types))
	for _, t := range v.types {
		one := t
		one.OnDemandUSD, one.Offerings = v.offerings(&one)
		list = append(list, &one)
	}
	slices.SortFunc(list, func(a, b *catalogue.Type) int { return cmp.Compare(a.Name, b.Name) })
	return catalogue.New(list, "ec2")
}

// offerings is the on-demand price of a type, 0 where it is not known, and where it is sold for how much.
func (v *Inventory) offerings(t *catalogue.Type) (onDemand float64, out []catalogue.Price) {
	out = []catalogue.Price{} // empty, not nil: no zone has it
	onDemand, source := t.OnDemandUSD, SourceEmbedded
	if v.prices != nil && v.prices.Currency() != "USD" {
		onDemand = 0 // the embedded prices are in USD and may not stand beside others
	}
	if usd, ok := v.onDemand[t.Name]; ok {
		onDemand, source = usd, SourceList
	}
	zones := slices.Clone(v.zones[t.Name])
	slices.Sort(zones)
	for _, z := range slices.Compact(zones) {
		if onDemand > 0 {
			out = append(out, catalogue.Price{Zone: z, CapacityType: model.OnDemand, USDPerHour: sdk.Float64(onDemand), Source: source})
		}
		// Until the first answer spot costs what on-demand costs; afterwards what has no spot price is not sold as spot.
		switch usd, ok := v.spot[[2]string{t.Name, z}]; {
		case ok:
			out = append(out, catalogue.Price{Zone: z, CapacityType: model.Spot, USDPerHour: sdk.Float64(usd), Source: SourceSpot})
		case v.spot == nil && onDemand > 0:
			out = append(out, catalogue.Price{Zone: z, CapacityType: model.Spot, USDPerHour: sdk.Float64(onDemand), Source: source})
		}
	}
	return onDemand, out
}
