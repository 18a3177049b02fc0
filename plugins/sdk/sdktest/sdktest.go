package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"reflect"
	"sync"
	"testing"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-project/weir/plugins/sdk"
)

// callTime bounds each call of the kit; a host's own deadline is shorter.
const callTime = 30 * time.Second

// Run checks a strategy over a connection in memory: everything that crosses the
// wire in production crosses it here.
func Run(t *testing.T, make func() sdk.Strategy) {
	t.Helper()
	conn := connect(t, make())
	check(t, sdk.NewClient(conn))
}

// connect serves the strategy until the end of the test.
func connect(t *testing.T, strategy sdk.Strategy) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(sdk.ServerOptions()...)
	sdk.Register(server, strategy)
	served := sync.WaitGroup{}
	served.Add(1)
	go func() {
		defer served.Done()
		if err := server.Serve(listener); err != nil {
			t.Errorf("serving the strategy: %v", err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///strategy", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		served.Wait()
	})
	return conn
}

// reporter is what the kit needs of *testing.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// RunProcess checks an executable: it is started as the host starts it, but without
// the host's isolation, and ended at the end of the test.
func RunProcess(t *testing.T, path string, args ...string) {
	t.Helper()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: sdk.Handshake, VersionedPlugins: sdk.ClientPlugins(), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd: exec.Command(path, args...), AutoMTLS: true, SkipHostEnv: true, StartTimeout: callTime, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	raw, err := protocol.Dispense(sdk.PluginName)
	if err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	check(t, raw.(*sdk.Client))
}

// check is the kit. Its parts run one after the other: the strategy is one.
func check(t reporter, c *sdk.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	m, err := c.Describe(ctx)
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	if m.ConfigSchema != "" && !json.Valid([]byte(m.ConfigSchema)) {
		t.Errorf("Describe: the configuration's schema is not JSON: %s", m.ConfigSchema)
	}
	sample := sdk.SamplePrice()
	if err := c.Configure(ctx, json.RawMessage(`{}`), sample.Catalogue); err != nil {
		t.Fatalf("Configure with nothing: %v", err)
	}
	var field *sdk.ConfigError
	if err := c.Configure(ctx, json.RawMessage(`{"no such setting": 1}`), nil); !errors.As(err, &field) {
		t.Errorf("Configure with an unknown setting: %v, want an error about the field", err)
	}
	if m.Serves(sdk.InstanceSelection) {
		checkPricer(ctx, t, c, m.Deterministic)
	}
	if m.Serves(sdk.Consolidation) {
		checkScorer(ctx, t, c, m.Deterministic)
	}
}

func checkPricer(ctx context.Context, t reporter, c *sdk.Client, deterministic bool) {
	t.Helper()
	ask := func(req *sdk.PriceRequest) *sdk.PriceAnswer {
		ans, err := c.Price(ctx, req)
		if err != nil {
			t.Errorf("Price: %v", err)
			return nil
		}
		if err := sdk.CheckPrices(req, ans); err != nil {
			t.Errorf("Price, illegal answer: %v", err)
		}
		return ans
	}
	first := ask(sdk.SamplePrice())
	empty := sdk.SamplePrice()
	empty.Pools, empty.Commitments, empty.Health, empty.Demand = nil, nil, nil, sdk.Demand{}
	ask(empty)
	bare := sdk.SamplePrice()
	for i := range bare.Pools {
		bare.Pools[i].Offerings = nil
	}
	ask(bare)
	sideBySide(func() {
		if again := ask(sdk.SamplePrice()); deterministic && !reflect.DeepEqual(first, again) {
			t.Errorf("Price: the manifest says deterministic, two answers to the same question differ:\n%+v\n%+v", first, again)
		}
	})
}

func checkScorer(ctx context.Context, t reporter, c *sdk.Client, deterministic bool) {
	t.Helper()
	ask := func(req *sdk.ScoreRequest) *sdk.ScoreAnswer {
		ans, err := c.Score(ctx, req)
		if err != nil {
			t.Errorf("Score: %v", err)
			return nil
		}
		if err := sdk.CheckScores(req, ans); err != nil {
			t.Errorf("Score, illegal answer: %v", err)
		}
		return ans
	}
	first := ask(sdk.SampleScore())
	empty := sdk.SampleScore()
	empty.Moves = nil
	ask(empty)
	sideBySide(func() {
		if again := ask(sdk.SampleScore()); deterministic && !reflect.DeepEqual(first, again) {
			t.Errorf("Score: the manifest says deterministic, two answers to the same question differ:\n%+v\n%+v", first, again)
		}
	})
}

// sideBySide calls f from eight goroutines at once.
func sideBySide(f func()) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f()
		}()
	}
	wg.Wait()
}
