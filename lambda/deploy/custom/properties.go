package custom

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// DefaultNamespace is where the chart goes unless a property says otherwise.
const DefaultNamespace = "weir-system"

// Properties is what the resource in the template says.
type Properties struct {
	ClusterName          string
	Region               string // of the cluster and the registry; empty = the function's own
	Endpoint             string // https URL of the API server
	CertificateAuthority string // of the API server, PEM in base64, as EKS gives it
	Namespace            string
	Values               map[string]any // of the chart
	Image                string         // an existing image; empty = the carried one is pushed to ImageRepository
	ImageRepository      string
	ChartVersion         string // empty = the carried one
	Revision             string // free text whose change asks for an update
	Wait                 bool   // until the pods are ready
}

// property is one of them: its name in the template and how its text is read.
type property struct {
	name     string
	target   bool // says where the release is, not what it is
	required bool
	read     func(p *Properties, text string) error
}

func properties() []property {
	text := func(field func(*Properties) *string, check func(string) error) func(*Properties, string) error {
		return func(p *Properties, s string) error {
			*field(p) = s
			return check(s)
		}
	}
	return []property{
		{"clusterName", true, true, text(func(p *Properties) *string { return &p.ClusterName }, matches(clusterName, "the name of an EKS cluster"))},
		{"region", true, false, text(func(p *Properties) *string { return &p.Region }, matches(regionName, "a region such as eu-west-1"))},
		{"endpoint", true, true, text(func(p *Properties) *string { return &p.Endpoint }, checkEndpoint)},
		{"certificateAuthority", true, true, text(func(p *Properties) *string { return &p.CertificateAuthority }, checkAuthority)},
		{"namespace", true, false, text(func(p *Properties) *string { return &p.Namespace }, matches(kubeName, "the name of a namespace"))},
		{"values", false, false, readValues},
		{"image", false, false, text(func(p *Properties) *string { return &p.Image }, matches(imageName, "a reference such as REGISTRY/weir@sha256:…"))},
		{"imageRepository", false, false, text(func(p *Properties) *string { return &p.ImageRepository }, matches(repositoryName, "a repository such as REGISTRY/weir, without tag or digest"))},
		{"chartVersion", false, false, text(func(p *Properties) *string { return &p.ChartVersion }, matches(chartVersion, "a version such as 1.2.3"))},
		{"revision", false, false, text(func(p *Properties) *string { return &p.Revision }, func(string) error { return nil })},
		{"wait", false, false, readWait},
	}
}

// ofCloudFormation are properties that CloudFormation puts beside ours.
var ofCloudFormation = []string{"ServiceToken", "ServiceTimeout"}

var (
	clusterName    = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	regionName     = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
	kubeName       = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	imageName      = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*(:[\w][\w.-]*|@sha256:[0-9a-f]{64})$`)
	repositoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+$`)
	chartVersion   = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// ReadProperties reads what the resource says. The error tells everything that is wrong,
// each with the name of its property.
func ReadProperties(given map[string]any) (Properties, error) {
	p := Properties{Namespace: DefaultNamespace, Wait: true, Values: map[string]any{}}
	known := slices.Clone(ofCloudFormation)
	for _, k := range properties() {
		known = append(known, k.name)
	}
	errs := p.read(given, func(property) bool { return true })
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("property %s is not known, expected one of %s", name, strings.Join(known[len(ofCloudFormation):], ", ")))
		}
	}
	switch {
	case p.Image != "" && p.ImageRepository != "":
		errs = append(errs, errors.New("properties image and imageRepository are both set: one is an existing image, the other is where the carried image is pushed"))
	case p.Image == "" && p.ImageRepository == "":
		errs = append(errs, errors.New("property image or imageRepository is missing: an existing image, or where to push the carried one"))
	}
	return p, errors.Join(errs...)
}

// ReadTarget reads only where the release is. What else the resource says may be of
// another release of this program, which knew other properties.
func ReadTarget(given map[string]any) (Properties, error) {
	p := Properties{Namespace: DefaultNamespace}
	return p, errors.Join(p.read(given, func(k property) bool { return k.target })...)
}

func (p *Properties) read(given map[string]any, which func(property) bool) (errs []error) {
	for _, k := range properties() {
		if !which(k) {
			continue
		}
		v, is := given[k.name]
		s, isText := v.(string)
		switch {
		case is && !isText:
			errs = append(errs, fmt.Errorf("property %s is %T, expected text", k.name, v))
		case s == "" && k.required:
			errs = append(errs, fmt.Errorf("property %s is missing", k.name))
		case s != "":
			if err := k.read(p, s); err != nil {
				errs = append(errs, fmt.Errorf("property %s %w", k.name, err))
			}
		}
	}
	return errs
}

// ofProperties are values of the chart that have a property of their own.
var ofProperties = []string{"clusterName", "image"}

func readValues(p *Properties, text string) error {
	p.Values = nil
	if err := json.Unmarshal([]byte(text), &p.Values); err != nil {
		return fmt.Errorf("is no JSON object: %w", err)
	}
	if p.Values == nil {
		return errors.New("is null, expected a JSON object")
	}
	for _, name := range ofProperties {
		if _, ok := p.Values[name]; ok {
			return fmt.Errorf("sets %s, which is set by the property of that name", name)
		}
	}
	return nil
}

func readWait(p *Properties, text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("is %q, expected true or false", text)
	}
	p.Wait = text == "true"
	return nil
}

func matches(re *regexp.Regexp, expected string) func(string) error {
	return func(s string) error {
		if !re.MatchString(s) {
			return fmt.Errorf("is %q, expected %s", s, expected)
		}
		return nil
	}
}

func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("is %q, expected the https URL of an API server", s)
	}
	return nil
}

func checkAuthority(s string) error {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return errors.New("is not base64")
	}
	if p, _ := pem.Decode(b); p == nil || p.Type != "CERTIFICATE" {
		return errors.New("is no certificate in PEM once it is decoded")
	}
	return nil
}
