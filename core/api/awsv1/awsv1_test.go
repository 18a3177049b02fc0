package awsv1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/api/awsv1"
)

func TestParseAlias(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]awsv1.Alias{
		"al2@latest":           {Family: awsv1.FamilyAL2, Version: "latest"},
		"al2023@v20240807":     {Family: awsv1.FamilyAL2023, Version: "v20240807"},
		"bottlerocket@v1.20.3": {Family: awsv1.FamilyBottlerocket, Version: "1.20.3"},
		"bottlerocket@1.20.3":  {Family: awsv1.FamilyBottlerocket, Version: "1.20.3"},
		"windows2022@latest":   {Family: awsv1.FamilyWindows2022, Version: "latest"},
	} {
		got, err := awsv1.ParseAlias(text)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "@", "al2023", "al2023@", "@latest", "ubuntu@latest", "AL2023@latest", "windows2022@v1"} {
		if got, err := awsv1.ParseAlias(text); err == nil {
			t.Errorf("%q is read as %+v, want an error", text, got)
		}
	}
}

func TestFamily(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"amiSelectorTerms":[{"alias":"bottlerocket@latest"}]}`:                    awsv1.FamilyBottlerocket,
		`{"amiSelectorTerms":[{"alias":"al2023@latest"}],"amiFamily":"Custom"}`:     awsv1.FamilyCustom,
		`{"amiSelectorTerms":[{"id":"ami-1"},{"id":"ami-2"}],"amiFamily":"AL2023"}`: awsv1.FamilyAL2023,
		`{}`: awsv1.FamilyCustom,
	} {
		if got := class(t, text).Spec.Family(); got != want {
			t.Errorf("family of %s is %s, want %s", text, got, want)
		}
	}
}

const baseClass = `{"role":"r","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[{"id":"sg-1"}],
	"tags":{"a":"b"},"kubelet":{"maxPods":10,"podsPerCore":2},
	"blockDeviceMappings":[{"deviceName":"x","ebs":{"volumeSize":"50Gi"}},{"deviceName":"y","ebs":{"volumeSize":"1Ti"}}]%s}`

// What resolves to something else later, order, and spelling must not drift nodes; the rest of the class must.
func TestHashCountsWhatMakesNodesDrift(t *testing.T) {
	t.Parallel()
	base := hash(t, class(t, replaceOnce(t, baseClass, "%s", "")), "ca")
	for name, tc := range map[string]struct {
		old, new string
		same     bool
	}{
		"another subnet":             {`"subnet-1"`, `"subnet-2"`, true},
		"another group":              {`"sg-1"`, `"sg-2"`, true},
		"another image version":      {`al2023@latest`, `al2023@v20240807`, true},
		"order of kubelet's fields":  {`"maxPods":10,"podsPerCore":2`, `"podsPerCore": 2, "maxPods": 10`, true},
		"prefix count":               {`%s`, `,"ipPrefixCount":3`, true},
		"family as the alias has it": {`%s`, `,"amiFamily":"AL2023"`, true},
		"default written out":        {`%s`, `,"metadataOptions":{"httpTokens":"required"}`, true},
		"order of the disks":         {`{"deviceName":"x","ebs":{"volumeSize":"50Gi"}},{"deviceName":"y","ebs":{"volumeSize":"1Ti"}}`, `{"deviceName":"y","ebs":{"volumeSize":"1Ti"}},{"deviceName":"x","ebs":{"volumeSize":"50Gi"}}`, true},
		"another role":               {`"r"`, `"s"`, false},
		"another tag":                {`"b"`, `"c"`, false},
		"another kubelet value":      {`"maxPods":10`, `"maxPods":11`, false},
		"B070: another size":         {`50Gi`, `60Gi`, false},
		"B070: the size in Mi":       {`50Gi`, `51200Mi`, true},
		"another family":             {`al2023@latest`, `bottlerocket@latest`, false},
		"tokens optional":            {`%s`, `,"metadataOptions":{"httpTokens":"optional"}`, false},
		"user data":                  {`%s`, `,"userData":"x"`, false},
		"public address":             {`%s`, `,"associatePublicIPAddress":true`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := replaceOnce(t, baseClass, tc.old, tc.new)
			if tc.old != "%s" {
				text = replaceOnce(t, text, "%s", "")
			}
			if got := hash(t, class(t, text), "ca"); (got == base) != tc.same {
				t.Errorf("hash %s beside %s, want the same: %v", got, base, tc.same)
			}
		})
	}
	if hash(t, class(t, replaceOnce(t, baseClass, "%s", "")), "another ca") == base {
		t.Error("the cluster's certificate does not count")
	}
}

func TestKubeletConfigReadsWhatSchedulingNeeds(t *testing.T) {
	t.Parallel()
	c := class(t, `{"amiSelectorTerms":[{"alias":"al2023@latest"}],"kubelet":{"maxPods":42,"kubeReserved":{"cpu":"100m"},"evictionHard":{"memory.available":"5%"},"serializeImagePulls":false}}`)
	config, errs := c.Spec.KubeletConfig()
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if config.MaxPods != 42 || config.SerializeImagePulls == nil || *config.SerializeImagePulls {
		t.Errorf("maxPods %d, serializeImagePulls %v, want 42 and false", config.MaxPods, config.SerializeImagePulls)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "100m"}, config.KubeReserved); diff != "" {
		t.Errorf("kubeReserved (-want +got):\n%s", diff)
	}
	if none, errs := class(t, `{}`).Spec.KubeletConfig(); none == nil || len(errs) > 0 {
		t.Errorf("without kubelet: %v, %v, want an empty configuration", none, errs)
	}
}

func FuzzKubeletConfig(f *testing.F) {
	for _, text := range []string{`{}`, `{"maxPods":"vcpus"}`, `{"maxPods":1.5}`, `{"kubeReserved":{"cpu":"x"}}`, `[]`, `{"evictionSoft":{"memory.available":"NaN%"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec := `{"kubelet":` + text + `}`
		if !json.Valid([]byte(spec)) {
			t.Skip("not JSON")
		}
		c := &awsv1.EC2NodeClass{}
		if err := json.Unmarshal([]byte(`{"spec":`+spec+`}`), c); err != nil {
			return
		}
		if config, _ := c.Spec.KubeletConfig(); config == nil {
			t.Error("no configuration")
		}
		if _, err := c.Hash(""); err != nil {
			t.Error(err)
		}
	})
}

func class(t *testing.T, spec string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := json.Unmarshal([]byte(`{"spec":`+spec+`}`), c); err != nil {
		t.Fatal(err)
	}
	c.Default()
	return c
}

func hash(t *testing.T, c *awsv1.EC2NodeClass, ca string) string {
	t.Helper()
	out, err := c.Hash(ca)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// replaceOnce fails the test when there is nothing to replace, so that a case cannot pass by changing nothing.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	before, after, ok := strings.Cut(text, old)
	if !ok {
		t.Fatalf("no %s in %s", old, text)
	}
	return before + new + after
}
