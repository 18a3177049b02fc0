package strategy

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/strategy/sandbox"
)

// point prints a handshake that names a network and an address, as it is or as what leads
// there from the folder of sockets, and waits for its end.
func point(network, address, how string) {
	here := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
	var err error
	switch how {
	case "linked":
		err, address = os.Symlink(address, here), here
	case "linked hard":
		err, address = os.Link(address, here), here
	case "a file":
		err, address = os.WriteFile(here, nil, 0o600), here
	case "linked above":
		err, address = os.Symlink(filepath.Dir(address), here), filepath.Join(here, filepath.Base(address))
	case "beside":
		address = filepath.Join(filepath.Dir(here), "..", "..", filepath.Base(filepath.Dir(address)), filepath.Base(address))
	}
	if err != nil {
		panic(err)
	}
	// Whose certificate it is does not matter: who dials has said enough.
	block, _ := pem.Decode([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	fmt.Printf("1|1|%s|%s|grpc|%s\n", network, address, base64.RawStdEncoding.EncodeToString(block.Bytes))
	select {}
}

// ours is what the test writes to see that it is the first to have called.
const ours = "ours"

// first answers what the first caller of a listener says.
func first(t *testing.T, l net.Listener) <-chan string {
	said := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			said <- err.Error()
			return
		}
		defer c.Close()
		b := make([]byte, len(ours))
		n, _ := io.ReadFull(c, b) // a caller that hangs up has said nothing
		said <- string(b[:n])
	}()
	t.Cleanup(func() { l.Close() })
	return said
}

// TestStealsNothingByHandshake: a strategy's handshake cannot point the host at anybody
// but the strategy, also where Landlock does not keep it from making links.
func TestStealsNothingByHandshake(t *testing.T) {
	t.Parallel()
	if !sandbox.Detect().Seccomp {
		t.Skip("this kernel has no filters")
	}
	filterAlone := sandbox.Detect().Mask(0, true)
	for name, c := range map[string]struct {
		network, how string
		want         string // of the error
	}{
		"TCP":                {"tcp", "", "want a socket in its own folder"},
		"UDP":                {"udp", "", "want a socket in its own folder"},
		"another's socket":   {"unix", "", "want a socket in its own folder"},
		"an abstract socket": {"unix", "abstract", "want a socket in its own folder"},
		"a relative path":    {"unix", "relative", "want a socket in its own folder"},
		"a path out":         {"unix", "beside", "want a socket in its own folder"},
		"a link above":       {"unix", "linked above", "escapes"},
		"a link":             {"unix", "linked", "want a socket in its own folder"},
		"a hard link":        {"unix", "linked hard", "is another process's"},
		"a file":             {"unix", "a file", "want a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network, address := "unix", filepath.Join(t.TempDir(), "s")
			switch {
			case c.network != "unix":
				network, address = "tcp", "127.0.0.1:0"
			case c.how == "abstract":
				address = "@" + address
			default: // short, and where files can be linked from
				dir, err := os.MkdirTemp("", "o")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(dir) })
				address = filepath.Join(dir, "s")
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			said := first(t, l)
			named := l.Addr().String()
			if c.how == "relative" {
				wd, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				if named, err = filepath.Rel(wd, named); err != nil {
					t.Fatal(err)
				}
			}
			h := testHost(t, bound(fakeSpec(t, "fake", "points", c.network, named, c.how)), func(o *Options) {
				o.Kernel, o.Backoff, o.StartTimeout = &filterAlone, func(int) time.Duration { return time.Hour }, 3*time.Second
			})
			if err := h.Settled(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			h.Close()
			conn, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, ours); err != nil {
				t.Fatal(err)
			}
			// Who listens behind a hard link is seen by the connection alone.
			if got := <-said; got != ours && (got != "" || c.how != "linked hard") {
				t.Errorf("the host called and said %q", got)
			}
		})
	}
}
