package strategy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
	"github.com/weir-project/weir/plugins/sdk"
)

// init is TestMain for strategies of a made-up second major version of the protocol: this
// test binary with the arguments serve, majors and what it is to serve.
func init() {
	if len(os.Args) < 4 || os.Args[1] != "serve" || os.Args[2] != "majors" {
		return
	}
	second := sdk.Major{Version: 2, Register: func(s *grpc.Server) { strategyv1.RegisterStrategyServiceServer(s, secondMajor{}) }}
	switch os.Args[3] {
	case "both":
		sdk.Serve(&fake{behaviour: "well"}, second)
	case "second": // what somebody's SDK of the second version would do
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: sdk.Handshake, GRPCServer: plugin.DefaultGRPCServer,
			VersionedPlugins: map[int]plugin.PluginSet{2: {sdk.PluginName: &secondPlugin{}}}})
	case "contract": // the first version of the protocol, the second of its contracts
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: sdk.Handshake, GRPCServer: plugin.DefaultGRPCServer,
			VersionedPlugins: map[int]plugin.PluginSet{1: {sdk.PluginName: &secondPlugin{}}}})
	}
	os.Exit(0)
}

// secondMajor stands for services of the second version: it only says who it is.
type secondMajor struct {
	strategyv1.UnimplementedStrategyServiceServer
}

func (secondMajor) Describe(context.Context, *strategyv1.DescribeRequest) (*strategyv1.DescribeResponse, error) {
	return &strategyv1.DescribeResponse{Name: "second", Version: "2.0", Contracts: []*strategyv1.Contract{
		{Kind: strategyv1.Kind_KIND_INSTANCE_SELECTION, Version: 2, Levels: []strategyv1.Level{strategyv1.Level_LEVEL_PRICE}}}}, nil
}

type secondPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (*secondPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	strategyv1.RegisterStrategyServiceServer(s, secondMajor{})
	return nil
}

func (*secondPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("nobody is a host of this version")
}

// A strategy that serves two major versions side by side is spoken to in the one that this
// host knows.
func TestTwoMajorsSideBySide(t *testing.T) {
	t.Parallel()
	h := testHost(t, bound(fakeSpec(t, "both", "majors", "both")))
	settle(t, h)
	prices, err := h.Price(t.Context(), testWorld())
	if err != nil {
		t.Fatal(err)
	}
	if pp := prices.ByPool["default"]; pp.Strategy != "both 0.1" || pp.Outcome != string(OK) {
		t.Errorf("answered by %q: %s", pp.Strategy, pp.Outcome)
	}
}

// Case B127 with whole programs: versions that do not go together are refused at once, and
// the message names both; the built-in answers.
func TestOtherMajorsAreRefused(t *testing.T) {
	t.Parallel()
	for what, want := range map[string][]string{
		"second":   {"plugin speaks strategy protocol 2", "this host speaks 1"},
		"contract": {"neither instance-selection v1", "but instance-selection v2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := testHost(t, bound(fakeSpec(t, "other", "majors", what)), func(o *Options) {
				o.Backoff = func(int) time.Duration { return time.Hour }
				o.StartTimeout = time.Hour // that it is refused has nothing to do with waiting
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := h.Settled(ctx)
			for _, w := range want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("refused with %v, want %q", err, w)
				}
			}
			prices, err := h.Price(t.Context(), testWorld())
			if err != nil {
				t.Fatal(err)
			}
			if pp := prices.ByPool["default"]; pp.Outcome != string(Dead) || !strings.HasPrefix(pp.Strategy, "cost-optimal") {
				t.Errorf("answered by %q: %s", pp.Strategy, pp.Outcome)
			}
		})
	}
}
