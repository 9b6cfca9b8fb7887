// Package redistest starts a real redis-server for tests: on a free port of 127.0.0.1, with its data under the test's temporary folder.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server. Its methods fail the test on errors.
type Server struct {
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs a redis-server until the end of the test, without persistence unless args (as in "--appendonly", "yes") say so. The
// test fails where the program is missing.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), port: freePort(t), args: args}
	s.Restart()
	t.Cleanup(s.Kill)
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Addr is where the server listens, the same after a restart.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// HostPort is Addr in two.
func (s *Server) HostPort() (host, port string) { return "127.0.0.1", fmt.Sprint(s.port) }

// Client is a client that gives up soon. It is closed at the end of the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Restart starts the server, which must not be running, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", s.commandLine()...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
	done := make(chan struct{})
	s.done = done
	go func(cmd *exec.Cmd) {
		defer close(done)
		_ = cmd.Wait()
	}(s.cmd)
	c := s.Client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for c.Ping(ctx).Err() != nil {
		select {
		case <-s.done:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("redis-server ended:\n%s", log)
		case <-ctx.Done():
			s.t.Fatal("redis-server does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) commandLine() []string {
	own := []string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}
	if len(s.args) > 0 && s.args[0] == sentinelFile {
		return slices.Concat(s.args[1:], own, []string{"--sentinel"})
	}
	return slices.Concat(own, []string{"--save", ""}, s.args)
}

// Kill ends the server by SIGKILL and waits until its process is gone.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
}

// Stop lets the server write down what it has to, and waits until its process is gone.
func (s *Server) Stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		s.t.Fatal("redis-server does not stop")
	}
}

// Pause stops the server without closing anything, as a machine that hangs does.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.done:
	default:
		_ = s.cmd.Process.Signal(sig)
	}
}
