package ec2front

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/time/rate"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
)

// Region is where tests are, Account who they are.
const (
	Region  = "us-east-1"
	Account = "123456789012"
)

const namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// Options of a front. Zero fields take their defaults.
type Options struct {
	Now    func() time.Time // default time.Now
	Table  *catalogue.Table // what is sold, default the embedded table
	Zones  []string         // default three zones of the region
	Delays sim.Delays       // default none at all, see Instant
}

// Instant are the delays of an EC2 that is never late.
var Instant = sim.Delays{Run: -1, Terminate: -1, Listed: -1}

// Front is an EC2. It is safe for concurrent use.
type Front struct {
	opts Options
	ec2  *sim.EC2

	mu        sync.Mutex // guards all below; taken before the lock of ec2
	rules     []*rule
	buckets   map[string]*rate.Limiter
	calls     map[string]int
	serial    int
	tokens    map[string]answered // by operation and client token
	vpcs      []string
	subnets   []*subnet
	groups    []*group
	images    []*Image
	templates []*template
	stock     []*Reservation
	placement []*PlacementGroup
	machines  map[string]*machine
	statuses  map[string]Status
	quotas    map[string]int // vCPUs by capacity type
	refusals  []refusal
	spot      map[[2]string]float64 // type, zone
}

type answered struct {
	form [32]byte
	body []byte
}

// New makes an empty region.
func New(o Options) *Front {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Table == nil {
		o.Table = catalogue.Embedded()
	}
	if o.Zones == nil {
		o.Zones = catalogue.DefaultZones
	}
	if o.Delays == (sim.Delays{}) {
		o.Delays = Instant
	}
	return &Front{
		opts: o, buckets: map[string]*rate.Limiter{}, calls: map[string]int{}, tokens: map[string]answered{}, machines: map[string]*machine{}, statuses: map[string]Status{},
		quotas: map[string]int{}, spot: map[[2]string]float64{},
		ec2: sim.New(sim.Config{Now: o.Now, Account: Account, Region: Region, Delays: o.Delays, Catalogue: func(class *model.NodeClass) []*model.Offering {
			list := o.Table.Offerings(&model.NodeClass{Name: class.Name, Family: "Custom"}, o.Zones, catalogue.Options{Region: Region})
			return slices.DeleteFunc(list, func(x *model.Offering) bool { return x.CapacityType == model.Reserved })
		}}),
	}
}

// EC2 is the world behind the front: capacity, reclaims, events, the bill.
func (f *Front) EC2() *sim.EC2 { return f.ec2 }

// Calls counts the calls of each operation, failed ones included.
func (f *Front) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Server is a front that listens.
type Server struct {
	*Front
	http *httptest.Server
}

// Start serves a front until the test ends.
func Start(t testing.TB, o Options) *Server {
	f := New(o)
	s := &Server{f, httptest.NewServer(f)}
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is where it answers.
func (s *Server) URL() string { return s.http.URL }

// Config is what clients of it are made with: the SDK's retries, without its waiting.
func (s *Server) Config() sdk.Config {
	return sdk.Config{
		Region: Region, BaseEndpoint: sdk.String(s.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
		HTTPClient: &http.Client{Transport: sdkconf.WholeBody(http.DefaultTransport.(*http.Transport).Clone()), Timeout: time.Minute},
		Retryer: func() sdk.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
			})
		},
	}
}

type operation func(f *Front, p *params) (func(*writer), error)

