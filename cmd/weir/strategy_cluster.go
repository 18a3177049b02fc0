package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/admin"
	"github.com/weir-project/weir/core/kube/forward"
)

// clusterFlags say which scaler is asked, and as whom.
type clusterFlags struct {
	kubeconfig, context string
	namespace, release  string
	port                int
	scaler              string
	account             string
	timeout             time.Duration
}

const clusterLong = `It asks the scaler that leads, which it reaches as kubectl port-forward does: that takes the
rights to get the lease and pods/portforward in the scaler's namespace, and in the scaler
itself the verb %s on the URL /weir/strategies. The user of the kubeconfig must have a token; one
with a certificate names a service account instead.`

func (f *clusterFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; KUBECONFIG or ~/.kube/config if left out")
	s.StringVar(&f.context, "context", "", "context of the kubeconfig; its current one if left out")
	s.StringVarP(&f.namespace, "namespace", "n", "weir-system", "namespace of the scaler")
	s.StringVar(&f.release, "release", "weir", "name of the Helm release")
	s.IntVar(&f.port, "admin-port", 8082, "admin.port of the scaler's configuration")
	s.StringVar(&f.scaler, "scaler", "", "URL of a scaler that can be reached by itself, such as http://127.0.0.1:8082")
	s.StringVar(&f.account, "service-account", "", "NAMESPACE/NAME of a service account to ask as")
	s.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "for the way to the scaler and for each answer")
	// an error here would mean that the flag does not exist, eight lines above
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// given says whether a cluster is named at all.
func (f *clusterFlags) given() bool { return f.kubeconfig != "" || f.context != "" || f.scaler != "" }

// asked is a way to the scaler.
type asked struct {
	*forward.Conn
	client  admin.Client
	timeout time.Duration
}

func (f *clusterFlags) open(ctx context.Context) (*asked, error) {
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
