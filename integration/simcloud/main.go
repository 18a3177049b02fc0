// Command simcloud is an AWS account in miniature for a real control plane: a
// simulated EC2 behind HTTP (core/cloud/sim), a fake kubelet for every instance,
// and EC2's events on their way to an interruption Lambda or to a file.
//
//	simcloud --kubeconfig admin.kubeconfig --cluster seed --listen 127.0.0.1:8700
//	curl -s localhost:8700/control/instances | jq .
//	curl -X POST localhost:8700/control/instances/i-0123/reclaim
//	curl -X POST localhost:8700/control/capacity -d '{"offering": "*/us-east-1a/spot", "left": 0}'
//	curl -X POST localhost:8700/control/fault -d '{"op": "CreateFleet", "count": 1, "lose": true}'
//	curl -X POST localhost:8700/control/machines -d '{"count": 1, "neverJoin": true}'
//	curl -s 'localhost:8700/control/events?after=0&wait=10s'; curl -s localhost:8700/control/bill
//
// It prints "READY url=..." once it serves. What it holds is lost when it ends.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-project/weir/core/catalogue"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/simcloud/machines"
)

type options struct {
	kubeconfig, listen, cluster, account, region string
	catalogue                                    string
	zones                                        []string
	seed                                         uint64
	delays                                       sim.Delays
	latency, podStart, podStop                   time.Duration
	usual                                        machines.Behaviour
	eventsURL, eventsFile                        string
	withParent                                   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := command(os.Stdout)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "simcloud:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be undone
	}
}

func command(stdout io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{Use: "simcloud", Short: "A simulated EC2 whose machines join a real control plane", SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, stdout) }}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "cluster that the machines join; empty = they join none")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8700", "address of the HTTP front; port 0 = any")
	f.StringVar(&o.cluster, "cluster", "seed", "cluster name, in the tags of its instances")
	f.StringVar(&o.account, "account", "111122223333", "account id in events")
	f.StringVar(&o.region, "region", "us-east-1", "region in events and labels")
	f.StringSliceVar(&o.zones, "zones", []string{"us-east-1a", "us-east-1b", "us-east-1c"}, "zones that are sold")
	f.StringVar(&o.catalogue, "catalogue", "", "file of instance types; empty = the embedded ones")
	f.Uint64Var(&o.seed, "seed", 1, "seed of ids and choices")
	f.DurationVar(&o.delays.Run, "run-delay", 5*time.Second, "instance: pending to running")
	f.DurationVar(&o.delays.Terminate, "terminate-delay", 5*time.Second, "instance: shutting-down to terminated")
	f.DurationVar(&o.delays.Listed, "listed-delay", 2*time.Second, "until a new instance is listed")
	f.DurationVar(&o.delays.Notice, "notice", 2*time.Minute, "spot warning to the end")
	f.DurationVar(&o.latency, "latency", 200*time.Millisecond, "of every call of EC2")
	f.DurationVar(&o.usual.JoinDelay, "join-delay", 2*time.Second, "running to Node object")
	f.DurationVar(&o.usual.ReadyDelay, "ready-delay", time.Second, "Node object to Ready")
	f.DurationVar(&o.podStart, "pod-start", 500*time.Millisecond, "pod: bound to Running")
	f.DurationVar(&o.podStop, "pod-stop", 500*time.Millisecond, "pod: deleted to gone, if its grace is not shorter")
	f.StringVar(&o.eventsURL, "events-url", "", "POST every event there, such as the invocation URL of a Lambda emulator")
	f.StringVar(&o.eventsFile, "events-file", "", "append every event to this file, one JSON object a line")
	f.BoolVar(&o.withParent, "with-parent", false, "end when standard input is closed")
	return cmd
}

func run(ctx context.Context, o options, stdout io.Writer) error {
	log, err := zap.NewDevelopment(zap.IncreaseLevel(zap.InfoLevel))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.withParent {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
			cancel()
		}()
	}
	table, err := loadCatalogue(o.catalogue)
	if err != nil {
		return err
	}
	ec2 := sim.New(sim.Config{Seed: o.seed, Now: func() time.Time { return time.Now().UTC() }, Account: o.account, Region: o.region, Cluster: o.cluster,
		Delays: o.delays, Catalogue: func(c *model.NodeClass) []*model.Offering {
			return table.Offerings(c, o.zones, catalogue.Options{Region: o.region})
		}})
	mux := http.NewServeMux()
	mux.Handle("/", sim.Handler(ec2, sim.Front{Latency: o.latency}))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if o.kubeconfig != "" {
		j, err := joiner(ctx, &wg, o, ec2, log)
		if err != nil {
			return err
		}
		mux.HandleFunc("POST /control/machines", nextMachines(j))
	}
	return serve(ctx, o.listen, mux, stdout)
}

