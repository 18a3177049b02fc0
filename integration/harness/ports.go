package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that FreeAddress chooses from: below those that kernels give to outgoing
// connections and to whoever asks for any, so that nobody is given one between the
// choice and its use by chance.
const (
	lowestPort  = 10000
	highestPort = 29999
)

// FreeAddress is an address of this machine that nobody listens on, for a process that must be told where to listen.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var last error
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(highestPort-lowestPort+1))
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		return address
	}
	t.Fatalf("find a free port: %v", last)
	return ""
}
