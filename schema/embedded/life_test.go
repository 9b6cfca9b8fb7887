package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/pagetally/pagetally/schema/embedded"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

const within = 30 * time.Second

func TestStopIsOrderlyAndComplete(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	server := embeddedtest.Start(t, embeddedtest.Options{Dir: dir})
	pid := server.PID()
	if !alive(pid) {
		t.Fatalf("pid %d is none", pid)
	}
	if err := server.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if alive(pid) {
		t.Errorf("pid %d lives on after the stop", pid)
	}
	if said := readFile(t, filepath.Join(dir, "log", "terminal.log")); !strings.Contains(said, "Bye.") {
		t.Errorf("the engine was cut off, it said %q", said)
	}
	if err := server.Engine().Ready(t.Context()); err == nil {
		t.Error("a stopped engine is ready")
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	embeddedtest.Start(t, embeddedtest.Options{Dir: dir})
	for _, name := range []string{"engine.json", "config.xml", "users.xml", "owner.lock", "engine.lock", "log/terminal.log"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of %s = %o, want 600", name, got)
		}
	}
}

func TestCrashIsFollowedByRestart(t *testing.T) {
	var log syncBuffer
	server := embeddedtest.Start(t, embeddedtest.Options{Fsync: true, Log: &log})
	conn := open(t, server.Options(""))
	exec1(t, conn, "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n")
	exec1(t, conn, "INSERT INTO t VALUES (1), (2), (3)")
	before := server.PID()
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a new process that answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return server.PID() != before && server.Engine().Ready(ctx) == nil && server.PID() != 0
	})
	if alive(before) {
		t.Errorf("the killed process %d is still there", before)
	}
	var count uint64
	waitFor(t, "an answer to the old connection pool", func() bool {
		return conn.QueryRow(t.Context(), "SELECT count() FROM t").Scan(&count) == nil
	})
	if count != 3 {
		t.Errorf("rows after the crash = %d, want 3", count)
	}
	if !strings.Contains(log.String(), "engine ended, restarting it") {
		t.Errorf("the crash is not logged: %s", log.String())
	}
}

func TestKilledParentTakesTheEngineAlong(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	second := embeddedtestConfig(t, dir)
	if err := runBriefly(t, second); !errors.Is(err, embedded.ErrDirectoryInUse) {
		t.Errorf("second engine on the directory: %v, want ErrDirectoryInUse", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	server := embeddedtest.Start(t, embeddedtest.Options{Dir: dir}) // at once: it has to wait for the old engine itself
	if alive(pid) {
		t.Errorf("engine %d of the killed parent still runs beside %d", pid, server.PID())
	}
}

func TestPortTakenNamesThePort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	cfg := embeddedtestConfig(t, t.TempDir())
	cfg.TCPPort = listener.Addr().(*net.TCPAddr).Port
	err = runBriefly(t, cfg)
	if !errors.Is(err, embedded.ErrPortTaken) || !strings.Contains(err.Error(), strconv.Itoa(cfg.TCPPort)) {
		t.Errorf("got %v, want ErrPortTaken that names port %d", err, cfg.TCPPort)
	}
}

func TestLibraryThatIsNoEngine(t *testing.T) {
	cfg := embeddedtestConfig(t, t.TempDir())
	// A shared library of this platform without the entry point: the smallest that every Linux has.
	found, _ := filepath.Glob("/lib/*-linux-gnu/libdl.so.2")
	if len(found) == 0 {
		t.Skip("no small shared library known on this system")
	}
	cfg.Library = found[0]
	if err := runBriefly(t, cfg); !errors.Is(err, embedded.ErrBadLibrary) {
		t.Errorf("got %v, want ErrBadLibrary", err)
	}
}

func TestHostileClientsDoNotKillIt(t *testing.T) {
	server := embeddedtest.Shared(t)
	pid := server.PID()
	writer := server.Engine().Writer()
	for name, send := range map[string][]byte{
		"garbage": bytes.Repeat([]byte{0xff, 0x00, 0x13}, 500),
		"half":    {0x00, 0x0a},
		"request": []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nSELECT"),
		"nothing": nil,
	} {
		for _, addr := range []string{writer.Addr, writer.HTTPAddr} {
			sendAndReset(t, name, addr, send)
		}
	}
	for range 3 {
		wrong := server.Options("default")
		wrong.Auth.Password = "wrong"
		if err := open(t, wrong).Ping(t.Context()); !isException(err, authenticationFailed) {
			t.Fatalf("wrong password: %v, want refusal", err)
		}
		wrong.Protocol, wrong.Addr = clickhouse.HTTP, []string{writer.HTTPAddr}
		if err := open(t, wrong).Ping(t.Context()); err == nil {
			t.Fatal("wrong password accepted over HTTP")
		}
	}
	if err := open(t, server.Options("")).Ping(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if server.PID() != pid {
		t.Errorf("pid = %d, was %d: the engine died on the way", server.PID(), pid)
	}
}

// sendAndReset sends bytes and resets the connection, which a close with unread data or zero linger does.
func sendAndReset(t *testing.T, name, addr string, data []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := conn.Write(data); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func embeddedtestConfig(t *testing.T, dir string) embedded.Config {
	t.Helper()
	library, err := embeddedtest.Library()
	if err != nil {
		t.Fatal(err)
	}
	return embedded.Config{Dir: dir, Library: library, NoFsync: true}
}

// runBriefly runs an engine that is not meant to start and returns Run's error.
func runBriefly(t *testing.T, cfg embedded.Config) error {
	t.Helper()
	engine, err := embedded.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return engine.Run(ctx)
}

func open(t *testing.T, options *clickhouse.Options) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func exec1(t *testing.T, conn driver.Conn, query string) {
	t.Helper()
	if err := conn.Exec(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// alive says whether a process runs. One that has ended but was never collected, as an orphan may be by a careless init,
// does not run.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v", what, within)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
