package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// beacon posts a body as a browser does, with the connection's own client, and returns status and reason.
func (p *process) beacon(body string) (status int, reason string, err error) {
	request, err := http.NewRequest(http.MethodPost, p.url+"/api/event", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("User-Agent", browser)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, response.Header.Get("X-Pagetally-Reason"), nil
}

// mustBeacon posts a body that must count.
func (p *process) mustBeacon(t *testing.T, body string) {
	t.Helper()
	if status, reason, err := p.beacon(body); status != http.StatusAccepted || reason != "" || err != nil {
		t.Fatalf("%s: %d %s, %v", body, status, reason, err)
	}
}

// testOddText follows texts that are no text, and a clock that is wrong by decades, from the beacon to the reader.
func testOddText(t *testing.T, p *process) {
	const site = "odd.example"
	view := func(path, more string) string {
		return `{"name":"pageview","domain":"` + site + `","url":"https://` + site + path + `",` + more + `}`
	}
	p.mustBeacon(t, view("/utf8", "\"title\":\"caf\xffx\""))
	p.mustBeacon(t, view("/nul", `"title":"a\u0000b","referrer":"https://ref.example/\u0000","p":{"k\u0000":"v\u0000"}`))
	p.mustBeacon(t, view("/%FF%00", "\"title\":\"\xc3\x28\""))
	p.mustBeacon(t, view("/future", `"ts":4070908800000`))
	p.awaitSite(t, site, 4)

	for dimension, want := range map[string][]string{
		"title": {"(not set)", "ab", "caf\uFFFDx", "\uFFFD("},
		"path":  {"/%FF%00", "/future", "/nul", "/utf8"},
	} {
		_, body := p.get("/v1/top?metrics=views&site="+site+"&dimension="+dimension, nil)
		var answer struct{ Results []map[string]any }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || !utf8.ValidString(body) || strings.ContainsRune(body, 0) || strings.Contains(body, `\u0000`) {
			t.Fatalf("%s: %v in %q", dimension, err, body)
		}
		var got []string
		for _, r := range answer.Results {
			got = append(got, fmt.Sprint(r[dimension]))
			if r["views"] != 1.0 {
				t.Errorf("%s: %v, want 1 view", dimension, r)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dimension, got, want)
		}
	}
	conn, err := connect(t.Context(), &Settings{Data: p.data, ClickHouse: embeddedEngine})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var rows, ahead, flagged, nuls uint64
	const sql = `SELECT count(), countIf(ts > now64()), countIf(flags != 0), countIf(position(concat(title, referrer, path, toString(props)), char(0)) > 0) FROM events WHERE site = ?`
	if err := conn.QueryRow(t.Context(), sql, site).Scan(&rows, &ahead, &flagged, &nuls); err != nil {
		t.Fatal(err)
	}
	if rows != 4 || ahead != 0 || flagged != 1 || nuls != 0 {
		t.Errorf("%d rows, %d ahead, %d flagged, %d with a NUL, want 4, 0, 1, 0", rows, ahead, flagged, nuls)
	}
}

// awaitSite waits until a site has that many views; more fail at once.
func (p *process) awaitSite(t *testing.T, site string, want int64) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		var count struct{ Views int64 }
		status, body := p.get("/v1/count?site="+site, nil)
		if err := json.Unmarshal([]byte(body), &count); err != nil || status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		if count.Views > want {
			t.Fatalf("%s has %d views, want %d", site, count.Views, want)
		}
		if count.Views < want {
			return fmt.Errorf("%s has %d views, want %d", site, count.Views, want)
		}
		return nil
	})
}

// testRubbish floods the server with what is no event and no HTTP: all is answered and counted, and the log stays as it is.
func testRubbish(t *testing.T, p *process) {
	const clients = 8
	each := 100
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		each = 1250
	}
	before, refused := p.stderr.String(), p.refusals(t)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if (c+i)%10 == 0 {
					speakNoHTTP(t, strings.TrimPrefix(p.url, "http://"))
					continue
				}
				if status, _, err := p.beacon([]string{`{"n":`, ``, `[]`, `{"u":7}`, "\x00\xff"}[i%5]); status != http.StatusBadRequest || err != nil {
					t.Errorf("rubbish is answered %d, %v", status, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := p.refusals(t)-refused, float64(clients*each*9/10); got != want {
		t.Errorf("%g refusals are counted, want %g", got, want)
	}
	if more := strings.TrimPrefix(p.stderr.String(), before); more != "" {
		t.Errorf("the log grows by %d bytes: %.1000s", len(more), more)
	}
}

// speakNoHTTP sends what a TLS client does, or half a request, and hangs up.
func speakNoHTTP(t *testing.T, address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// refusals sums what was refused for being no event.
func (p *process) refusals(t *testing.T) (sum float64) {
	t.Helper()
	_, body := p.get("/metrics", nil)
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "pagetally_ingest_refused_total{") &&
			(strings.Contains(name, `reason="bad_request"`) || strings.Contains(name, `reason="bad_field"`)) {
			var n float64
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestRepeatedBeacon: a browser that does not know whether its beacon arrived sends it again, at once and some time later.
func TestRepeatedBeacon(t *testing.T) {
	later := time.Second
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		later = 10 * time.Minute
	}
	p := startServer(t, t.TempDir())
	const body = `{"name":"pageview","domain":"example.com","url":"https://example.com/once","id":"a1b2"}`
	p.mustBeacon(t, body)
	time.Sleep(300 * time.Millisecond)
	p.mustBeacon(t, body)
	p.awaitCount("/once", 1)
	p.awaitNothingPending()
	time.Sleep(later)
	p.mustBeacon(t, body)
	p.awaitNothingPending()
	p.awaitCount("/once", 1)
	var ledger struct{ Stored, Duplicate int64 }
	if _, text := p.get("/v1/ledger", &ledger); ledger.Stored != 1 || ledger.Duplicate != 2 {
		t.Errorf("ledger %s, want 1 stored and 2 duplicates", text)
	}
	p.stop()
}
