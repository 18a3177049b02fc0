package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/kube/forward"
	"github.com/weir-project/weir/core/kube/raw"
)

// clusterFlags say which scaler is asked, and as whom.
type clusterFlags struct {
	kubeconfig, context string
	namespace, release  string
	port                int
	scaler              string
	account             string
	timeout             time.Duration

	set *pflag.FlagSet // that they are in
}

const clusterLong = `It asks the scaler that leads, which it reaches as kubectl port-forward does: that takes the
rights to get the lease and pods/portforward in the scaler's namespace, and in the scaler
itself the verb %s on the URL /weir/strategies. The user of the kubeconfig must have a token; one
with a certificate names a service account instead.`

func (f *clusterFlags) register(cmd *cobra.Command) {
	s := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	f.set = s
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; KUBECONFIG or ~/.kube/config if left out")
	s.StringVar(&f.context, "context", "", "context of the kubeconfig; its current one if left out")
	s.StringVarP(&f.namespace, "namespace", "n", "weir-system", "namespace of the scaler")
	s.StringVar(&f.release, "release", "weir", "name of the Helm release")
	s.IntVar(&f.port, "admin-port", 8082, "admin.port of the scaler's configuration")
	s.StringVar(&f.scaler, "scaler", "", "URL of a scaler that can be reached by itself, such as http://127.0.0.1:8082")
	s.StringVar(&f.account, "service-account", "", "NAMESPACE/NAME of a service account to ask as")
	s.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "for the way to the scaler and for each answer")
	cmd.Flags().AddFlagSet(s)
	// an error here would mean that the flag does not exist, nine lines above
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// given says whether a cluster is asked: any flag about one says so.
func (f *clusterFlags) given() bool {
	given := false
	f.set.VisitAll(func(x *pflag.Flag) { given = given || x.Changed })
	return given
}

// check says what is wrong with the flags, before anything is asked.
func (f *clusterFlags) check() error {
	url, err := url.Parse(f.scaler)
	namespace, name, pair := strings.Cut(f.account, "/")
	switch {
	case len(validation.IsDNS1123Label(f.namespace)) > 0:
		return bad("--namespace: expected the name of a namespace, got %q", f.namespace)
	case len(validation.IsDNS1123Subdomain(f.release)) > 0:
		return bad("--release: expected the name of a Helm release, got %q", f.release)
	case f.port < 1 || f.port > 65535:
		return bad("--admin-port: expected a port, 1 to 65535, got %d", f.port)
	case f.scaler != "" && (err != nil || url.Host == "" || url.Scheme != "http" && url.Scheme != "https"):
		return bad("--scaler: expected a URL such as http://127.0.0.1:8082, got %q", f.scaler)
	case f.account != "" && (!pair || len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(name)) > 0):
		return bad("--service-account: expected NAMESPACE/NAME, got %q", f.account)
	case f.timeout <= 0:
		return bad("--request-timeout: expected a duration above 0, got %v", f.timeout)
	}
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return bad("--kubeconfig: %s: %w", f.kubeconfig, reason(err))
		}
	}
	return nil
}

// oneStrategy is the one argument of a command, the name of a strategy.
func oneStrategy(verb string, args []string) (string, error) {
	switch {
	case len(args) != 1:
		return "", bad("strategy %s: expected the NAME of one strategy, got %d arguments", verb, len(args))
	case len(validation.IsDNS1123Label(args[0])) > 0:
		return "", bad("strategy %s: %q: expected the name of a strategy: small letters, digits and dashes, at most 63", verb, args[0])
	}
	return args[0], nil
}

// asked is a way to the scaler.
type asked struct {
	*forward.Conn
	client  admin.Client
	timeout time.Duration
}

