package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gofiber/fiber/v2"
)

// benchTime is how long each number of connections is loaded.
const benchTime = 10 * time.Second

// serveBare is the yardstick: a Fiber app that answers 202 to everything and does nothing.
func serveBare(ctx context.Context) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/api/event", func(c *fiber.Ctx) error { return c.Status(fiber.StatusAccepted).SendString("ok") })
	context.AfterFunc(ctx, func() { _ = app.Shutdown() })
	fmt.Printf("bare server listens on http://%s and counts nothing\n", ln.Addr())
	if err := app.Listener(ln); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// BenchmarkServe loads the real binary with page views over 64, 256 and 512 connections, the embedded engine and delivery
// on the same cores, beside a bare server loaded the same way. It reports requests/s, the ratio, latencies, memory, and
// what was lost, which must be nothing. Run it with -benchtime 1x.
func BenchmarkServe(b *testing.B) {
	bare := startRole(b, "bare")
	p := startServer(b, b.TempDir())
	p.send("/warm-up")
	p.awaitCount("/warm-up", 1)
	var sent int64
	for _, conns := range []int{64, 256, 512} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			for range b.N {
				floor := load(b, bare.url, conns, benchTime/2)
				got := load(b, p.url, conns, benchTime)
				sent += got.accepted
				b.ReportMetric(got.rate(), "req/s")
				b.ReportMetric(floor.rate(), "bare-req/s")
				b.ReportMetric(got.rate()/floor.rate(), "of-bare")
				b.ReportMetric(got.quantile(50), "p50-ms")
				b.ReportMetric(got.quantile(99), "p99-ms")
				b.ReportMetric(residentMiB(b, p.cmd.Process.Pid), "MiB")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	b.Run("drained", func(b *testing.B) {
		started := time.Now()
		counted := awaitTotal(b, p, sent)
		b.ReportMetric(float64(sent-counted), "lost")
		b.ReportMetric(time.Since(started).Seconds(), "s-to-drain")
		b.ReportMetric(0, "ns/op")
		if counted != sent {
			b.Errorf("%d views acknowledged, %d counted", sent, counted)
		}
	})
	b.Run("visible", func(b *testing.B) { benchmarkVisible(b, p) })
}

// benchmarkVisible measures from the acknowledgement of a view to its first appearance in an exact count, at 50 views/s.
func benchmarkVisible(b *testing.B, p *process) {
	latency := hdrhistogram.New(1, 60_000, 3)
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			p.send("/background")
		}
	})
	for i := range 20 {
		path := fmt.Sprintf("/visible/%d", i)
		p.send(path)
		sent := time.Now()
		p.awaitCount(path, 1)
		_ = latency.RecordValue(time.Since(sent).Milliseconds())
	}
	cancel()
	background.Wait()
	b.ReportMetric(float64(latency.ValueAtQuantile(50)), "p50-ms")
	b.ReportMetric(float64(latency.ValueAtQuantile(99)), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// awaitTotal waits until the views of the loaded pages stand at want or stop rising.
func awaitTotal(b *testing.B, p *process, want int64) int64 {
	b.Helper()
	var last int64
	changed := time.Now()
	for {
		var total struct {
			Results struct{ Views struct{ Value int64 } }
		}
		if status, body := p.get("/v1/totals?site=bench.example.com&period=all", &total); status != 200 {
			b.Fatalf("totals: %d %s", status, body)
		}
		if now := total.Results.Views.Value; now != last {
			last, changed = now, time.Now()
		}
		if last >= want || time.Since(changed) > 30*time.Second {
			return last
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// loaded is the outcome of a load.
type loaded struct {
	accepted int64
	took     time.Duration
	latency  *hdrhistogram.Histogram // microseconds
}

func (l loaded) rate() float64 { return float64(l.accepted) / l.took.Seconds() }

func (l loaded) quantile(q float64) float64 { return float64(l.latency.ValueAtQuantile(q)) / 1000 }

// load posts page views of 200 pages from conns connections, each with one request in flight, for the given time.
func load(b *testing.B, url string, conns int, during time.Duration) loaded {
	b.Helper()
	addr := strings.TrimPrefix(url, "http://")
	total := loaded{latency: hdrhistogram.New(1, 60_000_000, 3)}
	var mu sync.Mutex
	var clients sync.WaitGroup
	started := time.Now()
	for c := range conns {
		clients.Go(func() {
			accepted, latency, err := loadConn(addr, c, started.Add(during))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Errorf("connection %d: %v", c, err)
			}
			total.accepted += accepted
			total.latency.Merge(latency)
		})
	}
	clients.Wait()
	total.took = time.Since(started)
	return total
}

func loadConn(addr string, id int, until time.Time) (accepted int64, latency *hdrhistogram.Histogram, err error) {
	latency = hdrhistogram.New(1, 60_000_000, 2)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, latency, err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 4096)
	requests := loadRequests(addr, id)
	for i := 0; ; i++ {
		sent := time.Now()
		if sent.After(until) {
			return accepted, latency, nil
		}
		if _, err := conn.Write(requests[i%len(requests)]); err != nil {
			return accepted, latency, err
		}
		if err := readAccepted(in); err != nil {
			return accepted, latency, err
		}
		accepted++
		_ = latency.RecordValue(time.Since(sent).Microseconds())
	}
}

// loadRequests makes the requests of a connection once, so that the client costs the shared cores little.
func loadRequests(addr string, id int) [][]byte {
	requests := make([][]byte, 20)
	for i := range requests {
		body := fmt.Sprintf(`{"n":"pageview","u":"https://bench.example.com/page/%d?utm_source=news","d":"bench.example.com","r":"https://search.example/"}`, (id*20+i)%200)
		requests[i] = fmt.Appendf(nil, "POST /api/event HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
			addr, browser, len(body), body)
	}
	return requests
}

// readAccepted reads one response and fails unless it acknowledges the view as counted.
func readAccepted(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 202")) {
		return fmt.Errorf("answered %q", bytes.TrimSpace(status))
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			_, err := in.Discard(length)
			return err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		case bytes.EqualFold(name, []byte("X-Pagetally-Reason")):
			return fmt.Errorf("dropped: %s", value)
		}
	}
}

// residentMiB is the resident memory of a process.
func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
