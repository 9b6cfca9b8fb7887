package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/pagetally/pagetally/schema"
)

// Whatever a body is, it is answered with a clear 4xx in the dialect's form, counted by reason, stored in no part and not
// logged; and the connection is good for the next one.
func TestBadBodies(t *testing.T) {
	bodies := []struct{ name, body string }{
		{"nothing", ""}, {"space", " "}, {"no fields", "{}"}, {"list", `["a",1]`}, {"null", "null"}, {"number", "123"}, {"text", `"text"`},
		{"cut", `{"n":"pageview","u":"htt`}, {"garbage", "\x00\xff\xfe{"}, {"byte order mark", "\ufeff"}, {"form", "n=pageview&u=x"},
		{"deep lists", strings.Repeat("[", 10_000)}, {"deep closed lists", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)},
		{"deep objects", strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)},
		{"deep field", `{"n":"pageview","site":"example.com","u":` + strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000) + "}"},
		{"fields of the wrong type", `{"n":[],"u":{},"d":7,"site":[],"url":true,"type":7,"payload":[],"hits":7}`},
		{"larger than an event may be", `{"n":"` + strings.Repeat("x", 2*MaxEventBytes) + `"}`},
		{"NUL as a value", `{"n":"\u0000","site":"\u0000","type":"\u0000","payload":"\u0000","hits":"\u0000"}`},
	}
	log := &levelLog{}
	r := newRig(t, func(c *Config) { c.Log = slog.New(log) })
	good := 0
	for _, d := range everyDialect {
		if !d.isJSON {
			continue
		}
		for _, tt := range bodies {
			t.Run(d.name+"/"+tt.name, func(t *testing.T) {
				r.t = t
				method, path, _ := d.send(said{})
				before := r.refusals()
				got := r.do(method, path, []byte(tt.body), append(d.headers, "Content-Type: application/json")...)
				if batch := d.name == "umami batch" && got.status == 200 && strings.Contains(got.body, `"processed":0`); !batch && (got.status < 400 || got.status > 499) {
					t.Errorf("status %d, want a 4xx: %s", got.status, got.body)
				}
				if !json.Valid([]byte(got.body)) || !strings.Contains(got.body, `"error`) {
					t.Errorf("answer %s, want an error in JSON", got.body)
				}
				if r.refusals() == before {
					t.Error("no refusal is counted")
				}
			})
		}
		r.t = t
		if got := r.tell(&d, said{url: "https://example.com/good"}); got.status/100 != 2 || got.header.Get(HeaderReason) != "" {
			t.Errorf("%s: a good one is answered %d %v %s", d.name, got.status, got.header, got.body)
		}
		good++
	}
	if n := len(r.events()); n != good {
		t.Errorf("%d events, want %d", n, good)
	}
	if log.lines > 0 {
		t.Errorf("%d lines are logged, want 0", log.lines)
	}
}

// levelLog counts what is logged, but for what only somebody who looks for faults asks for.
type levelLog struct {
	slog.Handler
	mu    sync.Mutex
	lines int
}

// Enabled takes all.
func (l *levelLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle counts.
func (l *levelLog) Handle(_ context.Context, _ slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	return nil
}

// refusals sums all refused events.
func (r *rig) refusals() (sum int) {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "pagetally_ingest_refused_total" {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}

// URLs of pages that are not on the web, or not on the site's part of it.
func TestBadURLs(t *testing.T) {
	r := newRig(t)
	for _, d := range everyDialect {
		if d.name == "goatcounter API" {
			continue // its paths are paths, and its key vouches for them
		}
		for _, u := range []string{
			"file:///C:/x.html", "about:blank", "data:text/html,x", "chrome-extension://abc/p", "blob:https://example.com/1", "javascript:void(0)",
			"https://", "https:///a", "https://evil.example/", "https://example.com.evil.example/", "https://evilexample.com/", "https://example.com@evil.example/",
			`https://evil.example\@example.com/`, "https://127.0.0.1/", "https://[::1]/a", "https://[2001:db8::1]:8080/a", "https://exa\u0000mple.com/", "ftp://example.com/a",
		} {
			before := r.refusals()
			got := r.tell(&d, said{url: u})
			if got.status >= 500 || r.refusals() == before {
				t.Errorf("%s: %s is answered %d %v, not counted as refused: %.200s", d.name, u, got.status, got.header, got.body)
			}
		}
	}
	for _, e := range r.events() {
		t.Errorf("%s%s is counted", e.Hostname, e.Path)
	}
}

// Odd but good: each is one view of one page, in each dialect.
func TestOddURLs(t *testing.T) {
	tests := []struct{ url, path string }{
		{"https://example.com", "/"}, {"https://EXAMPLE.com:443/a", "/a"}, {"http://www.example.com:8080/a", "/a"}, {"https://example.com./a", "/a"},
		{"https://ann:secret@example.com/private", "/private"}, {"https://example.com//a///b//", "//a///b"}, {"https://example.com/a?b=c#d", "/a"},
		{"https://example.com/%E2%82%AC", "/€"}, {"https://example.com/%2e%2e/%2F", "/../%2F"}, {"https://example.com/100%", "/100%"}, {"https://example.com/a b", "/a b"},
		{"https://example.com/%00", "/%00"}, {"https://example.com/nul\u0000", "/nul%00"}, {"https://example.com/😀", "/😀"},
		{"https://example.com/" + strings.Repeat("é", 2000), "/" + strings.Repeat("é", 1023)},
	}
	for _, d := range everyDialect {
		if d.name == "goatcounter API" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t)
			for _, tt := range tests {
				if len(tt.url) > 2048 && d.name == "goatcounter" {
					tt.url = tt.url[:1000] // whose limit is 2,048 bytes
				}
				if got := r.tell(&d, said{url: tt.url, title: "a\u0000b\xffc", referrer: "https://bob:secret@ref.example/x?token=1#y"}); got.status/100 != 2 {
					t.Errorf("%.60s: %d %s", tt.url, got.status, got.body)
				}
			}
			events := r.events()
			if len(events) != len(tests) {
				t.Fatalf("%d events, want %d", len(events), len(tests))
			}
			for i, e := range events {
				if e.Path != tests[i].path && len(tests[i].url) < 1000 || e.Hostname != "example.com" {
					t.Errorf("%.60s is %s%s, want %.60s", tests[i].url, e.Hostname, e.Path, tests[i].path)
				}
				if e.Title != "ab\uFFFDc" || e.Referrer != "https://ref.example/x" || !utf8.ValidString(e.Path) || len(e.Path) > schema.MaxPathBytes {
					t.Errorf("%.60s: title %q, referrer %q, path of %d bytes", tests[i].url, e.Title, e.Referrer, len(e.Path))
				}
				if strings.Contains(fmt.Sprintf("%+v", e), "secret") || strings.Contains(fmt.Sprintf("%+v", e), "\x00") {
					t.Errorf("user information or a NUL is stored: %+v", e)
				}
			}
		})
	}
}

