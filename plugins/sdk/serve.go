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
	strategy Strategy           // nil on the host's side
	register func(*grpc.Server) // of a major version that is not this SDK's
}

var _ plugin.GRPCPlugin = (*grpcPlugin)(nil)

// GRPCServer implements plugin.GRPCPlugin.
func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.register != nil {
		p.register(s)
		return nil
	}
	Register(s, p.strategy)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin; it answers a *Client.
func (p *grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// Major is the services of another major version of the protocol than this SDK's.
type Major struct {
	Version  int
	Register func(*grpc.Server) // puts them on a server
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
//
// The services of further major versions of the protocol can be served side by side: a
// host speaks the highest that both know. Versions under 1, that of this SDK and ones
// named twice end the process likewise.
func Serve(strategy Strategy, others ...Major) {
	if path := os.Getenv(SocketVariable); path != "" {
		if err := ServeSocket(strategy, path, others...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := checkServed(strategy, others); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	majors := map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &grpcPlugin{strategy: strategy}}}
	for _, m := range others {
		majors[m.Version] = plugin.PluginSet{PluginName: &grpcPlugin{register: m.Register}}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  Handshake,
		VersionedPlugins: majors,
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, ServerOptions()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
}

// checkServed says why a strategy cannot be served, or not together with other major versions.
func checkServed(strategy Strategy, others []Major) error {
	_, prices := strategy.(Pricer)
	_, scores := strategy.(Scorer)
	if !prices && !scores {
		return fmt.Errorf("%T is neither an sdk.Pricer nor an sdk.Scorer", strategy)
	}
	if err := CheckDescription(strategy.Describe()); err != nil {
		return fmt.Errorf("the strategy's description: %w", err)
	}
	served := map[int]bool{ProtocolVersion: true}
	for _, m := range others {
		if served[m.Version] || m.Version < 1 {
			return fmt.Errorf("version %d of the protocol is none, or is served already", m.Version)
		}
		served[m.Version] = true
	}
	return nil
}

// ServerOptions are the bounds and guards that Serve puts on its gRPC server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.ChainUnaryInterceptor(recovering), grpc.ChainStreamInterceptor(recoveringStream),
	}
}
