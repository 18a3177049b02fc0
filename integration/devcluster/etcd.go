package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdStartTimeout is how long etcd may take until it serves.
const etcdStartTimeout = 10 * time.Minute

// runEtcd runs one etcd member until a signal or until it fails.
func runEtcd(args []string, stderr io.Writer) (err error) {
	fs := flag.NewFlagSet(etcdName, flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("dir", "", "data directory")
	client := fs.String("client", "http://127.0.0.1:2379", "URL for clients")
	peer := fs.String("peer", "http://127.0.0.1:2380", "URL for peers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("--dir is required")
	}
	cfg, err := etcdConfig(*dir, *client, *peer)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	case <-time.After(etcdStartTimeout):
		return fmt.Errorf("does not serve after %v", etcdStartTimeout)
	}
	select {
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}

func etcdConfig(dir, client, peer string) (*embed.Config, error) {
	clientURL, err := url.Parse(client)
	if err != nil {
		return nil, fmt.Errorf("--client: %w", err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return nil, fmt.Errorf("--peer: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Name = "devcluster"
	cfg.Dir = dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true // the data is thrown away; tests start much sooner
	cfg.LogLevel = "warn"
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "10m"
	return cfg, nil
}