// An international name is the same site in each of its forms, and an address in brackets is a host like others.
func TestForeignNames(t *testing.T) {
	r := newRig(t, func(c *Config) {
		sites, err := NewSites([]Site{{Domain: "bücher.example"}, {Domain: "[2001:db8::1]"}, {Domain: "192.0.2.80"}}, false)
		if err != nil {
			t.Fatal(err)
		}
		c.Sites = sites
	})
	for _, u := range []string{
		"https://xn--bcher-kva.example/a", "https://bücher.example/a", "https://XN--BCHER-KVA.example:443/a", "https://www.BÜCHER.example/a",
		"https://[2001:db8::1]:8080/a", "http://[2001:DB8::1]/a", "http://192.0.2.80:8080/a",
	} {
		if got := r.beacon(202, fmt.Sprintf(`{"n":"pageview","u":%q}`, u)); got.header.Get(HeaderReason) != "" {
			t.Errorf("%s: %s", u, got.header.Get(HeaderReason))
		}
	}
	count := map[string]int{}
	for _, e := range r.events() {
		count[e.Site+e.Path]++
	}
	if len(count) != 3 || count["bücher.example/a"] != 4 || count["[2001:db8::1]/a"] != 2 || count["192.0.2.80/a"] != 1 {
		t.Errorf("views %v", count)
	}
}

// A flood of rubbish is counted and otherwise passes without a trace.
func TestFloodOfRubbish(t *testing.T) {
	log := &levelLog{}
	r := newRig(t, func(c *Config) { c.Log = slog.New(log) })
	clients, each := 8, 250
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		each = 1250
	}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				req, err := http.NewRequest(http.MethodPost, r.url+"/api/event", bytes.NewReader([]byte(`{"n":`)))
				if err != nil {
					t.Error(err)
					return
				}
				res, err := r.client.Do(req)
				if err != nil || res.StatusCode != 400 {
					t.Errorf("%v, %v", res, err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
	if n := r.refused(BadRequest); n != clients*each {
		t.Errorf("%d refusals are counted, want %d", n, clients*each)
	}
	if log.lines > 0 {
		t.Errorf("%d lines are logged, want 0", log.lines)
	}
}

// Request buffers are used again: in no dialect may an event or an answer hold a part of another request.
func TestDialectsKeepTheirText(t *testing.T) {
	r := newRig(t)
	const clients, each = 50, 28 // each client speaks each dialect four times
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%04d", c*each+i)
				d := &everyDialect[(c+i)%len(everyDialect)]
				s := said{url: "https://example.com/p/" + id, title: strings.Repeat(id, 1+i), referrer: "https://ref.example/" + id}
				if d.name == "goatcounter API" {
					s.url = "/p/" + id
				}
				if got := r.tell(d, s, "User-Agent: "+browser+" Build/"+id); got.status/100 != 2 || got.header.Get(HeaderReason) != "" {
					t.Errorf("%s: %d %v %s", d.name, got.status, got.header, got.body)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, e := range r.events() {
		id := strings.TrimPrefix(e.Path, "/p/")
		seen[id] = true
		if e.Referrer != "https://ref.example/"+id || !strings.HasPrefix(e.Title, id) || strings.ReplaceAll(e.Title, id, "") != "" {
			t.Fatalf("event of %s is mixed up: %+v", id, e)
		}
	}
	if len(seen) != clients*each {
		t.Errorf("%d pages, want %d", len(seen), clients*each)
	}
}
