package embeddedtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded"
)

const (
	startWait = time.Minute // a noisy machine is slow, a broken engine fails at once
	stopWait  = time.Minute
)

// Server is an engine that runs.
type Server struct {
	cfg    embedded.Config
	engine *embedded.Engine
	cancel context.CancelFunc
	done   chan error // Run's result, once
}

// Options of a private engine.
type Options struct {
	Dir   string    // empty: a fresh directory of the test
	Fsync bool      // as in production; without it inserts return sooner, and still survive a kill of the engine
	Env   []string  // more of the engine's environment, NAME=value
	Log   io.Writer // where the supervisor logs; nil: nowhere
}

// start runs an engine until it answers.
func start(cfg embedded.Config) (*Server, error) {
	s := &Server{cfg: cfg}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) run() error {
	engine, err := embedded.New(s.cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.engine, s.cancel, s.done = engine, cancel, make(chan error, 1)
	go func() { s.done <- engine.Run(ctx) }()
	readyCtx, stop := context.WithTimeout(ctx, startWait)
	defer stop()
	if err := engine.Ready(readyCtx); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// stop ends Run and returns its error; a second call does nothing.
func (s *Server) stop() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.cancel = nil
	select {
	case err := <-s.done:
		return err
	case <-time.After(stopWait):
		return fmt.Errorf("engine (pid %d) does not stop", s.engine.PID())
	}
}

// Engine is the supervised engine itself.
func (s *Server) Engine() *embedded.Engine { return s.engine }

// PID is the engine's process, 0 while none runs.
func (s *Server) PID() int { return s.engine.PID() }

// Options connects as the writer to a database; empty means the product's own, which is there and empty.
func (s *Server) Options(database string) *clickhouse.Options {
	return options(s.engine.Writer(), database)
}

// ReaderOptions connects as the limited reader, who may read the product's own database and none that a test made.
func (s *Server) ReaderOptions() *clickhouse.Options { return options(s.engine.Reader(), "") }

func options(c embedded.Connection, database string) *clickhouse.Options {
	if database == "" {
		database = c.Database
	}
	return &clickhouse.Options{
		Addr:        []string{c.Addr},
		Auth:        clickhouse.Auth{Database: database, Username: c.User, Password: c.Password},
		DialTimeout: 10 * time.Second,
	}
}

var databases atomic.Int64

// Database makes a database for one test and connects to it. Both go at the test's end.
func (s *Server) Database(t testing.TB) driver.Conn {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	admin := s.connect(t, "default")
	if err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("make database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startWait)
		defer cancel()
		if err := admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" SYNC"); err != nil && s.PID() != 0 {
			t.Errorf("drop database: %v", err)
		}
		_ = admin.Close()
	})
	conn := s.connect(t, name)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// DatabaseName is the database a connection from Database works in.
func DatabaseName(t testing.TB, conn driver.Conn) string {
	t.Helper()
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT currentDatabase()").Scan(&name); err != nil {
		t.Fatalf("ask for database: %v", err)
	}
	return name
}

func (s *Server) connect(t testing.TB, database string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(s.Options(database))
	if err != nil {
		t.Fatalf("connect to engine: %v", err)
	}
	return conn
}

func newConfig(dir string) (embedded.Config, error) {
	library, err := Library()
	if err != nil {
		return embedded.Config{}, err
	}
	return embedded.Config{
		Dir: dir, Library: library, NoFsync: true, MemoryLimit: 2 << 30, StartTimeout: startWait,
	}, nil
}

// Library finds the engine where the module keeps it, since tests run in their package's directory.
func Library() (string, error) {
	library, err := embedded.Locate("")
	if !errors.Is(err, embedded.ErrLibraryMissing) {
		return library, err
	}
	dir, wdErr := os.Getwd()
	if wdErr != nil {
		return "", wdErr
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		found, _ := filepath.Glob(filepath.Join(dir, "deployments", "embedded", "node_modules", "@chdb", "lib-*", "libchdb.so"))
		if len(found) > 0 {
			return embedded.Locate(found[0])
		}
	}
	return "", err
}

// Start runs a private engine for one test, which ends with it.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	dir := opts.Dir
	if dir == "" {
		dir = t.TempDir()
	}
	cfg, err := newConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg.NoFsync, cfg.Env = !opts.Fsync, opts.Env
	cfg.LongestWait = 200 * time.Millisecond // tests crash it often
	if opts.Log != nil {
		cfg.Logger = slog.New(slog.NewTextHandler(opts.Log, nil))
	}
	s, err := start(cfg)
	if err != nil {
		t.Fatalf("start engine: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Errorf("end engine: %v", err)
		}
	})
	return s
}

// Crash kills the engine's process and leaves the supervisor to restart it: wait for Engine().Ready, or for another PID.
func (s *Server) Crash() error {
	pid := s.PID()
	if pid == 0 {
		return errors.New("no engine runs")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Kill kills the engine's process and leaves it down until Restart. Killing one that is down does nothing.
func (s *Server) Kill() error {
	if s.cancel == nil {
		return nil
	}
	if pid := s.PID(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return s.stop()
}

// Stop ends the engine in order and leaves it down until Restart.
func (s *Server) Stop() error { return s.stop() }

// Restart runs the engine again after Kill or Stop, on the same directory and ports.
func (s *Server) Restart() error {
	if s.cancel != nil {
		return errors.New("engine runs already")
	}
	return s.run()
}
