package model_test

import (
	"testing"

	"github.com/weir-project/weir/core/model"
)

func TestQuotaKey(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"m5.large", model.Spot, "quota/standard/spot"}, {"im4gn.large", model.OnDemand, "quota/standard/on-demand"},
		{"c7gn.large", model.Reserved, "quota/standard/on-demand"}, {"hpc7a.96xlarge", model.OnDemand, "quota/hpc/on-demand"},
		{"g5.xlarge", model.Spot, "quota/g/spot"}, {"gr6.4xlarge", model.Spot, "quota/g/spot"}, {"vt1.3xlarge", model.Spot, "quota/g/spot"},
		{"p5.48xlarge", model.OnDemand, "quota/p/on-demand"}, {"x2idn.16xlarge", model.OnDemand, "quota/x/on-demand"},
		{"inf2.xlarge", model.OnDemand, "quota/inf/on-demand"}, {"u-6tb1.metal", model.OnDemand, "quota/u/on-demand"},
		{"", model.Spot, "quota//spot"},
	} {
		if got := model.QuotaKey(c[0], c[1]); got != c[2] {
			t.Errorf("%s, %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
