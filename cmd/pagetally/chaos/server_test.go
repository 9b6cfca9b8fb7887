package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded"
)

const site = "example.com"

// server is `pagetally serve` on one data folder and one port, through any number of processes.
type server struct {
	t    testing.TB
	data string
	url  string
	args []string
	log  *tail

	mu     sync.Mutex
	pid    int
	exited chan struct{} // closed when the process has ended
	state  *os.ProcessState
}

func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s := &server{t: t, data: filepath.Join(data, "data"), url: "http://" + net.JoinHostPort("127.0.0.1", port), log: &tail{}}
	s.args = append([]string{
		"serve", "--listen=127.0.0.1:" + port, "--data=" + s.data, "--site=" + site, "--engine-lib=" + library, "--journal-seal=300ms",
	}, args...)
	t.Cleanup(s.endAll)
	return s
}

// freePort finds a port below those that outgoing connections are given, so that it stays free between two processes.
func freePort(t testing.TB) string {
	t.Helper()
	for port := 18000 + os.Getpid()%1000; port < 20000; port++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = ln.Close()
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

// start runs the binary and waits until it listens, which is before the engine answers.
func (s *server) start() {
	s.t.Helper()
	cmd := exec.Command(binary, s.args...)
	cmd.Dir = filepath.Dir(s.data)
	cmd.Env = append(os.Environ(), "PAGETALLY_LOG_LEVEL=debug")
	// Should the test end without its cleanup, the process ends too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = s.log
	listens := make(chan struct{})
	cmd.Stdout = &lineWatch{line: "listens on", found: listens}
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		// The parent of a process is a thread: this one lives as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in ProcessState
			s.mu.Lock()
			s.state = cmd.ProcessState
			s.mu.Unlock()
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.pid, s.exited = cmd.Process.Pid, exited
	s.mu.Unlock()
	select {
	case <-listens:
	case <-exited:
		s.t.Fatalf("server ended before it listened:\n%s", s.log)
	case <-time.After(30 * time.Second):
		s.t.Fatalf("server does not listen:\n%s", s.log)
	}
}

// kill ends the process at once and waits until it is gone; its engine ends by itself some time later.
func (s *server) kill() {
	_ = syscall.Kill(s.process(), syscall.SIGKILL)
	<-s.exited
}

func (s *server) process() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// stop ends the process in order and checks that it leaves nothing behind.
func (s *server) stop() {
	s.t.Helper()
	if err := syscall.Kill(s.process(), syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(60 * time.Second):
		s.t.Fatalf("server still runs a minute after SIGTERM:\n%s", s.log)
	}
	if code := s.state.ExitCode(); code != 0 {
		s.t.Errorf("exit code %d:\n%s", code, s.log)
	}
	s.checkGone()
}

// checkGone asserts that no process and no listener is left.
func (s *server) checkGone() {
	s.t.Helper()
	if pids := s.processes(); len(pids) > 0 {
		s.t.Errorf("processes left behind: %v", pids)
	}
	writer, _, err := embedded.Saved(embedded.Config{Dir: s.engineDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, addr := range []string{strings.TrimPrefix(s.url, "http://"), writer.Addr, writer.HTTPAddr} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			s.t.Errorf("port still taken: %v", err)
			continue
		}
		_ = ln.Close()
	}
}

// endAll kills whatever is left, however the test ended.
func (s *server) endAll() {
	deadline := time.Now().Add(20 * time.Second)
	for pids := s.processes(); len(pids) > 0 && time.Now().Before(deadline); pids = s.processes() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) engineDir() string { return filepath.Join(s.data, "clickhouse") }

// engines are the processes of the engine on the data folder: none, one, or two while one takes over from another.
func (s *server) engines() []int {
	return processesWith(func(args []string) bool {
		return len(args) > 1 && strings.HasPrefix(args[1], "--config-file="+s.engineDir())
	})
}

// processes are all that run on the data folder.
func (s *server) processes() []int {
	return processesWith(func(args []string) bool { return strings.Contains(strings.Join(args, " "), s.data) })
}

func processesWith(match func(args []string) bool) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 { // gone, or a zombie
			continue
		}
		if match(strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitEngine waits for a process of the engine that is this server's own.
func (s *server) awaitEngine(within time.Duration) (pid int, ok bool) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, pid := range s.engines() {
			if parentOf(pid) == s.process() {
				return pid, true
			}
		}
	}
	return 0, false
}

func parentOf(pid int) int {
	n, _ := strconv.Atoi(statusOf(pid, "PPid"))
	return n
}

// residentBytes is the memory that the server's process holds, without its engine.
func (s *server) residentBytes() int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(statusOf(s.process(), "VmRSS"), " kB"), 10, 64)
	return kb << 10
}

func statusOf(pid int, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// reading has connections of its own: the senders' are not to be warmed up by it.
var reading = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get reads a path of the server into v.
func (s *server) get(path string, v any) error {
	response, err := reading.Get(s.url + path)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, response.StatusCode, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w in %s", path, err, body)
	}
	return nil
}

// ready says whether every part of the server works.
func (s *server) ready() error {
	var v any
	return s.get("/readyz", &v)
}

// command runs `pagetally` with args on the data folder.
func (s *server) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append(args, "--data="+s.data, "--engine-lib="+library)...)
	cmd.Dir = filepath.Dir(s.data)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("pagetally %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

// connect reaches the server's engine as the user for dashboards.
func (s *server) connect() driver.Conn {
	s.t.Helper()
	_, reader, err := embedded.Saved(embedded.Config{Dir: s.engineDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{reader.Addr},
		Auth: clickhouse.Auth{Username: reader.User, Password: reader.Password, Database: reader.Database},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// eventually repeats check until it returns nil.
func eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lineWatch closes found when a line is written that holds line.
type lineWatch struct {
	line  string
	found chan struct{}
	seen  strings.Builder
}

func (w *lineWatch) Write(p []byte) (int, error) {
	if w.found != nil {
		w.seen.Write(p)
		if strings.Contains(w.seen.String(), w.line) {
			close(w.found)
			w.found = nil
		}
	}
	return len(p), nil
}

// tail keeps the last lines of the logs of all processes.
type tail struct {
	mu    sync.Mutex
	lines []string
	rest  []byte
}

const tailLines = 400

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		n, line, _ := bufio.ScanLines(l.rest, false)
		if n == 0 {
			break
		}
		l.lines = append(l.lines, string(line))
		l.rest = l.rest[n:]
	}
	if extra := len(l.lines) - tailLines; extra > 0 {
		l.lines = append(l.lines[:0], l.lines[extra:]...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
