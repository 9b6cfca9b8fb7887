package ingest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// dial opens a connection of its own to the rig's server.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	return conn
}

// raw sends bytes and returns the statuses of all answers, and whether the server closed the connection after them.
func (r *rig) raw(send string) (statuses []int, closed bool) {
	r.t.Helper()
	conn := r.dial()
	go func() { _, _ = io.WriteString(conn, send) }()
	in := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses, !os.IsTimeout(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		statuses = append(statuses, res.StatusCode)
	}
}

const beaconHeaders = "Host: example.com\r\nUser-Agent: " + browser + "\r\n"

// post11 is a beacon for a path over HTTP/1.1 as it is on the wire.
func post11(path string, headers ...string) string {
	body := fmt.Sprintf(`{"n":"pageview","u":"https://example.com%s","d":"example.com"}`, path)
	return "POST /api/event HTTP/1.1\r\n" + beaconHeaders + strings.Join(headers, "") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
}

// chunkedPost is a beacon whose body comes in chunks of a few bytes.
func chunkedPost(path string, headers ...string) string {
	body := fmt.Sprintf(`{"n":"pageview","u":"https://example.com%s","d":"example.com"}`, path)
	var b strings.Builder
	b.WriteString("POST /api/event HTTP/1.1\r\n" + beaconHeaders + strings.Join(headers, "") + "Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(7, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// Where a request ends must be plain: what stands behind it is a request of its own or is not looked at, but never a second
// request that somebody smuggled in behind a proxy.
func TestWhereARequestEnds(t *testing.T) {
	smuggled := post11("/smuggled")
	good := post11("/good")
	body := `{"n":"pageview","u":"https://example.com/good","d":"example.com"}`
	start := "POST /api/event HTTP/1.1\r\n" + beaconHeaders
	tests := []struct {
		name, send string
		statuses   string
		counted    int // of /good; /smuggled never counts
		closed     bool
	}{
		{"one", good, "[202]", 1, false},
		{"pipelined", good + good + good, "[202 202 202]", 3, false},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), "[202]", 1, true},
		{"HTTP/1.0 kept alive", strings.Replace(post11("/good", "Connection: keep-alive\r\n"), "HTTP/1.1", "HTTP/1.0", 1) + good, "[202 202]", 2, false},
		{"chunks", chunkedPost("/good"), "[202]", 1, true},
		{"bytes behind chunks", chunkedPost("/good") + smuggled, "[202]", 1, true},
		{"length and chunks", chunkedPost("/bad", "Content-Length: 5\r\n") + smuggled, "[400]", 0, true},
		{"chunks and length", start + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n", len(smuggled)) + smuggled, "[400]", 0, true},
		{"two lengths", post11("/bad", "Content-Length: 3\r\n") + smuggled, "[400]", 0, true},
		{"one length twice", start + fmt.Sprintf("Content-Length: %[1]d\r\nContent-Length: %[1]d\r\n\r\n%s", len(body), body), "[400]", 0, true},
		{"list of lengths", start + fmt.Sprintf("Content-Length: %[1]d, %[1]d\r\n\r\n%s", len(body), body), "[400]", 0, true},
		{"signed length", start + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(body), body), "[400]", 0, true},
		{"negative length", start + "Content-Length: -1\r\n\r\n" + smuggled, "[400]", 0, true},
		{"huge length", start + "Content-Length: 99999999999999999999\r\n\r\n" + smuggled, "[400]", 0, true},
		{"other coding", start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"hidden coding", start + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"two codings", chunkedPost("/bad", "Transfer-Encoding: identity\r\n") + smuggled, "[400]", 0, true},
		{"identity and length", post11("/bad", "Transfer-Encoding: identity\r\n") + smuggled, "[400]", 0, true},
		{"space before colon", post11("/bad", "Transfer-Encoding : chunked\r\n") + smuggled, "[400]", 0, true},
		{"folded line", post11("/bad", "X-A: b\r\n Content-Length: 3\r\n") + smuggled, "[400]", 0, true},
		{"folded with tab", post11("/bad", "X-A: b\r\n\tc\r\n") + smuggled, "[400]", 0, true},
		{"NUL in a value", post11("/bad", "X-A: b\x00c\r\n") + smuggled, "[400]", 0, true},
		{"NUL in a name", post11("/bad", "X\x00A: b\r\n") + smuggled, "[400]", 0, true},
		{"bare carriage return", post11("/bad", "X-A: b\rContent-Length: 3\r\n") + smuggled, "[400]", 0, true},
		{"two hosts", post11("/bad", "Host: other.example\r\n") + smuggled, "[400]", 0, true},
		{"chunk size of letters", start + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"negative chunk", start + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"huge chunk", start + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"large chunk", start + "Transfer-Encoding: chunked\r\n\r\n7fffffff\r\nabc\r\n0\r\n\r\n" + smuggled, "[413]", 0, true},
		{"chunk longer than its size", start + "Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"line feed in a chunk extension", start + "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n" + smuggled, "[400]", 0, true},
		{"body of a GET", strings.Replace(smuggled, "POST", "GET", 1) + good, "[405 202]", 1, false},
		{"body of a GET that is a request", "GET /api/health HTTP/1.1\r\nHost: a\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled, "[200]", 0, false},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", "[400]", 0, true},
		{"no such version", "POST /api/event HTTP/9.9\r\n\r\n" + smuggled, "[400]", 0, true},
		{"headers over 16 KiB", post11("/bad", "X-A: "+strings.Repeat("x", 20<<10)+"\r\n"), "[431]", 0, true},
	}
	r := newRig(t)
	counted := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			statuses, closed := r.raw(tt.send)
			if got := fmt.Sprint(statuses); got != tt.statuses || closed != tt.closed {
				t.Errorf("answers %s, closed %t; want %s, %t", got, closed, tt.statuses, tt.closed)
			}
		})
		counted += tt.counted
	}
	r.t = t
	for _, e := range r.events() {
		if e.Path != "/good" {
			t.Errorf("%s is counted", e.Path)
			continue
		}
		counted--
	}
	if counted != 0 {
		t.Errorf("%d views are missing", counted)
	}
}

