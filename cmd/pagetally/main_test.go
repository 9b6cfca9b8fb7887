package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema/embedded"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// asBinary makes the test binary be pagetally, so that the tests drive a process of their own as an operator does.
const asBinary = "PAGETALLY_TEST_AS"

func TestMain(m *testing.M) {
	embedded.RunChildIfAsked()
	if _, ok := os.LookupEnv(asBinary); ok {
		_ = os.Unsetenv(asBinary)
		os.Exit(start(os.Args[1:]))
	}
	// The servers that the tests start run in other folders than the one the library is found from.
	if library, err := embeddedtest.Library(); err == nil {
		_ = os.Setenv(embedded.LibraryEnv, library)
	}
	embeddedtest.Main(m)
}

// environment makes a child of the test binary be pagetally, without the second that the race detector waits at every exit.
func environment() []string {
	return append(os.Environ(), asBinary+"=pagetally", "GORACE=atexit_sleep_ms=0")
}

// process is a running server.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	said   string // the line that says where it listens
	url    string
	data   string
	stderr *lockedBuffer
	exited chan error
}

// startServer runs `pagetally serve` on data and waits until it listens, which is before ClickHouse is there.
func startServer(t testing.TB, data string, args ...string) *process {
	t.Helper()
	p := startCommand(t, append([]string{"serve", "--listen=127.0.0.1:0", "--data=" + data}, args...)...)
	p.data = data
	_, rest, _ := strings.Cut(p.said, "listens on ")
	p.url, _, _ = strings.Cut(rest, " ")
	return p
}

// startCommand runs a command that stays, and waits until it says where it listens.
func startCommand(t testing.TB, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), stderr: &lockedBuffer{}, exited: make(chan error, 1)}
	p.cmd.Env = environment()
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.awaitListening(stdout)
	return p
}

func (p *process) awaitListening(stdout io.Reader) {
	p.t.Helper()
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if strings.Contains(lines.Text(), " listens") {
				found <- lines.Text()
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		p.exited <- p.cmd.Wait()
	}()
	select {
	case p.said = <-found:
		if p.said == "" {
			p.t.Fatalf("ended before it listened:\n%s", p.stderr)
		}
	case <-time.After(30 * time.Second):
		p.t.Fatalf("does not listen:\n%s", p.stderr)
	}
}

// signal sends s and does not wait.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// awaitExit waits until the process has ended by itself and returns its exit code.
func (p *process) awaitExit(within time.Duration) int {
	p.t.Helper()
	select {
	case err := <-p.exited:
		p.exited <- err
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("server still runs %s after it was asked to stop:\n%s", within, p.stderr)
		return -1
	}
}

// stop ends the server in order and expects exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(40 * time.Second); code != 0 {
		p.t.Fatalf("exit code %d:\n%s", code, p.stderr)
	}
}

// kill leaves nothing behind, however the test ends.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err := <-p.exited
	p.exited <- err
	if p.t.Failed() {
		p.t.Logf("log of the server:\n%s", p.stderr)
	}
}

// browser is the User-Agent of the tests' views.
const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// view is the body of a page view in Plausible's format.
func view(path string) []byte {
	return fmt.Appendf(nil, `{"name":"pageview","domain":"example.com","url":"https://example.com%s"}`, path)
}

// send posts a page view and fails the test unless it is acknowledged as counted.
func (p *process) send(path string) {
	p.t.Helper()
	request, err := http.NewRequest(http.MethodPost, p.url+"/api/event", bytes.NewReader(view(path)))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", browser)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusAccepted || response.Header.Get("X-Pagetally-Reason") != "" {
		p.t.Fatalf("view not accepted: %d %v %s", response.StatusCode, response.Header, body)
	}
}

// get reads a path of the server into v, if v is not nil, and returns status and body.
func (p *process) get(path string, v any) (int, string) {
	p.t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, p.read(response, v)
}

// read returns the body of an answer, read into v if v is not nil.
func (p *process) read(response *http.Response, v any) string {
	p.t.Helper()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(body, v); err != nil {
			p.t.Fatalf("%s answered %d: %v in %s", response.Request.URL, response.StatusCode, err, body)
		}
	}
	return string(body)
}

// awaitCount waits until the exact count of a page is want; more than want fails at once.
func (p *process) awaitCount(path string, want int64) {
	p.t.Helper()
	eventually(p.t, 60*time.Second, func() error {
		var count struct{ Views int64 }
		status, body := p.get("/v1/count?site=example.com&path="+path, nil)
		if status != http.StatusOK {
			return fmt.Errorf("status %d: %s", status, body)
		}
		if err := json.Unmarshal([]byte(body), &count); err != nil {
			return err
		}
		if count.Views > want {
			p.t.Fatalf("%s counts %d views, %d were sent", path, count.Views, want)
		}
		if count.Views < want {
			return fmt.Errorf("%s counts %d views, want %d", path, count.Views, want)
		}
		return nil
	})
}

// eventually repeats check until it returns nil.
func eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// pagetally runs a command to its end in a process of its own.
func pagetally(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = environment()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// lockedBuffer collects a process's output while it may be read.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
