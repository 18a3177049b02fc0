package weircdk

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Config is everything the stack must know. ReadConfig fills and checks it.
type Config struct {
	ClusterName          string
	Endpoint             string // URL of the API server
	CertificateAuthority string // of the API server, PEM in base64, as EKS gives it
	NewCluster           string // version of Kubernetes of a cluster that is made; empty = it exists
	ClusterAdmin         string // ARN of who administers that cluster
	LambdaDir            string // folder with the functions' bootstrap for linux on arm64
	DeployDir            string // folder with the installer: bootstrap, charts, image

	Namespace      string // where the scaler runs
	ServiceAccount string // of the scaler
	NodeRole       string // name of an existing role for nodes, with its path; empty = one is made
	Queue          string // name of an existing Karpenter queue that the scaler reads; empty = none
	Image          string // reference of an existing image of the scaler; empty = the installer pushes its own
	Chart          string // whether the charts are installed
	StackName      string
	Ledger         string // of scaler and functions
	Table          string // name of an existing table; empty = one is made

	Subnets, SecurityGroups   []string // of the functions; none = outside a VPC
	VPC, ClusterSecurityGroup string   // for a security group of the functions' own

	DiscoverySubnets, DiscoverySecurityGroups []string // to be tagged

	ReservedConcurrency  int      // of the drainer; 0 = none
	PermissionsBoundary  string   // ARN or name of a policy, for every role
	Key                  string   // ARN of a customer-managed key, or create; empty = keys of AWS
	AlarmTopic           string   // ARN of an SNS topic; empty = alarms tell nobody
	Issuer               string   // of the cluster's OIDC tokens, without https://; empty = EKS Pod Identity
	ImageParameters      []string // SSM parameters of one's own that name images
	StrategyRepositories []string // of ECR, by name or ARN, that strategies are fetched from
	KarpenterNamespace   string   // where Karpenter's lease is
}

// Whether the charts are installed.
const (
	ChartInstall = "install"
	ChartNone    = "none"
)

// What scaler and functions may remember in.
const (
	LedgerDynamoDB = "dynamodb"
	LedgerNone     = "none"
)

// Key is one value of CDK context.
type Key struct {
	Name     string
	Required bool
	Unless   string // a key with which it is not required
	Default  string
	Help     string
	check    func(string) error
	set      func(*Config, string)
}

// Flag is how the value is given on a command line.
func (k Key) Flag() string { return "-c " + k.Name + "=…" }

