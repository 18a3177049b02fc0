package sdkconf_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
)

// asked notes the host of a request and answers nothing.
type asked struct{ host string }

func (a *asked) Do(r *http.Request) (*http.Response, error) {
	a.host = r.URL.Host
	return nil, errors.New("nobody answers in this test")
}

// TestPartitionsAndFIPS is not parallel: it sets the environment. Where calls go is the SDK's business, by the region and by its
// own settings.
func TestPartitionsAndFIPS(t *testing.T) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, tt := range []struct{ name, region, setting, value, want string }{
		{"the usual", "eu-west-1", "", "", "ec2.eu-west-1.amazonaws.com"},
		{"China", "cn-north-1", "", "", "ec2.cn-north-1.amazonaws.com.cn"},
		{"US government", "us-gov-west-1", "", "", "ec2.us-gov-west-1.amazonaws.com"},
		{"FIPS", "us-east-1", "AWS_USE_FIPS_ENDPOINT", "true", "ec2-fips.us-east-1.amazonaws.com"},
		{"dual stack", "eu-west-1", "AWS_USE_DUALSTACK_ENDPOINT", "true", "ec2.eu-west-1.api.aws"},
		{"one's own", "eu-west-1", "AWS_ENDPOINT_URL_EC2", "https://vpce-1.example.com", "vpce-1.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.setting != "" {
				t.Setenv(tt.setting, tt.value)
			}
			cfg, err := sdkconf.Load(t.Context(), sdkconf.Options{Region: tt.region})
			if err != nil {
				t.Fatal(err)
			}
			a := &asked{}
			cfg.HTTPClient = a
			if _, err := ec2.NewFromConfig(cfg).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err == nil || a.host != tt.want {
				t.Errorf("asked %q, want %q (error %v)", a.host, tt.want, err)
			}
		})
	}
}
