package weircdk

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Config is everything the stack must know. ReadConfig fills and checks it.
type Config struct {
	ClusterName          string
	Endpoint             string // URL of the API server
	CertificateAuthority string // of the API server, PEM in base64, as EKS gives it
	LambdaDir            string // folder with the function's bootstrap for linux on arm64

	Namespace      string // where the scaler runs
	ServiceAccount string // of the scaler
	NodeRole       string // name of an existing role for nodes; empty = one is made
	Queue          string // name of an existing Karpenter queue that the scaler reads; empty = none
	Image          string // reference of the scaler's image, for the outputs only
	StackName      string
	Ledger         string // of the functions
}

// What the functions may remember in.
const (
	LedgerDynamoDB = "dynamodb"
	LedgerNone     = "none"
)

// Key is one value of CDK context.
type Key struct {
	Name     string
	Required bool
	Default  string
	Help     string
	check    func(string) error
	field    func(*Config) *string
}

// Flag is how the value is given on a command line.
func (k Key) Flag() string { return "-c " + k.Name + "=…" }

// Keys lists the context that is understood, in the order of the README.
func Keys() []Key {
	return []Key{
		{Name: "clusterName", Required: true, Help: "name of the EKS cluster", check: matches(clusterName, "letters, digits, - and _, at most 100"), field: func(c *Config) *string { return &c.ClusterName }},
		{Name: "endpoint", Required: true, Help: "URL of the cluster's API server, `aws eks describe-cluster --query cluster.endpoint`", check: checkEndpoint, field: func(c *Config) *string { return &c.Endpoint }},
		{Name: "certificateAuthority", Required: true, Help: "its certificate authority in base64, `--query cluster.certificateAuthority.data`", check: checkAuthority, field: func(c *Config) *string { return &c.CertificateAuthority }},
		{Name: "lambdaDir", Default: "../../.cache/lambda/arm64", Help: "folder with the function's `bootstrap` for linux on arm64", check: checkBootstrap, field: func(c *Config) *string { return &c.LambdaDir }},
		{Name: "namespace", Default: "weir-system", Help: "namespace of the scaler", check: matches(kubeName, "the name of a namespace"), field: func(c *Config) *string { return &c.Namespace }},
		{Name: "serviceAccount", Default: "weir", Help: "service account of the scaler", check: matches(kubeName, "the name of a service account"), field: func(c *Config) *string { return &c.ServiceAccount }},
		{Name: "nodeRole", Help: "name of an existing role for nodes; left out, one is made with its access entry", check: matches(roleName, "the name of a role, not its ARN"), field: func(c *Config) *string { return &c.NodeRole }},
		{Name: "queue", Help: "name of an existing Karpenter interruption queue that the scaler may read", check: matches(queueName, "the name of a queue, not its URL or ARN"), field: func(c *Config) *string { return &c.Queue }},
		{Name: "image", Help: "reference of an existing image of the scaler; it is repeated in the outputs", check: matches(imageName, "a reference such as REGISTRY/weir@sha256:…"), field: func(c *Config) *string { return &c.Image }},
		{Name: "stackName", Help: "name of the stack; left out, Weir- and the name of the cluster", check: matches(stackName, "letters, digits and -, at most 128, a letter first"), field: func(c *Config) *string { return &c.StackName }},
		{Name: "ledger", Default: LedgerDynamoDB, Help: "what the functions remember in: dynamodb, which the scaler must use as well, or none", check: checkLedger, field: func(c *Config) *string { return &c.Ledger }},
	}
}

var (
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	kubeName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	roleName    = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)
	queueName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	imageName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*(:[\w][\w.-]*|@sha256:[0-9a-f]{64})$`)
	stackName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)
)

// ReadConfig reads the context through lookup, which answers "" for what is not set.
// The error tells everything that is wrong, each with the flag that sets it.
func ReadConfig(lookup func(key string) string) (Config, error) {
	var c Config
	var errs []error
	for _, k := range Keys() {
		value := lookup(k.Name)
		if value == "" {
			value = k.Default
		}
		switch {
		case value == "" && k.Required:
			errs = append(errs, fmt.Errorf("context %s is missing: set %s (%s)", k.Name, k.Flag(), k.Help))
			continue
		case value == "":
			continue
		}
		if err := k.check(value); err != nil {
			errs = append(errs, fmt.Errorf("context %s: %w; set %s", k.Name, err, k.Flag()))
			continue
		}
		*k.field(&c) = value
	}
	if c.StackName == "" && c.ClusterName != "" {
		c.StackName = "Weir-" + strings.ReplaceAll(c.ClusterName, "_", "-") // stacks know no _
	}
	return c, errors.Join(errs...)
}

// CheckNames refuses names of context that nothing reads.
func CheckNames(names []string) error {
	var known []string
	for _, k := range Keys() {
		known = append(known, k.Name)
	}
	var errs []error
	for _, n := range names {
		if !slices.Contains(known, n) {
			errs = append(errs, fmt.Errorf("context %s is not known, expected one of %s", n, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
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

func checkBootstrap(dir string) error {
	path := filepath.Join(dir, "bootstrap")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no %s: build the function first (make lambda)", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program", path)
	}
	return nil
}

func checkLedger(s string) error {
	if s != LedgerDynamoDB && s != LedgerNone {
		return fmt.Errorf("is %q, expected dynamodb or none", s)
	}
	return nil
}