// operations are what the front can do. Each reads its parameters, asks whether that was all, and does its work.
var operations = map[string]operation{
	"CreateVpc": createVpc, "CreateSubnet": createSubnet, "CreateSecurityGroup": createSecurityGroup,
	"DescribeSubnets": describeSubnets, "DescribeSecurityGroups": describeSecurityGroups, "DescribeImages": describeImages,
	"DescribeCapacityReservations": describeCapacityReservations, "DescribePlacementGroups": describePlacementGroups,
	"DescribeAvailabilityZones": describeAvailabilityZones, "DescribeInstanceTypes": describeInstanceTypes,
	"DescribeInstanceTypeOfferings": describeInstanceTypeOfferings, "DescribeSpotPriceHistory": describeSpotPriceHistory,
	"CreateLaunchTemplate": createLaunchTemplate, "DescribeLaunchTemplates": describeLaunchTemplates,
	"DescribeLaunchTemplateVersions": describeLaunchTemplateVersions, "DeleteLaunchTemplate": deleteLaunchTemplate,
	"CreateFleet": createFleet, "RunInstances": runInstances, "DescribeInstances": describeInstances,
	"DescribeInstanceAttribute": describeInstanceAttribute, "TerminateInstances": terminateInstances, "CreateTags": createTags,
	"DescribeInstanceStatus": describeInstanceStatus,
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller is gone
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		f.answerError(w, fail("MalformedQueryString", "%v", err))
		return
	}
	c := Call{Op: form.Get("Action"), Body: string(body)}
	f.mu.Lock()
	fault := f.take(c)
	f.mu.Unlock()
	switch {
	case fault != nil && fault.Code != "":
		f.answerError(w, &apiError{Status: fault.Status, Code: fault.Code, Message: fault.Message})
		return
	case fault != nil && fault.Cut && !fault.After:
		panic(http.ErrAbortHandler)
	case r.Header.Get("Authorization") == "":
		f.answerError(w, &apiError{Status: http.StatusUnauthorized, Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token"})
		return
	}
	answer, err := f.do(c.Op, form)
	if fault != nil && fault.Cut {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		f.answerError(w, err)
		return
	}
	if fault != nil && fault.Half {
		answer = answer[:len(answer)/2]
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	_, _ = w.Write(answer) // whoever is gone needs no answer
}

func (f *Front) do(op string, form url.Values) ([]byte, error) {
	do := operations[op]
	if do == nil {
		return nil, fail("InvalidAction", "The action %s is not valid for this web service.", op)
	}
	p, err := parse(form)
	if err != nil {
		return nil, err
	}
	p.str("Action")
	if v := p.str("Version"); v != "2016-11-15" {
		return nil, fail("NoSuchVersion", "The version %s is not known", v)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	token := p.str("ClientToken")
	if len(token) > 64 {
		return nil, fail("InvalidParameterValue", "ClientToken: expecting at most 64 characters")
	}
	sum := sha256.Sum256([]byte(form.Encode()))
	if have, ok := f.tokens[op+"/"+token]; ok && token != "" {
		if have.form != sum {
			return nil, fail("IdempotentParameterMismatch", "The client token %s was used with other parameters", token)
		}
		return have.body, nil
	}
	f.serial++
	id := f.id("")
	result, err := do(f, p)
	if err != nil {
		return nil, err
	}
	w := &writer{}
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%sResponse xmlns=\"%s\">", op, namespace)
	w.el("requestId", strings.Join([]string{id[:8], id[8:12], id[12:16], id[:4], id[4:16]}, "-"))
	result(w)
	fmt.Fprintf(w, "</%sResponse>\n", op)
	if token != "" {
		f.tokens[op+"/"+token] = answered{sum, w.Bytes()}
	}
	return w.Bytes(), nil
}

// id makes an id that is the same for the same calls in the same order.
func (f *Front) id(prefix string) string {
	f.serial++
	sum := sha256.Sum256(fmt.Append(nil, f.serial))
	return prefix + "0" + hex.EncodeToString(sum[:])[:16]
}

func (f *Front) answerError(w http.ResponseWriter, err error) {
	e := &apiError{Status: http.StatusInternalServerError, Code: "InternalError", Message: err.Error()}
	errors.As(err, &e)
	if e.Status == 0 {
		e.Status = http.StatusBadRequest
	}
	x := &writer{}
	x.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	x.in("Response", func() {
		x.in("Errors", func() {
			x.in("Error", func() {
				x.full("Code", e.Code)
				x.full("Message", e.Message)
			})
		})
		x.full("RequestID", "11111111-2222-3333-4444-555555555555")
	})
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(e.Status)
	_, _ = w.Write(x.Bytes()) // whoever is gone needs no answer
}

// dryRun reads the rest of the call: an error where something was not understood, or where it was only to be tried.
func (p *params) finish() error {
	dry, err := p.boolean("DryRun")
	if err != nil {
		return err
	}
	if err := p.done(); err != nil {
		return err
	}
	if dry {
		return &apiError{Status: http.StatusPreconditionFailed, Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set."}
	}
	return nil
}

// page cuts a list by MaxResults and NextToken; next is empty on the last page. Pages go by position: what is listed
// only ever grows at its end while a test pages through it.
func page[T any](p *params, list []T, min, max int) (out []T, next string, err error) {
	n, err := p.integer("MaxResults", min, max, len(list))
	if err != nil {
		return nil, "", err
	}
	from := 0
	if token := p.str("NextToken"); token != "" {
		if _, err := fmt.Sscanf(token, "page-%d", &from); err != nil || from > len(list) {
			return nil, "", fail("InvalidNextToken", "The token '%s' is invalid", token)
		}
	}
	if end := from + n; end < len(list) {
		return list[from:end], fmt.Sprintf("page-%d", end), nil
	}
	return list[from:], "", nil
}
