package fakekubelet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// portForwardProtocol is the one that kubelets speak.
const portForwardProtocol = "portforward.k8s.io"

// ForwardPorts is what a kubelet serves at POST /portForward/{namespace}/{pod}: each pair
// of streams becomes a connection that dial opens. What dial says against it goes to the
// other end. A test serves it with TLS, at the address and port that its Node reports.
func ForwardPorts(dial func(namespace, pod, port string) (net.Conn, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{portForwardProtocol}); err != nil {
			return // Handshake has answered
		}
		f := &forwarding{failures: map[string]httpstream.Stream{}, dial: func(port string) (net.Conn, error) {
			return dial(r.PathValue("namespace"), r.PathValue("pod"), port)
		}}
		opened := make(chan httpstream.Stream, 100) // more than tests open before one is taken
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			opened <- s
			return nil
		})
		if conn == nil {
			return // UpgradeResponse has answered
		}
		defer f.copies.Wait()
		defer func() { _ = conn.Close() }() // ends the streams, and with them the copies
		for {
			select {
			case s := <-opened:
				f.take(s)
			case <-conn.CloseChan():
				return
			}
		}
	})
}

// forwarding is one connection of an API server to a kubelet.
type forwarding struct {
	dial     func(port string) (net.Conn, error)
	failures map[string]httpstream.Stream // by request, until their data streams come
	copies   sync.WaitGroup
}

// take pairs the streams of a request: the one for failures comes first.
func (f *forwarding) take(s httpstream.Stream) {
	id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
	if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
		f.failures[id] = s
		return
	}
	failure := f.failures[id]
	delete(f.failures, id)
	f.copies.Go(func() { f.connect(s, failure) })
}

// connect copies both ways until one end closes. The streams' own errors have nowhere to go: they are the end.
func (f *forwarding) connect(data, failure httpstream.Stream) {
	defer func() { _ = data.Close() }()
	if failure != nil {
		defer func() { _ = failure.Close() }()
	}
	c, err := f.dial(data.Headers().Get(corev1.PortHeader))
	if err != nil {
		if failure != nil {
			_, _ = fmt.Fprint(failure, err)
		}
		return
	}
	var in sync.WaitGroup
	in.Go(func() {
		_, _ = io.Copy(c, data)
		_ = c.Close()
	})
	_, _ = io.Copy(data, c)
	_ = data.Reset() // ends the other copy
	in.Wait()
}
