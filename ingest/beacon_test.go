package ingest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// exchange sends a request as it is on the wire and returns the answer.
func (r *rig) exchange(send string) *http.Response {
	r.t.Helper()
	conn := r.dial()
	if _, err := io.WriteString(conn, send); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

// Who has no agent may leave the header out, or leave it empty.
func TestBeaconsWithoutAgent(t *testing.T) {
	r := newRig(t)
	const named = "User-Agent: " + browser + "\r\n"
	for i, line := range []string{"", "User-Agent:\r\n", "User-Agent: \r\n", "User-Agent: \t \r\n", "User-Agent: -\r\n", "user-agent:\r\n"} {
		res := r.exchange(strings.Replace(post11("/a"), named, line, 1))
		if res.StatusCode != 202 || res.Header.Get(HeaderReason) != string(NoAgent) || res.Header.Get(HeaderDropped) != "1" {
			t.Errorf("%q: %d %v, want 202 and a drop", line, res.StatusCode, res.Header)
		}
		if n := r.refused(NoAgent); n != i+1 {
			t.Errorf("%q: %d are counted without agent, want %d", line, n, i+1)
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}

// Beacons of every dialect travel with credentials and may be preflighted: no reply may keep the page's browser from sending.
func TestOriginsInEachDialect(t *testing.T) {
	r := newRig(t)
	const origin = "https://www.example.com"
	for _, d := range everyDialect {
		method, path, _ := d.send(said{url: "https://example.com/a"})
		if method != http.MethodPost {
			continue // an image needs no leave
		}
		got := r.do(http.MethodOptions, path, nil, "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
		if got.status/100 != 2 || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "content-type") || !strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("%s: preflight %d %v", d.name, got.status, got.header)
		}
		checkReadable(t, d.name+", preflight", got, origin)
		checkReadable(t, d.name, r.do(method, path, []byte(`{"cut`), append(d.headers, "Origin: "+origin)...), origin)
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}

func checkReadable(t *testing.T, what string, got reply, origin string) {
	t.Helper()
	for name, want := range map[string]string{"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", "Vary": "Origin"} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s: %s is %q, want %q", what, name, value, want)
		}
	}
}

// What link checkers and the curious send to the endpoints is no view.
func TestProbesAreNoViews(t *testing.T) {
	r := newRig(t)
	for _, d := range everyDialect {
		_, path, body := d.send(said{url: "https://example.com/a"})
		for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			got := r.do(method, path, []byte(body), d.headers...)
			if got.status != 405 && (method != http.MethodHead || got.status != 200) {
				t.Errorf("%s: %s is answered %d", d.name, method, got.status)
			}
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}

// A small body that opens to a large one is refused before it is large.
func TestBombsTakeNoMemory(t *testing.T) {
	r := newRig(t)
	const opened = 64 << 20
	spaces := bytes.Repeat([]byte(" "), opened)
	for encoding, bomb := range map[string][]byte{"gzip": gzipped(t, spaces), "zstd": zstded(t, spaces)} {
		for _, path := range []string{"/api/event", "/api/send"} {
			const times = 10
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				if got := r.do(http.MethodPost, path, bomb, "Content-Encoding: "+encoding); got.status != 413 {
					t.Fatalf("%s to %s: %d %s, want 413", encoding, path, got.status, got.body)
				}
			}
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > times*opened/4 {
				t.Errorf("%s to %s: %d bombs of %d bytes allocated %d MiB", encoding, path, times, len(bomb), grown>>20)
			}
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}
