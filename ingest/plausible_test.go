package ingest

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/pagetally/pagetally/schema"
)

func TestPlausibleEvent(t *testing.T) {
	tests := []struct {
		name, body string
		want       func(*schema.Event) // what differs from a bare page view of example.com/
	}{
		{"short keys", `{"n":"pageview","u":"https://example.com/a","d":"example.com","r":"https://www.Ref.example/x?y#z","v":24}`, func(e *schema.Event) {
			e.Path, e.Referrer, e.Source, e.Channel = "/a", "https://www.Ref.example/x", "ref.example", "Referral"
		}},
		{"long keys", `{"name":"Sign up","url":"https://www.example.com/a/","domain":" example.com ","referrer":null}`, func(e *schema.Event) {
			e.Name, e.Path = "Sign up", "/a"
		}},
		{"number as name", `{"n":404,"u":"https://example.com/","d":"example.com"}`, func(e *schema.Event) { e.Name = "404" }},
		{"site of the host", `{"n":"pageview","u":"https://blog.example.com/"}`, func(e *schema.Event) { e.Hostname = "blog.example.com" }},
		{"referrer of the same host", `{"n":"pageview","u":"https://example.com/","d":"example.com","r":"https://www.example.com/b"}`, nil},
		{"path only", `{"n":"pageview","u":"/x","d":"example.com"}`, func(e *schema.Event) { e.Hostname, e.Path = "", "/x" }},
		{"hash mode", `{"n":"pageview","u":"https://example.com/#/about?x=1","d":"example.com","h":1}`, func(e *schema.Event) { e.Path = "/#/about" }},
		{"not interactive", `{"n":"tick","u":"https://example.com/","d":"example.com","i":false}`, func(e *schema.Event) {
			e.Name, e.Flags = "tick", schema.FlagNonInteractive
		}},
		{"engagement", `{"n":"engagement","u":"https://example.com/","d":"example.com","sd":130,"e":4200}`, func(e *schema.Event) {
			e.Name, e.Scroll, e.EngagedMS = "engagement", 100, 4200
		}},
		{"engagement of a month", `{"n":"engagement","u":"https://example.com/","d":"example.com","sd":7,"e":2592000000}`, func(e *schema.Event) {
			e.Name, e.Scroll = "engagement", 7
		}},
		{"props", `{"n":"x","u":"https://example.com/","d":"example.com","p":{"a":"1","b":2.50,"c":true,"d":null,"e":[1],"f":{},"g":"","big":9007199254740993}}`, func(e *schema.Event) {
			e.Name, e.Props = "x", []schema.Prop{{Key: "a", Value: "1"}, {Key: "b", Value: "2.50"}, {Key: "c", Value: "true"}, {Key: "big", Value: "9007199254740993"}}
		}},
		{"props as text, meta first", `{"n":"x","u":"https://example.com/","d":"example.com","p":{"no":"1"},"m":"{\"a\":\"q\\\"\"}"}`, func(e *schema.Event) {
			e.Name, e.Props = "x", []schema.Prop{{Key: "a", Value: `q"`}}
		}},
		{"id and title", `{"n":"pageview","u":"https://example.com/","d":"example.com","id":"e-1","title":"A \u0000\ud83d\ude00 title"}`, func(e *schema.Event) {
			e.EventID, e.Title = "e-1", "A 😀 title"
		}},
		{"the last of a repeated key", `{"n":"pageview","u":"https://example.com/a","u":"https://example.com/b","d":"example.com"}`, func(e *schema.Event) { e.Path = "/b" }},
		{"user information", `{"n":"pageview","u":"https://me:secret@example.com/","d":"example.com","r":"https://you:secret@ref.example/"}`, func(e *schema.Event) {
			e.Referrer, e.Source, e.Channel = "https://ref.example/", "ref.example", "Referral"
		}},
		{"app", `{"n":"pageview","u":"https://example.com/","d":"example.com","r":"android-app://com.example.reader/"}`, func(e *schema.Event) {
			e.Referrer, e.Source, e.Channel = "android-app://com.example.reader/", "com.example.reader", "Referral"
		}},
		{"campaign", `{"n":"pageview","u":"https://example.com/lp?UTM_SOURCE=Foo+Bar&utm_medium=a%2Bb&utm_campaign=P%C5%99&utm_term=t&utm_content=c&ref=no","d":"example.com"}`, func(e *schema.Event) {
			e.Path, e.Source, e.UTMSource, e.UTMMedium, e.UTMCampaign, e.UTMTerm, e.UTMContent, e.Channel = "/lp", "Foo Bar", "Foo Bar", "a+b", "Př", "t", "c", "Unassigned"
		}},
		{"click id", `{"n":"pageview","u":"https://example.com/?gclid=1","d":"example.com","r":"https://www.google.com/"}`, func(e *schema.Event) {
			e.Referrer, e.Source, e.UTMMedium, e.Channel = "https://www.google.com/", "Google", "(gclid)", "Paid Search"
		}},
		{"IDN and port", `{"n":"pageview","u":"https://XN--BCHER-KVA.example:443/a","d":"BÜCHER.example"}`, func(e *schema.Event) {
			e.Site, e.Hostname, e.Path = "bücher.example", "xn--bcher-kva.example", "/a"
		}},
		{"width of the window", `{"n":"pageview","u":"https://example.com/","d":"example.com","w":390}`, func(e *schema.Event) { e.Screen = "Mobile" }},
		{"byte order mark", "\ufeff" + `{"n":"pageview","u":"https://example.com/","d":"example.com"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			got := r.beacon(http.StatusAccepted, tt.body, "Content-Type: text/plain;charset=UTF-8", "Accept-Language: en-us,en;q=0.9")
			if got.body != "ok" || got.header.Get(HeaderDropped) != "" || got.header.Get(HeaderReason) != "" {
				t.Errorf("got %q with %v, want ok and no drop", got.body, got.header)
			}
			want := schema.Event{
				Site: "example.com", Name: "pageview", Hostname: "example.com", Path: "/", N: 1, Scroll: schema.NoScroll, Channel: "Direct",
				Browser: "Chrome", BrowserVersion: "126.0", OS: "Windows", OSVersion: "10", Device: "Desktop", Language: "en-US",
			}
			if tt.want != nil {
				tt.want(&want)
			}
			event := r.only()
			if event.Visitor == 0 || event.TS == 0 || event.TS != event.ReceivedAt {
				t.Errorf("visitor %d, ts %d, received at %d", event.Visitor, event.TS, event.ReceivedAt)
			}
			want.PathKey, want.Visitor, want.TS, want.ReceivedAt = want.Path, event.Visitor, event.TS, event.ReceivedAt
			if diff := cmp.Diff(want, event); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlausibleRefusals(t *testing.T) {
	const good = `{"n":"pageview","u":"https://example.com/","d":"example.com"}`
	long := strings.Repeat("x", 2001)
	tests := []struct {
		name, body string
		headers    []string
		status     int
		reason     Reason
		field      string // of a 400
	}{
		{"empty", "", nil, 400, BadRequest, "request"},
		{"space", " ", nil, 400, BadRequest, "request"},
		{"no fields", "{}", nil, 400, BadField, "url"},
		{"array", `["a",1]`, nil, 400, BadRequest, "request"},
		{"null", "null", nil, 400, BadRequest, "request"},
		{"number", "123", nil, 400, BadRequest, "request"},
		{"text", `"text"`, nil, 400, BadRequest, "request"},
		{"deep", strings.Repeat("[", 30000), nil, 400, BadRequest, "request"},
		{"url is a number", `{"n":"pageview","u":7,"d":"example.com"}`, nil, 400, BadField, "url"},
		{"no host", `{"n":"pageview","u":"https:///a","d":"example.com"}`, nil, 400, BadField, "url"},
		{"blank domain", `{"n":"pageview","u":"https://example.com/","d":" , "}`, nil, 400, BadField, "domain"},
		{"no name", `{"u":"https://example.com/","d":"example.com"}`, nil, 400, BadField, "event_name"},
		{"long name", `{"n":"` + long + `","u":"https://example.com/","d":"example.com"}`, nil, 400, BadField, "event_name"},
		{"engagement of nothing", `{"n":"engagement","u":"https://example.com/","d":"example.com"}`, nil, 400, BadField, "event_name"},
		{"props are a list", `{"n":"x","u":"https://example.com/","d":"example.com","p":[1]}`, nil, 400, BadField, "props"},
		{"long prop", `{"n":"x","u":"https://example.com/","d":"example.com","p":{"a":"` + long + `"}}`, nil, 400, BadField, "props"},
		{"empty id", `{"n":"x","u":"https://example.com/","d":"example.com","id":""}`, nil, 400, BadField, "id"},
		{"data URL", `{"n":"pageview","u":"data:text/html,x","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"file URL", `{"n":"pageview","u":"file:///C:/x.html","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"about", `{"n":"pageview","u":"about:blank","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"blob", `{"n":"pageview","u":"blob:https://example.com/1","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"extension", `{"n":"pageview","u":"chrome-extension://abc/p","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"script", `{"n":"pageview","u":"javascript:void(0)","d":"example.com"}`, nil, 400, Scheme, "url"},
		{"large", `{"n":"` + strings.Repeat("x", MaxEventBytes) + `"}`, nil, 413, TooLarge, ""},
		{"unknown site", `{"n":"pageview","u":"https://other.example/","d":"other.example"}`, nil, 202, UnknownSite, ""},
		{"foreign host", `{"n":"pageview","u":"https://evilexample.com/","d":"example.com"}`, nil, 202, ForeignHost, ""},
		{"foreign origin", good, []string{"Origin: https://evil.example"}, 202, ForeignOrigin, ""},
		{"no agent", good, []string{"User-Agent: "}, 202, NoAgent, ""},
		{"dash agent", good, []string{"User-Agent: -"}, 202, NoAgent, ""},
		{"bot", good, []string{"User-Agent: " + strings.Replace(browser, "Windows NT 10.0", "Linux; Android 6.0.1", 1) + " (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, 202, Bot, ""},
		{"prerender", good, []string{"Sec-Purpose: prefetch;prerender"}, 202, Prefetch, ""},
		{"prefetch", good, []string{"Purpose: prefetch"}, 202, Prefetch, ""},
		{"preview", good, []string{"Purpose: preview"}, 202, Prefetch, ""},
		{"X-Moz", good, []string{"X-Moz: prefetch"}, 202, Prefetch, ""},
		{"encoding", good, []string{"Content-Encoding: br"}, 415, BadRequest, ""},
		{"not gzip", good, []string{"Content-Encoding: gzip"}, 400, BadRequest, ""},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			before := r.refused(tt.reason)
			got := r.beacon(tt.status, tt.body, tt.headers...)
			if n := r.refused(tt.reason) - before; n != 1 {
				t.Errorf("%d refusals counted for %s, want 1", n, tt.reason)
			}
			if tt.status == 202 && (got.header.Get(HeaderDropped) != "1" || got.header.Get(HeaderReason) != string(tt.reason)) {
				t.Errorf("headers %v, want one drop for %s", got.header, tt.reason)
			}
			if tt.field != "" && !strings.HasPrefix(got.body, `{"errors":{"`+tt.field+`":["`) {
				t.Errorf("body %s, want an error of %s", got.body, tt.field)
			}
		})
	}
	r.t = t
	// The same connection still counts.
	r.beacon(202, good)
	if n := len(r.events()); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestPlausibleSeveralSites(t *testing.T) {
	r := newRig(t)
	got := r.beacon(202, `{"n":"pageview","u":"/a","d":"example.com, example.org,nope.example,EXAMPLE.com","id":"1"}`)
	if got.header.Get(HeaderDropped) != "1" || got.header.Get(HeaderReason) != "unknown_site" {
		t.Errorf("headers %v, want one drop", got.header)
	}
	var sites []string
	visitors := map[uint64]bool{}
	for _, e := range r.events() {
		sites = append(sites, e.Site)
		visitors[e.Visitor] = true
	}
	if diff := cmp.Diff([]string{"example.com", "example.org"}, sites); diff != "" {
		t.Error(diff)
	}
	if len(visitors) != 2 {
		t.Error("a visitor is the same on two sites")
	}
	r.beacon(400, `{"n":"pageview","u":"/a","d":"`+strings.Repeat("a.example,", 1000)+`"}`)
}

func TestPlausibleText(t *testing.T) {
	r := newRig(t)
	click := strings.Repeat("z", 6000)
	r.beacon(202, `{"n":"pageview","u":"https://example.com/utf8?utm_source=tiktok&ttclid=`+click+`","d":"example.com","title":"caf`+"\xff"+`x","r":"https://ref.example/`+strings.Repeat("é", 2000)+`"}`)
	e := r.only()
	if e.Path != "/utf8" || e.Title != "caf\uFFFDx" || e.UTMSource != "tiktok" {
		t.Errorf("path %q, title %q, source %q", e.Path, e.Title, e.UTMSource)
	}
	if n := len(e.Referrer); n > MaxTextBytes || n < MaxTextBytes-3 || !utf8.ValidString(e.Referrer) {
		t.Errorf("referrer of %d bytes, want a cut at %d", n, MaxTextBytes)
	}
}

// A body is read for what it is, whatever type its sender gives it: never as a form without fields.
func TestPlausibleContentTypes(t *testing.T) {
	for _, contentType := range []string{
		"application/json", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/octet-stream", "",
	} {
		r := newRig(t)
		r.beacon(202, `{"n":"pageview","u":"https://example.com/pricing","d":"example.com"}`, "Content-Type: "+contentType)
		if e := r.only(); e.Path != "/pricing" {
			t.Errorf("%s: path %q, want /pricing", contentType, e.Path)
		}
	}
}

func TestPlausibleMethodsAndCORS(t *testing.T) {
	r := newRig(t)
	const body = `{"n":"pageview","u":"https://example.com/","d":"example.com"}`
	for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodGet} {
		if got := r.do(method, "/api/event", []byte(body)); got.status != 405 || got.header.Get("Allow") == "" {
			t.Errorf("%s: %d %v, want 405 with Allow", method, got.status, got.header)
		}
	}
	got := r.do(http.MethodOptions, "/api/event", nil, "Origin: https://www.example.com",
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://www.example.com", "Access-Control-Allow-Credentials": "true",
		"Access-Control-Allow-Headers": "content-type", "Access-Control-Allow-Methods": "POST, OPTIONS", "Vary": "Origin",
	} {
		if got.header.Get(name) != want || got.status/100 != 2 {
			t.Errorf("preflight %d: %s is %q, want %q", got.status, name, got.header.Get(name), want)
		}
	}
	if n := len(r.events()); n != 0 {
		t.Fatalf("%d events, want 0", n)
	}
	for _, origin := range []string{"https://www.example.com", "null"} {
		got := r.beacon(202, body, "Origin: "+origin)
		if got.header.Get("Access-Control-Allow-Origin") != origin || got.header.Get(HeaderReason) != "" {
			t.Errorf("origin %s: %v", origin, got.header)
		}
	}
	if got := r.do(http.MethodGet, "/api/health", nil); got.status != 200 {
		t.Errorf("health: %d", got.status)
	}
	if got := r.beacon(200, body, "X-Debug-Request: true"); got.body != `{"ip":"127.0.0.1"}` {
		t.Errorf("debug request: %s", got.body)
	}
}

func TestCompressedBeacon(t *testing.T) {
	r := newRig(t)
	const body = `{"n":"pageview","u":"https://example.com/z","d":"example.com"}`
	r.beacon(202, string(gzipped(t, []byte(body))), "Content-Encoding: gzip")
	r.beacon(202, string(zstded(t, []byte(body))), "Content-Encoding: zstd")
	bomb := append([]byte(body), bytes.Repeat([]byte(" "), 20<<20)...)
	r.beacon(413, string(gzipped(t, bomb)), "Content-Encoding: gzip")
	r.beacon(413, string(zstded(t, bomb)), "Content-Encoding: zstd")
	r.beacon(400, string(gzipped(t, []byte(body))[:30]), "Content-Encoding: gzip")
	r.beacon(400, string(zstded(t, []byte(body))[:30]), "Content-Encoding: zstd")
	if n := len(r.events()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(data, nil)
}

// Request buffers are used again: an event that kept a part of one would change into the next request's text.
func TestConcurrentClientsKeepTheirText(t *testing.T) {
	r := newRig(t)
	const clients, each = 50, 20
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%04d", c*each+i)
				body := `{"n":"pageview","u":"https://example.com/p/` + id + `?utm_campaign=c` + id + `","d":"example.com","r":"https://ref.example/` + id +
					`","id":"` + id + `","p":{"k` + id + `":"v` + id + `"},"title":"` + strings.Repeat(id, 1+i) + `"}`
				r.beacon(202, body, "User-Agent: "+browser+" Build/"+id, "Accept-Language: de-"+"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i:i+2])
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, e := range r.events() {
		id := e.EventID
		seen[id] = true
		want := schema.Event{Path: "/p/" + id, Referrer: "https://ref.example/" + id, UTMCampaign: "c" + id, Props: []schema.Prop{{Key: "k" + id, Value: "v" + id}}}
		got := schema.Event{Path: e.Path, Referrer: e.Referrer, UTMCampaign: e.UTMCampaign, Props: e.Props}
		if diff := cmp.Diff(want, got); diff != "" || e.Browser != "Chrome" || !strings.HasPrefix(e.Title, id) || strings.Trim(e.Title, id) != "" {
			t.Fatalf("event %s is mixed up: %s %+v", id, diff, e)
		}
	}
	if len(seen) != clients*each {
		t.Errorf("%d events, want %d", len(seen), clients*each)
	}
}
