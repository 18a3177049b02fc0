package pricelist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/weir-project/weir/core/cloud/aws/awserr"
)

// List reads the price list for one region.
type List struct {
	api    pricing.GetProductsAPIClient
	region string
}

// New makes the list of a region.
func New(api pricing.GetProductsAPIClient, region string) *List {
	return &List{api: api, region: region}
}

// Endpoint is the region whose endpoint answers for a region; empty where there is no price list.
func Endpoint(region string) string {
	switch {
	case strings.HasPrefix(region, "us-gov-"), strings.HasPrefix(region, "us-iso"):
		return ""
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

// Currency is what prices of the region are in.
func (l *List) Currency() string {
	if strings.HasPrefix(l.region, "cn-") {
		return "CNY"
	}
	return "USD"
}

// OnDemand is the price of an hour by instance type.
func (l *List) OnDemand(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	for _, kind := range [][2]string{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		if err := l.read(ctx, kind[0], kind[1], out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("GetProducts: no prices for region %s", l.region)
	}
	return out, nil
}

func (l *List) read(ctx context.Context, tenancy, family string, out map[string]float64) error {
	in := &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2"), MaxResults: sdk.Int32(100)}
	for _, f := range [][2]string{
		{"regionCode", l.region}, {"serviceCode", "AmazonEC2"}, {"preInstalledSw", "NA"}, {"operatingSystem", "Linux"}, {"capacitystatus", "Used"},
		{"marketoption", "OnDemand"}, {"tenancy", tenancy}, {"productFamily", family},
	} {
		in.Filters = append(in.Filters, types.Filter{Type: types.FilterTypeTermMatch, Field: sdk.String(f[0]), Value: sdk.String(f[1])})
	}
	for p := pricing.NewGetProductsPaginator(l.api, in); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return awserr.Of("GetProducts", err)
		}
		for _, text := range page.PriceList {
			name, price, err := l.entry(text)
			if err != nil {
				return fmt.Errorf("GetProducts: %w", err)
			}
			if price > 0 {
				out[name] = price
			}
		}
	}
	return nil
}

type product struct {
	Product struct {
		SKU        string            `json:"sku"`
		Attributes map[string]string `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// entry reads one product. Some are listed at 0: capacity that is paid for elsewhere.
func (l *List) entry(text string) (name string, price float64, err error) {
	var p product
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return "", 0, err
	}
	name = p.Product.Attributes["instanceType"]
	if name == "" {
		return "", 0, errors.New("product " + p.Product.SKU + " has no instanceType")
	}
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			s, ok := d.PricePerUnit[l.Currency()]
			if !ok {
				continue
			}
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || f < 0 || f > 1e6 || f != f {
				return "", 0, fmt.Errorf("%s: price %q, expected a number of at least 0", name, s)
			}
			price = max(price, f)
		}
	}
	return name, price, nil
}
