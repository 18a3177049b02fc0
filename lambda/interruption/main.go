package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weir-project/weir/core/cloud/aws/ekstoken"
	"github.com/weir-project/weir/core/config"
	"github.com/weir-project/weir/core/config/live"
	"github.com/weir-project/weir/core/kube/direct"
	"github.com/weir-project/weir/core/ledger"
	"github.com/weir-project/weir/core/ledger/dynamo"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

// Variables of this program alone. WEIR_CONFIG names a configuration file beside the
// binary or in a layer, empty = none; WEIR_RELAY=queue says that a queue brings every
// event as well, so that a drain without the time to end is no error of an invocation;
// WEIR_DEAD_LETTER_QUEUE is the URL of the queue for events that cannot be read.
const (
	envConfig = "WEIR_CONFIG"
	envRelay  = "WEIR_RELAY"
	envDead   = "WEIR_DEAD_LETTER_QUEUE"
)

func main() {
	r, err := wire(context.Background(), live.Environment(os.Environ()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "interruption:", err)
		os.Exit(2)
	}
	lambda.Start(handler{r})
}

// handler hands payloads over as they are: one that is no JSON is for the responder
// to refuse, with its reason.
type handler struct{ r *respond.Responder }

// Invoke implements lambda.Handler.
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	answer, err := h.r.Handle(ctx, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

func wire(ctx context.Context, env map[string]string) (*respond.Responder, error) {
	// The default of the configuration is the scaler's file, which nothing but the scaler can read.
	flags := map[string]string{}
	if env["WEIR_LEDGER"] == "" && env[envConfig] == "" {
		flags["ledger"] = config.LedgerNone
	}
	cfg, err := live.Source{Role: config.Lambda, Path: env[envConfig], Env: env, Flags: flags}.Read()
	if err != nil {
		return nil, err
	}
	log, err := logger(cfg)
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		log.Warn("configuration", zap.String("warning", w))
	}
	relay, err := relayed(env[envRelay])
	if err != nil {
		return nil, err
	}
	store, err := openLedger(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cluster, err := direct.Connect(connection(cfg, env))
	if err != nil {
		return nil, err
	}
	var letters respond.DeadLetters
	if url := env[envDead]; url != "" {
		letters = &deadLetters{url: url, region: cfg.Region}
	}
	return respond.New(respond.Config{
		DeadLetters: letters,
		Cluster:     cluster, Ledger: store, Log: log, Metrics: os.Stdout,
		ClusterName: cfg.Cluster, Account: cfg.Account, Region: cfg.Region, Relay: relay,
	}), nil
}

func relayed(value string) (bool, error) {
	switch value {
	case "":
		return false, nil
	case "queue":
		return true, nil
	}
	return false, fmt.Errorf("%s: expected queue or nothing, got %q", envRelay, value)
}

func logger(cfg *config.Loaded) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Log.Level)
	if err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	c := zap.NewProductionConfig()
	c.Level, c.Sampling = zap.NewAtomicLevelAt(level), nil // each line is about a node: none may be left out
	c.OutputPaths, c.ErrorOutputPaths = cfg.Log.OutputPaths, cfg.Log.ErrorOutputPaths
	return c.Build()
}

// openLedger opens the memory that the scaler shares, nil where there is none.
func openLedger(ctx context.Context, cfg *config.Loaded) (ledger.Store, error) {
	switch cfg.Ledger.Kind {
	case config.LedgerNone:
		return nil, nil
	case config.LedgerDynamoDB:
		// Nothing is asked of the table here: a cold start has no time for it, and a table that
		// is away or newer than this release keeps no node from being drained.
		return dynamo.Open(ctx, dynamo.Options{Table: cfg.Ledger.Table, Region: cfg.Region, Program: "weir-interruption"})
	}
	return nil, fmt.Errorf("ledger.kind: %q is not for a Lambda", cfg.Ledger.Kind)
}

func connection(cfg *config.Loaded, env map[string]string) direct.Connection {
	c := direct.Connection{Kubeconfig: cfg.Kube.Kubeconfig, Endpoint: cfg.ClusterEndpoint, CABundle: cfg.ClusterCABundle, UserAgent: "weir-interruption"}
	if c.Endpoint != "" && c.Kubeconfig == "" {
		source := &ekstoken.Source{
			Cluster: cfg.Cluster, Region: cfg.Region,
			Credentials: ekstoken.Environment{Lookup: func(n string) (string, bool) { v, ok := env[n]; return v, ok }},
		}
		c.Token = source.Token
	}
	return c
}
