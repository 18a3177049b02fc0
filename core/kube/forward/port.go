package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// port is one of a pod, over one connection to the API server. Nothing listens on this
// machine, so that nobody else on it gets at the pod.
type port struct {
	conn   httpstream.Connection
	number string
	asked  atomic.Int64
}

// open reaches a port of a pod by web sockets or, on servers without, by SPDY.
func open(api rest.Interface, cfg *rest.Config, namespace, pod string, number int) (*port, error) {
	url := api.Post().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, cfg)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	return &port{conn: conn, number: strconv.Itoa(number)}, nil
}

// close ends the connection; what is left of it has nowhere to go.
func (p *port) close() { _ = p.conn.Close() }

// dial opens one connection: a stream for its bytes, and one for why it could not be.
func (p *port) dial(context.Context, string, string) (net.Conn, error) {
	h := http.Header{}
	h.Set(corev1.PortHeader, p.number)
	h.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(p.asked.Add(1), 10))
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	fault, err := p.conn.CreateStream(h)
	if err != nil {
		return nil, fmt.Errorf("port %s of the pod: %w", p.number, err)
	}
	if err := fault.Close(); err != nil { // our half: there is nothing to say on it
		return nil, fmt.Errorf("port %s of the pod: %w", p.number, err)
	}
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := p.conn.CreateStream(h)
	if err != nil {
		return nil, fmt.Errorf("port %s of the pod: %w", p.number, err)
	}
	c := &stream{Stream: data, conn: p.conn, fault: fault, number: p.number, heard: make(chan struct{})}
	go c.listen()
	return c, nil
}

// stream is a connection to a port of a pod.
type stream struct {
	httpstream.Stream
	conn   httpstream.Connection
	fault  httpstream.Stream
	number string
	heard  chan struct{} // closed when why is set
	why    string        // it failed
}

var _ net.Conn = (*stream)(nil)

// maxWhy bounds the reason of a failure, and hearsFor the wait for it once the bytes have ended.
const (
	maxWhy   = 4 << 10
	hearsFor = 2 * time.Second
)

func (s *stream) listen() {
	defer close(s.heard)
	b, err := io.ReadAll(io.LimitReader(s.fault, maxWhy))
	if err == nil {
		s.why = strings.TrimSpace(string(b))
	}
}

// Read says at the end of the bytes why it came, where that is known.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-s.heard:
		if s.why != "" {
			err = fmt.Errorf("port %s of the pod: %s", s.number, s.why)
		}
	case <-time.After(hearsFor):
	}
	return n, err
}

// Close implements net.Conn.
func (s *stream) Close() error {
	err := s.Stream.Reset()
	s.conn.RemoveStreams(s.Stream, s.fault)
	return errors.Join(err, s.fault.Reset())
}

// address names one end of a connection that has no address.
type address string

func (a address) Network() string { return "pod" }
func (a address) String() string  { return string(a) }

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return address("here") }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return address("port " + s.number) }

// SetDeadline implements net.Conn. Requests end with their contexts, which close the connection.
func (s *stream) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn, as SetDeadline does.
func (s *stream) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn, as SetDeadline does.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }
