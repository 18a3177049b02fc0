package moto

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
)

// Env names the Python that has moto.
const Env = "WEIR_MOTO"

// Region is where tests are, Account who they are.
const (
	Region  = "us-east-1"
	Account = "123456789012"
)

const (
	startLimit = 10 * time.Minute // a first run compiles moto's modules
	stopLimit  = 2 * time.Minute
)

//go:embed serve.py
var program string

// Server is a running moto behind its proxy.
type Server struct {
	*Proxy
	front *httptest.Server

	cmd    *exec.Cmd
	stdin  io.Closer
	output bytes.Buffer // of standard error; read after the end
	exited chan error
}

// shared is the moto of this test binary, started when the first test asks for it.
var shared struct {
	on     bool
	once   sync.Once
	server *Server
	err    error
}

// Shared runs the tests of a package with one moto for all of them and returns the exit code.
func Shared(m *testing.M) int {
	shared.on = true
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "moto:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Start answers the shared moto, or one of the test's own, or skips the test where there
// is none to be had.
func Start(t testing.TB) *Server {
	t.Helper()
	python := os.Getenv(Env)
	if python == "" {
		t.Skipf("no moto: set %s to a Python that has it (make moto makes one)", Env)
	}
	if shared.on {
		shared.once.Do(func() { shared.server, shared.err = start(python) })
		if shared.err != nil {
			t.Fatal(shared.err)
		}
		return shared.server
	}
	return Own(t)
}

// PublicParameters is an environment variable for Own: AWS's own SSM parameters by name, which moto lacks and lets nobody put.
func PublicParameters(values map[string]string) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings only: cannot happen
	}
	return "PUBLIC_PARAMETERS=" + string(text)
}

// Own is like Start, for a test whose faults nobody else may see. The environment is that of moto's process besides this one's.
func Own(t testing.TB, env ...string) *Server {
	t.Helper()
	python := os.Getenv(Env)
	if python == "" {
		t.Skipf("no moto: set %s to a Python that has it (make moto makes one)", Env)
	}
	s, err := start(python, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(python string, env ...string) (*Server, error) {
	s := &Server{exited: make(chan error, 1)}
	s.cmd = exec.Command(python, "-c", program)
	s.cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION=1", "MOTO_ENABLE_AMI_VALIDATION=1")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = &s.output
	stdin, err := s.cmd.StdinPipe() // it ends when this is closed, as it is when this process ends in whatever way
	if err != nil {
		return nil, fmt.Errorf("moto: %w", err)
	}
	s.stdin = stdin
	// A pipe of our own: Wait closes one of StdoutPipe while it is being read.
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("moto: %w", err)
	}
	s.cmd.Stdout = in
	if err := errors.Join(s.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("moto: %s=%s: %w", Env, python, err), out.Close())
	}
	go func() { s.exited <- s.cmd.Wait() }()
	lines := make(chan string, 1)
	go func() {
		defer out.Close() // read to its end
		defer close(lines)
		if s := bufio.NewScanner(out); s.Scan() {
			lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case line := <-lines:
		port, ok := strings.CutPrefix(line, "READY ")
		if !ok {
			return nil, fmt.Errorf("moto did not start (it said %q): %w\n%s", line, s.stop(), &s.output)
		}
		target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
		s.Proxy = NewProxy(target)
		s.front = httptest.NewServer(s.Proxy)
		return s, nil
	case <-time.After(startLimit):
		return nil, fmt.Errorf("moto is not ready after %v: %w", startLimit, s.stop())
	}
}

// stop ends moto and waits for it.
func (s *Server) stop() error {
	if s.front != nil {
		s.front.CloseClientConnections()
		s.front.Close()
	}
	err := s.stdin.Close()
	if errors.Is(err, os.ErrClosed) { // it has ended by itself
		err = nil
	}
	select {
	case ended := <-s.exited:
		if ended != nil {
			return errors.Join(err, fmt.Errorf("moto had ended: %w\n%s", ended, &s.output))
		}
		return err
	case <-time.After(stopLimit):
		return errors.Join(err, fmt.Errorf("moto did not end within %v, killed", stopLimit), s.cmd.Process.Kill(), <-s.exited)
	}
}

// URL is where it answers.
func (s *Server) URL() string { return s.front.URL }

// Config is what clients of it are made with; it fails no test and reads no settings.
func (s *Server) Config() aws.Config {
	return aws.Config{
		Region: Region, BaseEndpoint: aws.String(s.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
		HTTPClient:  &http.Client{Transport: sdkconf.WholeBody(http.DefaultTransport.(*http.Transport).Clone()), Timeout: 30 * time.Second},
	}
}

// Environ is the same for processes under test.
func (s *Server) Environ() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=AKIDTEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=" + Region, "AWS_ENDPOINT_URL=" + s.URL(),
		"AWS_EC2_METADATA_DISABLED=true", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
}