// Keys lists the context that is understood, in the order of the README.
func Keys() []Key {
	return []Key{
		one("clusterName", "name of the EKS cluster", matches(clusterName, "letters, digits, - and _, at most 100"), func(c *Config) *string { return &c.ClusterName }).required(),
		one("endpoint", "URL of the cluster's API server, `aws eks describe-cluster --query cluster.endpoint`", checkEndpoint, func(c *Config) *string { return &c.Endpoint }).required().unless("newCluster"),
		one("certificateAuthority", "its certificate authority in base64, `--query cluster.certificateAuthority.data`", checkAuthority, func(c *Config) *string { return &c.CertificateAuthority }).required().unless("newCluster"),
		one("newCluster", "version of Kubernetes: a cluster of that version is made, in a stack of its own", matches(kubeVersion, "a minor version, such as 1.34"), func(c *Config) *string { return &c.NewCluster }),
		one("clusterAdmin", "ARN of the role or user that administers the new cluster", matches(principalARN, "the ARN of a role or user"), func(c *Config) *string { return &c.ClusterAdmin }),
		one("lambdaDir", "folder with the functions' `bootstrap` for linux on arm64", checkBootstrap, func(c *Config) *string { return &c.LambdaDir }).or("../../.cache/lambda/arm64"),
		one("deployDir", "folder with the installer: `bootstrap`, charts and, unless `image` is set, the image", checkFolder, func(c *Config) *string { return &c.DeployDir }).or("../../.cache/lambda-deploy/arm64"),
		one("chart", "install, or none: the charts are left to somebody else, who finds what they must know in the outputs", oneOf(ChartInstall, ChartNone), func(c *Config) *string { return &c.Chart }).or(ChartInstall),
		one("image", "reference of an existing image of the scaler; left out, that of `make image` is pushed into a repository of the stack", matches(imageName, "a reference such as REGISTRY/weir@sha256:…"), func(c *Config) *string { return &c.Image }),
		one("namespace", "namespace of the scaler", matches(kubeName, "the name of a namespace"), func(c *Config) *string { return &c.Namespace }).or("weir-system"),
		one("serviceAccount", "service account of the scaler", matches(kubeName, "the name of a service account"), func(c *Config) *string { return &c.ServiceAccount }).or("weir"),
		one("oidcIssuer", "issuer of the cluster, for IRSA instead of EKS Pod Identity; its provider must exist in IAM", matches(issuer, "an issuer without https://, such as oidc.eks.REGION.amazonaws.com/id/…"), func(c *Config) *string { return &c.Issuer }),
		one("ledger", "what scaler and functions remember in: dynamodb, or none (the scaler has a file of its own then)", oneOf(LedgerDynamoDB, LedgerNone), func(c *Config) *string { return &c.Ledger }).or(LedgerDynamoDB),
		one("table", "name of an existing table of this account and region, which another cluster's stack has made", matches(tableName, "the name of a table, not its ARN"), func(c *Config) *string { return &c.Table }),
		one("nodeRole", "name of an existing role for nodes, behind its path if it has one; left out, one is made with its access entry", matches(roleName, "the name of a role, not its ARN"), func(c *Config) *string { return &c.NodeRole }),
		one("queue", "name of an existing Karpenter interruption queue, which the scaler then reads", matches(queueName, "the name of a queue, not its URL or ARN"), func(c *Config) *string { return &c.Queue }),
		one("karpenterNamespace", "namespace of Karpenter's lease", matches(kubeName, "the name of a namespace"), func(c *Config) *string { return &c.KarpenterNamespace }).or("kube-system"),
		many("imageParameters", "SSM parameters of your own that name images, with commas between; a path may end with *", matches(parameterName, "names of parameters, not ARNs"), func(c *Config) *[]string { return &c.ImageParameters }),
		many("strategyRepositories", "repositories of ECR that the scaler fetches strategies from, with commas between: names in this account and region, or ARNs; a path may end with *", matches(repositoryName, "names or ARNs of repositories, not URIs"), func(c *Config) *[]string { return &c.StrategyRepositories }),
		many("subnets", "ids of subnets for the functions, with commas between, for a private endpoint", matches(subnetID, "ids of subnets"), func(c *Config) *[]string { return &c.Subnets }),
		many("securityGroups", "ids of security groups for the functions; left out, one is made in vpcId", matches(groupID, "ids of security groups"), func(c *Config) *[]string { return &c.SecurityGroups }),
		one("vpcId", "id of the VPC of subnets, for a security group of the functions' own", matches(vpcID, "the id of a VPC"), func(c *Config) *string { return &c.VPC }),
		one("clusterSecurityGroup", "id of the cluster's security group, which lets that group in; left out, you do", matches(groupID, "the id of a security group"), func(c *Config) *string { return &c.ClusterSecurityGroup }),
		many("discoverySubnets", "ids of subnets to tag `karpenter.sh/discovery` for node classes", matches(subnetID, "ids of subnets"), func(c *Config) *[]string { return &c.DiscoverySubnets }),
		many("discoverySecurityGroups", "ids of security groups to tag so", matches(groupID, "ids of security groups"), func(c *Config) *[]string { return &c.DiscoverySecurityGroups }),
		{Name: "reservedConcurrency", Default: strconv.Itoa(drainConcurrency), Help: "concurrent runs of the drainer that nobody else may use, with one more for the installer; 0 where the account has none to spare", check: checkReserved,
			set: func(c *Config, v string) { c.ReservedConcurrency, _ = strconv.Atoi(v) }}, // checked before
		one("permissionsBoundary", "policy, by ARN or name, that bounds every role of the stack", matches(policyName, "the ARN or name of a policy"), func(c *Config) *string { return &c.PermissionsBoundary }),
		one("kmsKey", "customer-managed key of table, queues and logs: the ARN of one, whose policy lets CloudWatch Logs and EventBridge use it, or create; left out, keys of AWS", matches(keyARN, "the ARN of a key, or create"), func(c *Config) *string { return &c.Key }),
		one("alarmTopic", "ARN of an SNS topic that alarms tell", matches(topicARN, "the ARN of an SNS topic"), func(c *Config) *string { return &c.AlarmTopic }),
		one("stackName", "name of the stack; left out, Weir- and the name of the cluster", matches(stackName, "letters, digits and -, at most 128, a letter first"), func(c *Config) *string { return &c.StackName }),
	}
}

// one is a key with one value, many one with a list.
func one(name, help string, check func(string) error, field func(*Config) *string) Key {
	return Key{Name: name, Help: help, check: check, set: func(c *Config, v string) { *field(c) = v }}
}

func many(name, help string, check func(string) error, field func(*Config) *[]string) Key {
	each := func(s string) error {
		var errs []error
		for _, v := range list(s) {
			errs = append(errs, check(v))
		}
		return errors.Join(errs...)
	}
	return Key{Name: name, Help: help, check: each, set: func(c *Config, v string) { *field(c) = list(v) }}
}

func (k Key) required() Key           { k.Required = true; return k }
func (k Key) unless(other string) Key { k.Unless = other; return k }
func (k Key) or(value string) Key     { k.Default = value; return k }

var (
	clusterName    = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`)
	kubeName       = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	roleName       = regexp.MustCompile(`^([\w+=,.@-]+/)*[\w+=,.@-]{1,64}$`)
	queueName      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	imageName      = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*(:[\w][\w.-]*|@sha256:[0-9a-f]{64})$`)
	issuer         = regexp.MustCompile(`^[a-z0-9.-]+(/[A-Za-z0-9_-]+)*$`)
	tableName      = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	parameterName  = regexp.MustCompile(`^/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*(/?\*)?$`)
	repositoryName = regexp.MustCompile(`^(arn:aws[a-z-]*:ecr:[a-z0-9-]+:\d{12}:repository/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(/?\*)?$`)
	subnetID       = regexp.MustCompile(`^subnet-[0-9a-f]{8}(?:[0-9a-f]{9})?$`)
	groupID        = regexp.MustCompile(`^sg-[0-9a-f]{8}(?:[0-9a-f]{9})?$`)
	vpcID          = regexp.MustCompile(`^vpc-[0-9a-f]{8}(?:[0-9a-f]{9})?$`)
	policyName     = regexp.MustCompile(`^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy/)?[\w+=,.@/-]{1,512}$`)
	kubeVersion    = regexp.MustCompile(`^1\.[0-9]{2}$`)
	principalARN   = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+$`)
	keyARN         = regexp.MustCompile(`^(create|arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]{1,64})$`)
	topicARN       = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$`)
	stackName      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)
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
		case value == "" && k.Required && (k.Unless == "" || lookup(k.Unless) == ""):
			errs = append(errs, fmt.Errorf("context %s is missing: set %s (%s)", k.Name, k.Flag(), k.Help))
			continue
		case value == "":
			continue
		}
		if err := k.check(value); err != nil {
			errs = append(errs, fmt.Errorf("context %s: %w; set %s", k.Name, err, k.Flag()))
			continue
		}
		k.set(&c, value)
	}
	if len(errs) == 0 {
		errs = append(errs, c.consistent()...)
	}
	if c.StackName == "" && c.ClusterName != "" {
		c.StackName = "Weir-" + strings.ReplaceAll(c.ClusterName, "_", "-") // stacks know no _
	}
	return c, errors.Join(errs...)
}