func (f *clusterFlags) open(ctx context.Context) (*asked, error) {
	if _, err := raw.Config(f.kubeconfig, f.context); err != nil {
		return nil, badInput{err}
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	conn, err := forward.Open(ctx, forward.Options{Kubeconfig: f.kubeconfig, Context: f.context, Namespace: f.namespace, Lease: f.release + "-leader-election",
		Port: f.port, URL: f.scaler, ServiceAccount: f.account})
	if err != nil {
		return nil, err
	}
	conn.HTTP.Timeout = f.timeout
	return &asked{Conn: conn, client: admin.Client{HTTP: conn.HTTP, URL: conn.URL}, timeout: f.timeout}, nil
}

// clusterList is the answer of weir strategy list about a cluster.
type clusterList struct{ admin.List }

// WriteTable shows a line for each strategy, and what is wrong below.
func (l *clusterList) WriteTable(out io.Writer) error {
	rows := [][]string{{"NAME", "KIND", "STATE", "VERSION", "PROGRAM", "CALLS", "P50", "P99", "FALLBACKS", "SANDBOX", "SHADOW"}}
	for _, s := range l.Strategies {
		rows = append(rows, []string{s.Name, cmp.Or(s.Kind, "-"), stateOf(s), cmp.Or(s.Version, "-"), programOf(s), fmt.Sprint(s.Calls.Total),
			seconds(s.Calls.P50Seconds, s.Calls.Total), seconds(s.Calls.P99Seconds, s.Calls.Total), fallbacks(s.Calls), cmp.Or(s.Sandbox, "-"), shadowed(s.Shadow)})
	}
	if err := writeRows(out, rows); err != nil {
		return err
	}
	first := true
	for _, s := range l.Strategies {
		for _, text := range notes(s) {
			if first {
				first = false
				text = "\n" + text
			}
			if _, err := fmt.Fprintln(out, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// stateOf is the state of the process with what stands beside it.
func stateOf(s admin.Strategy) string {
	out := s.State
	switch {
	case s.Pending:
		out += ", to come"
	case s.Role != "" && s.Role != "serving":
		out += ", " + s.Role
	case !s.Healthy && (s.State == "ready" || s.State == "in-process"):
		out += ", not answering"
	}
	if s.Trial != nil && s.Trial.State == "probation" {
		out += ", on probation"
	}
	return out
}

// programOf names what runs, shortened for people.
func programOf(s admin.Strategy) string {
	switch {
	case s.BuiltIn:
		return "built in"
	case s.Image != "":
		name, digest, _ := strings.Cut(s.Image, "@sha256:")
		return name[strings.LastIndexByte(name, '/')+1:] + "@" + digest[:min(12, len(digest))]
	}
	return cmp.Or(s.Path, "-")
}

func seconds(s float64, calls int64) string {
	if calls == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}

// fallbacks is their number, by the outcomes that led to them.
func fallbacks(c admin.Calls) string {
	var parts []string
	for _, o := range []string{"empty", "late", "invalid", "dead", "refused"} {
		if n := c.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprint(c.Fallbacks)
	}
	return fmt.Sprintf("%d (%s)", c.Fallbacks, strings.Join(parts, ", "))
}

func shadowed(s *admin.Shadowed) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%d problems", s.Problems)
}

// notes are the lines about a strategy that a table has no room for.
func notes(s admin.Strategy) (out []string) {
	if s.LastError != "" {
		out = append(out, fmt.Sprintf("%s: %s", s.Name, s.LastError))
	}
	if c := s.Calls; len(c.FellBack) > 0 {
		out = append(out, fmt.Sprintf("%s: answered by somebody else last: %s", s.Name, strings.Join(c.FellBack, ", ")))
	}
	if c := s.Calls; c.LastError != "" && c.LastErrorAt != nil {
		out = append(out, fmt.Sprintf("%s: last call that went wrong, at %s: %s", s.Name, c.LastErrorAt.Format(time.RFC3339), c.LastError))
	}
	if r := s.RollBack; r != nil {
		out = append(out, fmt.Sprintf("%s: rolled back from %s to %s at %s: %s", s.Name, r.From, r.To, r.At.Format(time.RFC3339), r.Why))
	}
	if w := s.Swapped; w != nil && !s.Pending {
		text := fmt.Sprintf("%s: swapped for %s by %s at %s", s.Name, w.Program(), w.By, w.At.Format(time.RFC3339))
		if w.RolledBack != "" {
			text += ", taken back: " + w.RolledBack
		}
		out = append(out, text)
	}
	return out
}

func writeRows(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
