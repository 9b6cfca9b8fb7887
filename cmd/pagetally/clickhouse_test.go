package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema/embedded"
)

// TestClickHouseAlone stops a server, reads its counts without it, and runs its engine alone, on the same ports, for others.
func TestClickHouseAlone(t *testing.T) {
	data := t.TempDir()
	p := startServer(t, data)
	p.send("/alone")
	p.awaitCount("/alone", 1)
	abort(t, p)

	stdout, stderr, code := pagetally(t, "query", "count", "example.com", "--path=/alone", "--json", "--data="+data)
	if code != 0 || !strings.Contains(stdout, `"views": 1`) {
		t.Errorf("query without a server: exit code %d, %s%s", code, stdout, stderr)
	}
	_, reader, err := embedded.Saved(embedded.Config{Dir: (&Settings{Data: data}).path(engineDir)})
	if err != nil {
		t.Fatal(err)
	}
	engine := startCommand(t, "clickhouse", "--data="+data)
	if !strings.Contains(engine.said, reader.Addr) {
		t.Errorf("says %q, not %s", engine.said, reader.Addr)
	}
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{reader.Addr}, Auth: clickhouse.Auth{Username: reader.User, Password: reader.Password, Database: reader.Database},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var views int64
	if err := conn.QueryRow(t.Context(), "SELECT sum(views) FROM page_views").Scan(&views); err != nil || views != 1 {
		t.Errorf("%d views, error %v; want 1", views, err)
	}
	engine.stop()
}

// abort sends a second signal while the first one's stop waits for a request, and expects the process to end at once.
func abort(t *testing.T, p *process) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "POST /api/event HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	eventually(t, 5*time.Second, func() error {
		if _, body := p.get("/healthz", nil); body == "" { // served after the bytes above were
			return fmt.Errorf("no answer")
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	eventually(t, 5*time.Second, func() error {
		if !strings.Contains(p.stderr.String(), "msg=stopping") {
			return fmt.Errorf("not stopping")
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(2 * time.Second); code != -1 {
		t.Errorf("exit code %d after a second signal, want death by it", code)
	}
}

func TestClickHouseForOthersNeedsPassword(t *testing.T) {
	_, stderr, code := pagetally(t, "clickhouse", "--host=0.0.0.0", "--data="+t.TempDir())
	if code != 1 || !strings.Contains(stderr, "password") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestAddressTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	_, stderr, code := pagetally(t, "serve", "--listen="+ln.Addr().String(), "--data="+t.TempDir())
	if code != 1 || !strings.Contains(stderr, "--listen") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestLibraryMissing(t *testing.T) {
	_, stderr, code := pagetally(t, "serve", "--listen=127.0.0.1:0", "--engine-lib=/nonexistent/libchdb.so", "--data="+t.TempDir())
	if code != 1 || !strings.Contains(stderr, "npm ci") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
