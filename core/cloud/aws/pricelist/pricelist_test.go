package pricelist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/cloud/aws/pricelist"
)

// list answers one entry a page: those of the tenancy that is asked for.
type list struct {
	byTenancy map[string][]string
	err       error
}

func (l *list) GetProducts(_ context.Context, in *pricing.GetProductsInput, _ ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
	if l.err != nil {
		return nil, l.err
	}
	tenancy := ""
	for _, f := range in.Filters {
		if *f.Field == "tenancy" {
			tenancy = *f.Value
		}
	}
	i := 0
	if in.NextToken != nil {
		if _, err := fmt.Sscan(*in.NextToken, &i); err != nil {
			return nil, err
		}
	}
	all := l.byTenancy[tenancy]
	out := &pricing.GetProductsOutput{}
	if i < len(all) {
		out.PriceList = all[i : i+1]
	}
	if i+1 < len(all) {
		next := fmt.Sprint(i + 1)
		out.NextToken = &next
	}
	return out, nil
}

func entry(name, currency, price string) string {
	return fmt.Sprintf(`{"product":{"sku":"S","attributes":{"instanceType":%q}},"terms":{"OnDemand":{"A.B":{"priceDimensions":{"A.B.C":{"unit":"Hrs","pricePerUnit":{%q:%q}}}}}}}`, name, currency, price)
}

func TestOnDemand(t *testing.T) {
	t.Parallel()
	l := &list{byTenancy: map[string][]string{
		"Shared":    {entry("m5.large", "USD", "0.0960000000"), entry("m5.xlarge", "USD", "0.192"), entry("free.large", "USD", "0.0000000000"), entry("other.large", "CNY", "3")},
		"Dedicated": {entry("m5.metal", "USD", "4.608")},
	}}
	got, err := pricelist.New(l, "eu-west-1").OnDemand(t.Context())
	if diff := cmp.Diff(map[string]float64{"m5.large": 0.096, "m5.xlarge": 0.192, "m5.metal": 4.608}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// Case B119: every region of China, not the first one alone.
	for _, region := range []string{"cn-north-1", "cn-northwest-1"} {
		china := pricelist.New(l, region)
		got, err = china.OnDemand(t.Context())
		if diff := cmp.Diff(map[string]float64{"other.large": 3}, got); diff != "" || err != nil || china.Currency() != "CNY" {
			t.Errorf("%s: %v, %s (-want +got):\n%s", region, err, china.Currency(), diff)
		}
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]*list{
		"away":            {err: errors.New("away")},
		"no prices":       {},
		"m5.large: price": {byTenancy: map[string][]string{"Shared": {entry("m5.large", "USD", "cheap")}}},
		"NaN":             {byTenancy: map[string][]string{"Shared": {entry("m5.large", "USD", "NaN")}}},
		"-1":              {byTenancy: map[string][]string{"Shared": {entry("m5.large", "USD", "-1")}}},
		"no instanceType": {byTenancy: map[string][]string{"Shared": {`{}`}}},
		"GetProducts":     {byTenancy: map[string][]string{"Shared": {`<html>`}}},
	} {
		if _, err := pricelist.New(l, "eu-west-1").OnDemand(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{"eu-west-1": "eu-central-1", "ap-southeast-2": "ap-south-1", "us-west-2": "us-east-1", "sa-east-1": "us-east-1", "cn-north-1": "cn-northwest-1", "us-gov-west-1": ""} {
		if got := pricelist.Endpoint(region); got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
	}
}
