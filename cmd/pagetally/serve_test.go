package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestServe drives one server through what an operator and a reader do with it.
func TestServe(t *testing.T) {
	p := startServer(t, t.TempDir())

	// At once, while the engine still starts: the journal takes them.
	for range 3 {
		p.send("/hello")
	}
	p.awaitCount("/hello", 3)

	t.Run("health", func(t *testing.T) {
		if status, body := p.get("/healthz", nil); status != http.StatusOK {
			t.Errorf("healthz: %d %s", status, body)
		}
		var ready readiness
		if status, body := p.get("/readyz", &ready); status != http.StatusOK || !ready.Ready {
			t.Errorf("readyz: %d %s", status, body)
		}
		for _, part := range []string{"journal", "clickhouse", "delivery", "salts"} {
			if state, ok := ready.Parts[part]; !ok || !state.Ready {
				t.Errorf("part %s: %+v", part, state)
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		status, body := p.get("/metrics", nil)
		if status != http.StatusOK || !strings.Contains(body, "pagetally_") || !strings.Contains(body, "go_goroutines") {
			t.Errorf("metrics: %d %.300s", status, body)
		}
	})
	t.Run("ledger", func(t *testing.T) {
		eventually(t, 10*time.Second, func() error {
			var ledger struct {
				Accepted, Stored int64
				Balanced         bool
			}
			_, body := p.get("/v1/ledger", &ledger)
			if ledger.Stored != 3 || !ledger.Balanced {
				return fmt.Errorf("ledger is %s", body)
			}
			return nil
		})
	})
	t.Run("no pprof unasked", func(t *testing.T) {
		if status, _ := p.get("/debug/pprof/", nil); status != http.StatusNotFound {
			t.Errorf("status %d, want 404", status)
		}
	})
	t.Run("commands", func(t *testing.T) { testCommands(t, p) })
	t.Run("explain", func(t *testing.T) { testExplain(t, p) })
	t.Run("dialects", func(t *testing.T) { testDialects(t, p) })
	t.Run("returning", func(t *testing.T) { testReturning(t, p) })
	t.Run("odd text", func(t *testing.T) { testOddText(t, p) })
	t.Run("rubbish", func(t *testing.T) { testRubbish(t, p) })
	t.Run("badges", func(t *testing.T) { testBadges(t, p) })
	t.Run("in use", func(t *testing.T) {
		_, stderr, code := pagetally(t, "serve", "--listen=127.0.0.1:0", "--data="+p.data)
		if code != 1 || !strings.Contains(stderr, "in use") {
			t.Errorf("second server: exit code %d, %q", code, stderr)
		}
	})
	p.stop()
}

// TestStopRightAfterEvents: what was acknowledged before SIGTERM is counted once, by this process or the next.
func TestStopRightAfterEvents(t *testing.T) {
	data := t.TempDir()
	p := startServer(t, data)
	const events = 137
	for range events {
		p.send("/stop")
	}
	p.stop()
	p = startServer(t, data)
	p.awaitCount("/stop", events)
	holdIdleAndStop(t, p)
}

// holdIdleAndStop: idle keep-alive connections do not hold up a stop, and requests in flight are answered and counted.
func holdIdleAndStop(t *testing.T, p *process) {
	addr := strings.TrimPrefix(p.url, "http://")
	for range 20 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Fatal(err)
		}
	}
	var flying sync.WaitGroup
	body := view("/flying")
	for range 5 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "POST /api/event HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			addr, browser, len(body), body[:10])
		flying.Go(func() {
			time.Sleep(300 * time.Millisecond)
			if _, err := conn.Write(body[10:]); err != nil {
				t.Errorf("rest of the request: %v", err)
				return
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || response.StatusCode != http.StatusAccepted {
				t.Errorf("request in flight: %v, %v", response, err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // the server has read the first bytes
	p.signal(syscall.SIGTERM)
	flying.Wait()
	if code := p.awaitExit(20 * time.Second); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, p.stderr)
	}
	p = startServer(t, p.data)
	p.awaitCount("/flying", 5)
	p.stop()
}
