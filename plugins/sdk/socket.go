package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
)

// SocketVariable is the environment variable that makes Serve serve at a socket, as in
// a container of its own, instead of as a plugin process.
const SocketVariable = "WEIR_STRATEGY_SOCKET"

// stopTime is how long calls under way have when the process is asked to end.
const stopTime = 5 * time.Second

// ServeSocket serves the strategy at a Unix socket until the process is asked to end
// (SIGTERM or SIGINT), for strategies that run in a container of their own and share a
// folder with the host. A socket that a former process left at the path is replaced;
// one that somebody serves at is an error, as is anything that is not a socket. The
// socket is open to the owner and the group of the folder, and to nobody else.
//
// Further major versions of the protocol are served at the same socket, where a host picks
// by the names of the services: two that have a service of one name are an error.
func ServeSocket(strategy Strategy, path string, others ...Major) error {
	if err := checkServed(strategy, others); err != nil {
		return err
	}
	server := grpc.NewServer(ServerOptions()...)
	Register(server, strategy)
	if err := registerMajors(server, others); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := listen(path)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving at %s: %w", path, err)
	case <-ctx.Done():
	}
	late := time.AfterFunc(stopTime, server.Stop)
	defer late.Stop()
	server.GracefulStop()
	return nil
}

// registerMajors puts the services of further major versions on a server. gRPC ends the
// process when a service is there twice, so each version is tried by itself first.
func registerMajors(server *grpc.Server, others []Major) error {
	for _, m := range others {
		alone := grpc.NewServer()
		m.Register(alone)
		have := server.GetServiceInfo()
		for name := range alone.GetServiceInfo() {
			if _, twice := have[name]; twice {
				return fmt.Errorf("version %d of the protocol: service %s is served already", m.Version, name)
			}
		}
		m.Register(server)
	}
	return nil
}

// listen makes the socket under another name and moves it, so that whoever finds it can
// connect to it.
func listen(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("socket: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("socket: %s is there and is no socket", path)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("socket: somebody serves at %s already", path)
		}
	}
	fresh := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%d", os.Getpid()))
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener.SetUnlinkOnClose(false) // it has another name by then, which the next process replaces
	if err := errors.Join(os.Chmod(fresh, 0o660), os.Rename(fresh, path)); err != nil {
		listener.Close()
		os.Remove(fresh)
		return nil, fmt.Errorf("socket: %w", err)
	}
	return listener, nil
}