func loadCatalogue(file string) (*catalogue.Table, error) {
	if file == "" {
		return catalogue.Embedded(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	defer func() { _ = f.Close() }()
	return catalogue.Load(f, file)
}

// joiner starts the fake kubelets and what joins them.
func joiner(ctx context.Context, wg *sync.WaitGroup, o options, ec2 *sim.EC2, log *zap.Logger) (*machines.Joiner, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.kubeconfig, err)
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = 500, 1000, "weir-simcloud"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	kubelets, err := fakekubelet.New(fakekubelet.Config{Client: client, Logger: log, PodStartDelay: o.podStart, PodStopTime: o.podStop})
	if err != nil {
		return nil, err
	}
	deliver, err := delivery(o)
	if err != nil {
		return nil, err
	}
	j, err := machines.New(machines.Config{Client: client, Kubelets: kubelets, EC2: ec2, Logger: log, Usual: o.usual, Deliver: deliver})
	if err != nil {
		return nil, err
	}
	wg.Go(func() {
		if err := kubelets.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("kubelets", zap.Error(err))
		}
	})
	wg.Go(func() {
		if err := j.Run(ctx); err != nil {
			log.Error("machines", zap.Error(err))
		}
	})
	return j, nil
}

// delivery sends events where the flags say; nil = nowhere.
func delivery(o options) (func(context.Context, sim.Event) error, error) {
	var to []func(context.Context, sim.Event) error
	if o.eventsFile != "" {
		f, err := os.OpenFile(o.eventsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("events file: %w", err)
		}
		to = append(to, func(_ context.Context, e sim.Event) error {
			_, err := f.Write(append(bytes.Clone(e.JSON), '\n'))
			return err
		})
	}
	if o.eventsURL != "" {
		client := &http.Client{Timeout: 30 * time.Second}
		to = append(to, func(ctx context.Context, e sim.Event) error { return post(ctx, client, o.eventsURL, e.JSON) })
	}
	if len(to) == 0 {
		return nil, nil
	}
	return func(ctx context.Context, e sim.Event) error {
		var errs []error
		for _, send := range to {
			errs = append(errs, send(ctx, e))
		}
		return errors.Join(errs...)
	}, nil
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, answer)
	}
	// a Lambda emulator answers 200 also where the function failed
	var failed struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(answer, &failed) == nil && failed.Type != "" {
		return fmt.Errorf("%s: function failed: %s: %s", url, failed.Type, failed.Message)
	}
	return nil
}

// nextMachines is POST /control/machines: how the next machines behave.
func nextMachines(j *machines.Joiner) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Count      int    `json:"count"`
			NeverJoin  bool   `json:"neverJoin"`
			NeverReady bool   `json:"neverReady"`
			JoinDelay  string `json:"joinDelay"`
			ReadyDelay string `json:"readyDelay"`
			DieAfter   string `json:"dieAfter"`
		}
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		dec.DisallowUnknownFields()
		err := dec.Decode(&in)
		b := machines.Behaviour{NeverJoin: in.NeverJoin, NeverReady: in.NeverReady}
		for _, d := range []struct {
			name, text string
			to         *time.Duration
		}{{"joinDelay", in.JoinDelay, &b.JoinDelay}, {"readyDelay", in.ReadyDelay, &b.ReadyDelay}, {"dieAfter", in.DieAfter, &b.DieAfter}} {
			if d.text == "" || err != nil {
				continue
			}
			if *d.to, err = time.ParseDuration(d.text); err != nil {
				err = fmt.Errorf("%s: %w", d.name, err)
			}
		}
		if err == nil && in.Count < 1 {
			err = errors.New("count: expected at least 1")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		j.Next(in.Count, b)
	}
}

func serve(ctx context.Context, addr string, h http.Handler, stdout io.Writer) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	fmt.Fprintf(stdout, "READY url=http://%s\n", l.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(bye); err != nil { // somebody still waits for events
		return srv.Close()
	}
	return nil
}