// A body that is refused before it is read must not hide the answer behind a reset.
func TestTooLargeIsSeen(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("needs curl")
	}
	r := newRig(t)
	file := t.TempDir() + "/body"
	for size, runs := range map[int]int{100 << 10: 2, 5 << 20: 10, 20 << 20: 2} {
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/api/event", "/v1/events"} {
			if size < MaxBatchBytes && path == "/v1/events" {
				continue
			}
			for _, header := range []string{"Expect: 100-continue", "Expect:", "Transfer-Encoding: chunked"} {
				for range runs {
					out, err := exec.Command(curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", header, "-H", "User-Agent: "+browser,
						"--data-binary", "@"+file, "-H", "Content-Type: application/json", r.url+path).CombinedOutput()
					if string(out) != "413" || err != nil {
						t.Fatalf("%d bytes to %s with %q: curl says %s, %v", size, path, header, out, err)
					}
				}
			}
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}

func TestExpectContinue(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	request := post11("/good", "Expect: 100-continue\r\n")
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	_, _ = io.WriteString(conn, head+"\r\n\r\n")
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("first answer %q, %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(conn, body)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 202 {
		t.Fatalf("second answer %v, %v", res, err)
	}
	if e := r.only(); e.Path != "/good" {
		t.Errorf("event %+v", e)
	}
}

// Clients that send a byte now and then hold neither workers nor memory for long, and nobody else notices.
func TestSlowClients(t *testing.T) {
	const slow, normal = 500, 200
	readTimeout, pause := time.Second, 300*time.Millisecond
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		readTimeout, pause = FiberConfig().ReadTimeout, 10*time.Second
	}
	r := newRigWith(t, readTimeout)
	closed := make(chan time.Duration, slow)
	var wg sync.WaitGroup
	begin := time.Now()
	for range slow {
		conn := r.dial()
		_ = conn.SetDeadline(begin.Add(time.Minute))
		wg.Go(func() {
			request := post11("/slow")
			go func() {
				for i := range len(request) {
					if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
						return
					}
					time.Sleep(pause)
				}
			}()
			_, _ = io.Copy(io.Discard, conn)
			closed <- time.Since(begin)
		})
	}
	longest := time.Duration(0)
	for i := range normal {
		sent := time.Now()
		r.beacon(202, fmt.Sprintf(`{"n":"pageview","u":"https://example.com/%d","d":"example.com"}`, i))
		longest = max(longest, time.Since(sent))
		time.Sleep(2 * time.Millisecond)
	}
	wg.Wait()
	close(closed)
	for d := range closed {
		if d > readTimeout+5*time.Second {
			t.Fatalf("a slow client was closed after %s, the read timeout is %s", d, readTimeout)
		}
	}
	if longest > time.Second {
		t.Errorf("a normal beacon took %s", longest)
	}
	if n := len(r.events()); n != normal {
		t.Errorf("%d events, want %d", n, normal)
	}
}

// What large bodies may hold together is bounded, and who finds nothing left is told to come again.
func TestBodiesShareMemory(t *testing.T) {
	r := newRig(t)
	const head = "POST /v1/events HTTP/1.1\r\n" + beaconHeaders + "Content-Length: 16777216\r\n\r\n["
	const room = maxBodyMemory / MaxBatchBytes
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var conns []net.Conn
	for range room {
		conn := r.dial()
		_, _ = io.WriteString(conn, head)
		conns = append(conns, conn)
	}
	next := func() int {
		res, err := http.ReadResponse(bufio.NewReader(func() net.Conn {
			conn := r.dial()
			_, _ = io.WriteString(conn, head)
			_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			return conn
		}()), nil)
		if err != nil {
			return 0 // it waits for the rest of the body
		}
		return res.StatusCode
	}
	refused := false
	for range 20 {
		refused = refused || next() == 503
	}
	if !refused {
		t.Error("there is always room for another large body")
	}
	r.beacon(202, plain)
	for _, conn := range conns {
		_ = conn.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	for next() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("closed connections give no room back")
		}
	}
	runtime.ReadMemStats(&after)
	if sys := int64(after.Sys) - int64(before.Sys); sys > 3*maxBodyMemory {
		t.Errorf("%d MiB more from the system", sys>>20)
	}
}

// Idle connections cost little and harm nobody.
func TestManyConnections(t *testing.T) {
	r := newRig(t)
	for range 1000 {
		conn := r.dial()
		_, _ = io.WriteString(conn, "GET /api/health HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	for range 100 {
		r.beacon(202, plain)
	}
}

func BenchmarkShapeOf(b *testing.B) {
	var header fasthttp.RequestHeader
	request := post11("/a", "Accept: */*\r\nAccept-Language: en-US,en;q=0.9\r\nAccept-Encoding: gzip, deflate, br\r\nContent-Type: text/plain\r\nOrigin: https://example.com\r\nReferer: https://example.com/\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Site: cross-site\r\nConnection: keep-alive\r\n")
	if err := header.Read(bufio.NewReader(strings.NewReader(request))); err != nil {
		b.Fatal(err)
	}
	bodies := newBodyBudget(maxBodyMemory)
	b.ReportAllocs()
	for b.Loop() {
		bodies.admit(&header)
		if s := shapeOf(&header); s.problem != "" {
			b.Fatal(s.problem)
		}
		bodies.release(&header)
	}
}
