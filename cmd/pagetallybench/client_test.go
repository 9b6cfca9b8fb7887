//go:build linux

package main

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// TestLoadCountsExactly: what the server answered is what the client has counted, by kind of answer.
func TestLoadCountsExactly(t *testing.T) {
	var good, without, busy atomic.Int64
	addr := serveTest(t, func(c *fiber.Ctx) error {
		switch n := good.Load() + without.Load() + busy.Load(); {
		case n%7 == 3:
			without.Add(1)
			c.Set("x-plausible-dropped", "1")
			return c.Status(fiber.StatusAccepted).SendString("ok")
		case n%7 == 5:
			busy.Add(1)
			return c.Status(fiber.StatusServiceUnavailable).JSON(fiber.Map{"error": "full"})
		}
		good.Add(1)
		return c.Status(fiber.StatusAccepted).SendString("ok")
	})
	p := plan{addr: addr, connections: 20, threads: 2, during: 300 * time.Millisecond}
	l, err := p.run(t.Context(), newTraffic())
	if err != nil {
		t.Fatal(err)
	}
	got := [4]int64{l.Acknowledged, l.Dropped, l.Refused, l.Unanswered}
	if want := [4]int64{good.Load(), without.Load(), busy.Load(), 0}; got != want || want[0] == 0 || want[1] == 0 || want[2] == 0 {
		t.Errorf("acknowledged, dropped, refused, unanswered are %v, want %v", got, want)
	}
	if l.Latency.TotalCount() != l.Acknowledged {
		t.Errorf("%d latencies of %d acknowledged requests", l.Latency.TotalCount(), l.Acknowledged)
	}
}

func TestLoadOfAFixedNumber(t *testing.T) {
	var served atomic.Int64
	addr := serveTest(t, func(c *fiber.Ctx) error {
		served.Add(1)
		return c.SendStatus(fiber.StatusAccepted)
	})
	p := plan{addr: addr, connections: 16, threads: 3, during: time.Minute, most: 1001}
	l, err := p.run(t.Context(), newTraffic())
	if err != nil || l.Acknowledged != 1001 || served.Load() != 1001 {
		t.Errorf("%d acknowledged, %d served, error %v; want 1001", l.Acknowledged, served.Load(), err)
	}
}

func TestLoadKeepsTheRate(t *testing.T) {
	addr := serveTest(t, func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusAccepted) })
	p := plan{addr: addr, connections: 8, threads: 1, during: 500 * time.Millisecond, rate: 400}
	l, err := p.run(t.Context(), newTraffic())
	if err != nil || l.Acknowledged > 200 || l.Acknowledged < 20 {
		t.Errorf("%d requests in half a second at 400 a second, error %v", l.Acknowledged, err)
	}
}

// TestLoadOfADyingServer: requests that it takes along are reported, for they may be counted or not.
func TestLoadOfADyingServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 5 {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	defer func() { _ = ln.Close() }()
	p := plan{addr: ln.Addr().String(), connections: 5, threads: 1, during: time.Minute}
	if l, err := p.run(t.Context(), newTraffic()); err == nil || l.Unanswered != 5 || l.Acknowledged != 0 {
		t.Errorf("%d unanswered, %d acknowledged, error %v; want 5 and 0 and an error", l.Unanswered, l.Acknowledged, err)
	}
}

func TestParseAnswer(t *testing.T) {
	tests := []struct {
		name, text string
		want       answer
	}{
		{"counted", "HTTP/1.1 202 Accepted\r\nDate: x\r\nContent-Length: 2\r\n\r\nok", acknowledged},
		{"without a body", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", acknowledged},
		{"dropped", "HTTP/1.1 202 Accepted\r\nX-Plausible-Dropped: 1\r\nContent-Length: 2\r\n\r\nok", dropped},
		{"with a reason", "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nX-Pagetally-Reason: bot\r\n\r\nok", dropped},
		{"name in the body", "HTTP/1.1 202 Accepted\r\nContent-Length: 25\r\n\r\n\r\nX-Pagetally-Reason: bot", acknowledged},
		{"full", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull", refused},
		{"bad", "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}", refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := range tt.text {
				if _, complete := parseAnswer([]byte(tt.text[:n])); complete {
					t.Fatalf("complete after %d of %d bytes", n, len(tt.text))
				}
			}
			if got, complete := parseAnswer([]byte(tt.text)); got != tt.want || !complete {
				t.Errorf("got %d, complete %v, want %d", got, complete, tt.want)
			}
		})
	}
}

func serveTest(t *testing.T, handler fiber.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/api/event", handler)
	done := make(chan error, 1)
	go func() { done <- app.Listener(ln) }()
	t.Cleanup(func() {
		_ = app.Shutdown()
		<-done
	})
	return ln.Addr().String()
}