// consistent tells which values do not go together.
func (c Config) consistent() []error {
	var errs []error
	unless := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New("context "+text))
		}
	}
	unless((c.NewCluster == "") == (c.ClusterAdmin == ""), "newCluster and clusterAdmin go together: set both, or none")
	unless(c.NewCluster == "" || c.Endpoint == "" && c.CertificateAuthority == "", "endpoint and certificateAuthority are of a cluster that exists: leave them out, or newCluster")
	unless(c.NewCluster == "" || len(c.Subnets)+len(c.DiscoverySubnets)+len(c.DiscoverySecurityGroups) == 0, "subnets, discoverySubnets and discoverySecurityGroups are of a cluster that exists: leave them out, or newCluster")
	unless(c.Table == "" || c.Ledger == LedgerDynamoDB, "table is set and ledger is none: leave out one of them")
	unless(len(c.Subnets) == 0 || len(c.SecurityGroups) > 0 || c.VPC != "", "subnets need security groups: set -c securityGroups=…, or -c vpcId=… and one is made there")
	unless(len(c.Subnets) > 0 || len(c.SecurityGroups) == 0 && c.VPC == "", "securityGroups and vpcId are for functions in a VPC: set -c subnets=… too")
	unless(len(c.SecurityGroups) == 0 || c.VPC == "" && c.ClusterSecurityGroup == "", "vpcId and clusterSecurityGroup are for a group that is made: leave out securityGroups or them")
	unless(c.ClusterSecurityGroup == "" || c.VPC != "", "clusterSecurityGroup lets a group in that is made: set -c vpcId=… too")
	if c.Chart == ChartInstall {
		if err := checkProgram(c.DeployDir, "make image lambda-deploy"); err != nil {
			errs = append(errs, fmt.Errorf("context deployDir: %w; set -c deployDir=…, or -c chart=none to install the charts yourself", err))
		} else if _, err := os.Stat(filepath.Join(c.DeployDir, "image", "index.json")); c.Image == "" && err != nil {
			errs = append(errs, fmt.Errorf("context image: there is no image in %s: build it first (make image lambda-deploy), or set -c image=…", c.DeployDir))
		} else if err := checkSize(c.DeployDir, lambdaLimit); err != nil {
			errs = append(errs, fmt.Errorf("context deployDir: %w; set -c image=…, without a folder image there, or -c chart=none", err))
		}
	}
	return errs
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

func checkBootstrap(dir string) error { return checkProgram(dir, "make lambda") }

func checkProgram(dir, command string) error {
	path := filepath.Join(dir, "bootstrap")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no %s: build it first (%s)", path, command)
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program", path)
	}
	return nil
}

// lambdaLimit is how much code a function may have once it is unpacked, in bytes.
const lambdaLimit = 250 << 20

// checkSize refuses a folder that Lambda would refuse after it was uploaded.
func checkSize(dir string, limit int64) error {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err == nil && sum > limit {
		err = fmt.Errorf("%s has %d bytes, a function may have %d", dir, sum, limit)
	}
	return err
}

// checkFolder leaves the rest to consistent, since not everybody needs the installer.
func checkFolder(dir string) error {
	if filepath.Clean(dir) != dir {
		return fmt.Errorf("is %q, expected a clean path such as %q", dir, filepath.Clean(dir))
	}
	return nil
}

func checkReserved(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > 1000 {
		return fmt.Errorf("is %q, expected a number from 0 to 1000", s)
	}
	return nil
}

func oneOf(values ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("is %q, expected %s", s, strings.Join(values, " or "))
		}
		return nil
	}
}
