package sdk

import (
	"context"
	"fmt"
	"os"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// grpcPlugin connects the services with go-plugin, on both sides.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	strategy Strategy // nil on the host's side
}

var _ plugin.GRPCPlugin = (*grpcPlugin)(nil)

// GRPCServer implements plugin.GRPCPlugin.
func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	Register(s, p.strategy)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin; it answers a *Client.
func (p *grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// Serve runs the strategy as a plugin process until the host ends it. Call it
// from main and do nothing after it.
//
// Until the handshake is done standard output belongs to the protocol; afterwards
// what is written to it goes to the host's log, as does standard error all the
// time. A strategy that is neither a Pricer nor a Scorer, or whose description is
// wrong, ends the process with status 1 and a message on standard error.
//
// Where the environment names a socket (SocketVariable) it is ServeSocket instead.
func Serve(strategy Strategy) {
	if path := os.Getenv(SocketVariable); path != "" {
		if err := ServeSocket(strategy, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_, prices := strategy.(Pricer)
	_, scores := strategy.(Scorer)
	if !prices && !scores {
		fmt.Fprintf(os.Stderr, "%T is neither an sdk.Pricer nor an sdk.Scorer\n", strategy)
		os.Exit(1)
	}
	if err := CheckDescription(strategy.Describe()); err != nil {
		fmt.Fprintf(os.Stderr, "the strategy's description: %v\n", err)
		os.Exit(1)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &grpcPlugin{strategy: strategy}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, ServerOptions()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
}

// ServerOptions are the bounds and guards that Serve puts on its gRPC server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.ChainUnaryInterceptor(recovering), grpc.ChainStreamInterceptor(recoveringStream),
	}
}
