package custom_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/lambda/deploy/custom"
)

func TestProperties(t *testing.T) {
	t.Parallel()
	p, err := custom.ReadProperties(given(map[string]any{
		"namespace": "n", "region": "us-gov-west-1", "values": `{"ledger":"dynamodb","resources":{"requests":{"cpu":2}}}`, "chartVersion": "1.2.3-rc.1", "revision": "abc", "wait": "false",
		"image": nil, "imageRepository": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/weir/scaler",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := custom.Properties{
		ClusterName: "demo", Region: "us-gov-west-1", Endpoint: "https://api.example", CertificateAuthority: given(nil)["certificateAuthority"].(string), Namespace: "n",
		Values:          map[string]any{"ledger": "dynamodb", "resources": map[string]any{"requests": map[string]any{"cpu": 2.0}}},
		ImageRepository: "111122223333.dkr.ecr.eu-west-1.amazonaws.com/weir/scaler", ChartVersion: "1.2.3-rc.1", Revision: "abc",
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	if p, err := custom.ReadProperties(given(map[string]any{"ServiceTimeout": "900"})); err != nil || p.Namespace != "weir-system" || !p.Wait || p.Values == nil {
		t.Errorf("defaults are %+v, %v", p, err)
	}
}

func TestBadPropertiesAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"no cluster":        {map[string]any{"clusterName": nil}, "property clusterName is missing"},
		"cluster":           {map[string]any{"clusterName": "a b"}, `property clusterName is "a b", expected the name of an EKS cluster`},
		"endpoint":          {map[string]any{"endpoint": "http://x"}, "property endpoint is"},
		"not base64":        {map[string]any{"certificateAuthority": "*"}, "property certificateAuthority is not base64"},
		"no certificate":    {map[string]any{"certificateAuthority": "AA=="}, "property certificateAuthority is no certificate"},
		"namespace":         {map[string]any{"namespace": "A"}, "property namespace is"},
		"region":            {map[string]any{"region": "europe"}, "property region is"},
		"values":            {map[string]any{"values": "{"}, "property values is no JSON object"},
		"values, null":      {map[string]any{"values": "null"}, "property values is null"},
		"values, a list":    {map[string]any{"values": "[]"}, "property values is no JSON object"},
		"values, no text":   {map[string]any{"values": map[string]any{"a": "b"}}, "property values is map[string]interface {}, expected text"},
		"values, image":     {map[string]any{"values": `{"image":{}}`}, "property values sets image"},
		"values, cluster":   {map[string]any{"values": `{"clusterName":"x"}`}, "property values sets clusterName"},
		"no image":          {map[string]any{"image": nil}, "property image or imageRepository is missing"},
		"two images":        {map[string]any{"imageRepository": "r.example/weir"}, "both set"},
		"image without tag": {map[string]any{"image": "r.example/weir"}, "property image is"},
		"repository's tag":  {map[string]any{"image": nil, "imageRepository": "r.example/weir:v1"}, "property imageRepository is"},
		"version":           {map[string]any{"chartVersion": "latest"}, "property chartVersion is"},
		"unknown":           {map[string]any{"colour": "blue"}, "property colour is not known, expected one of clusterName, region"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := custom.ReadProperties(given(tc.changes)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, expected it to say %q", err, tc.want)
			}
		})
	}
}
