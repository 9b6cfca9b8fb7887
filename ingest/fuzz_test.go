package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/oklog/ulid/v2"
	"github.com/valyala/fasthttp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// checkingJournal keeps nothing but checks what would be journaled.
type checkingJournal struct {
	t    testing.TB
	rows int
}

func (j *checkingJournal) Append(_ context.Context, payload []byte, rows int) (journal.Position, error) {
	j.rows += rows
	for _, e := range decodeFrame(j.t, journal.Frame{Rows: rows, Payload: string(payload)}) {
		for _, s := range []string{e.Name, e.Hostname, e.Path, e.Title, e.Referrer, e.Source, e.UTMSource, e.UTMMedium, e.UTMCampaign, e.UTMContent, e.UTMTerm, e.EventID, e.Language} {
			if !utf8.ValidString(s) || strings.Contains(s, "\x00") || len(s) > MaxTextBytes {
				j.t.Errorf("unclean text %q in %+v", s, e)
			}
		}
		for _, p := range e.Props {
			if !utf8.ValidString(p.Key+p.Value) || strings.Contains(p.Key+p.Value, "\x00") || p.Key == "" {
				j.t.Errorf("unclean property %q", p)
			}
		}
		if e.Path != schema.PageKey(e.Path, schema.PathRules{HashRouting: true}) {
			j.t.Errorf("path %q is not its own page key", e.Path)
		}
	}
	return journal.Position{Segment: ulid.Make()}, nil
}

// handler is the app of a server on j, without a connection.
func handler(t testing.TB, j Journal, change ...func(*Config)) fasthttp.RequestHandler {
	t.Helper()
	sites, err := NewSites([]Site{{Domain: "example.com", Limits: Limits{PerAddress: 1e9, PerSite: 1e9}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := Config{Journal: j, Keys: testKeys(t, dir), Salts: testSalts(t, dir), Sites: sites, Node: "n1", GoatcounterCalls: -1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(FiberConfig())
	s.Register(app)
	return app.Handler()
}

func request(path string, body []byte, headers ...string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.SetMethod(http.MethodPost)
	ctx.Request.SetRequestURI(path)
	ctx.Request.Header.SetUserAgent(browser)
	for i := 0; i+1 < len(headers); i += 2 {
		ctx.Request.Header.Set(headers[i], headers[i+1])
	}
	ctx.Request.SetBody(body)
	return ctx
}

func FuzzPlausibleBody(f *testing.F) {
	for _, s := range []string{
		`{"n":"pageview","u":"https://example.com/a?utm_source=x#y","d":"example.com","r":"https://r.example/"}`,
		`{"n":"engagement","u":"/","d":"example.com,example.com","sd":1,"e":2,"ts":5,"id":7,"h":1,"i":false}`,
		`{"name":7,"url":"https://example.com","p":"{\"a\":1}","title":"\ud800\u0000"}`, `[]`, `{}`, "\xef\xbb\xbf{}", `{"n":`,
	} {
		f.Add([]byte(s), browser)
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte, agent string) {
		j.t, j.rows = t, 0
		ctx := request("/api/event", body, "User-Agent", agent, "Accept-Language", agent)
		handle(ctx)
		status := ctx.Response.StatusCode()
		counted := status == 202 && len(ctx.Response.Header.Peek(HeaderDropped)) == 0
		if status >= 500 || counted && j.rows == 0 || status != 202 && j.rows > 0 {
			t.Errorf("status %d with %d rows: %s", status, j.rows, ctx.Response.Body())
		}
	})
}

func FuzzNativeBody(f *testing.F) {
	const item = `{"id":"a","site":"example.com","url":"https://example.com/","n":-2,"ts":"2025-03-01T00:00:00Z","ip":"::1","user_agent":"x","props":{"a":1},"screen":"9x9"}`
	for _, s := range []string{item, "[" + item + "," + item + "]", item + "\n" + item, `[[],{}]`, `{"site":"example.com","path":"/%%41"}`, "7 8", `["a\"]`} {
		f.Add([]byte(s), true, false)
		f.Add([]byte(s), false, true)
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte, keyed, lines bool) {
		j.t, j.rows = t, 0
		ctx := request("/v1/events", body)
		if keyed {
			ctx.Request.Header.Set("Authorization", "Bearer "+ingestSecret)
		}
		if lines {
			ctx.Request.Header.SetContentType("application/x-ndjson")
		}
		handle(ctx)
		var answer nativeReply
		if err := json.Unmarshal(ctx.Response.Body(), &answer); err != nil {
			t.Fatalf("answer %q: %v", ctx.Response.Body(), err)
		}
		status := ctx.Response.StatusCode()
		if status >= 500 || answer.Accepted != j.rows || (status == 202) == (answer.Error != nil) {
			t.Errorf("status %d with %d rows: %s", status, j.rows, ctx.Response.Body())
		}
	})
}

// Items are cut by brackets and quotes alone; what is valid JSON must come out whole.
func FuzzSplitItems(f *testing.F) {
	for _, s := range []string{`[1,"a,]",{"b":[2]}]`, `{"a":"\\"} {"b":"\""}`, `[ ]`, `[,]`, `"`, `[{]`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := splitItems(body, false, nil)
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 && len(list) <= MaxItems {
			if err != nil || len(items) != len(list) {
				t.Fatalf("%q is cut into %d items with %v, want %d", body, len(items), err, len(list))
			}
			for i := range list {
				if !bytes.Equal(bytes.TrimSpace(items[i]), bytes.TrimSpace(list[i])) {
					t.Fatalf("item %d of %q is %q, want %q", i, body, items[i], list[i])
				}
			}
		}
		if err == nil && len(items) == 0 {
			t.Fatalf("%q has no items and no error", body)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	f.Add(gzipped(f, []byte("hello")), "gzip")
	f.Add(zstded(f, []byte("hello")), "zstd")
	f.Add([]byte("hello"), "")
	f.Fuzz(func(t *testing.T, raw []byte, encoding string) {
		const limit = 1 << 10
		var buf []byte
		body, err := decompress(raw, encoding, limit, &buf)
		if err == nil && len(body) > limit || cap(buf) > 8<<10 {
			t.Fatalf("%d bytes in a buffer of %d, limit %d", len(body), cap(buf), limit)
		}
	})
}

func FuzzReceipt(f *testing.F) {
	f.Add(Receipt{"n1", ulid.Make(), 7, 3}.String())
	f.Add("n1.01ARZ3NDEKTSV4RRFFQ69G5FAV.0.1.00000000")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseReceipt(s); err == nil && r.String() != s {
			t.Fatalf("%q is read as %q", s, r)
		}
	})
}

func TestReceipt(t *testing.T) {
	want := Receipt{"node_1-a", ulid.Make(), 1<<32 - 1, MaxItems}
	s := want.String()
	if got, err := ParseReceipt(s); err != nil || got != want {
		t.Errorf("%q is read as %+v, %v", s, got, err)
	}
	for i := range s {
		for _, bad := range []string{s[:i], s[:i] + s[i+1:], s[:i] + "x" + s[i:]} {
			if got, err := ParseReceipt(bad); err == nil {
				t.Errorf("%q is read as %+v", bad, got)
			}
		}
	}
}

func FuzzClientAddress(f *testing.F) {
	f.Add("[2001:db8::1]:443, unknown")
	p, err := NewProxies([]string{"0.0.0.0/0"}, "")
	if err != nil {
		f.Fatal(err)
	}
	peer, _ := parseAddress("192.0.2.1")
	f.Fuzz(func(t *testing.T, forwarded string) {
		if got := p.Client(peer, forwarded); !got.IsValid() || got.Zone() != "" {
			t.Fatalf("client of %q is %v", forwarded, got)
		}
	})
}

// A day's salt changes at the site's own midnight, and with it its visitors.
func TestVisitorChangesAtLocalMidnight(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{salts: testSalts(t, t.TempDir())}
	now := time.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, zone).UnixMilli()
	visitor := func(ts int64, agent string) uint64 {
		h := hit{site: &Site{Zone: zone}, agent: agent, event: schema.Event{Site: "example.com", TS: ts, ReceivedAt: now.UnixMilli()}}
		var scratch []byte
		if err := s.identify(&h, &scratch); err != nil {
			t.Fatal(err)
		}
		return h.event.Visitor
	}
	a, b, c := visitor(midnight, "x"), visitor(midnight+dayMillis-1, "x"), visitor(midnight-1, "x")
	if a != b || a == c || visitor(midnight, "y") == a {
		t.Errorf("visitors %x and %x of one day, %x of the day before", a, b, c)
	}
	old := midnight - 30*dayMillis
	if visitor(old, "x") != visitor(old+1, "x") || visitor(old, "x") == visitor(old-dayMillis, "x") {
		t.Error("visitors of old days are not told apart by day")
	}
	if visitor(midnight, "") != 0 {
		t.Error("nobody is a visitor")
	}
}

type noJournal struct{}

func (noJournal) Append(context.Context, []byte, int) (journal.Position, error) {
	return journal.Position{}, nil
}

func BenchmarkPlausibleEvent(b *testing.B) {
	for _, sites := range []int{1, 3} {
		b.Run(fmt.Sprintf("sites=%d", sites), func(b *testing.B) {
			handle := handler(b, noJournal{})
			domains := strings.TrimSuffix(strings.Repeat("example.com,", sites), ",")
			body := []byte(`{"n":"pageview","v":24,"u":"https://example.com/blog/some-article?utm_source=newsletter","d":"` + domains + `","r":"https://news.example.net/item"}`)
			ctx := request("/api/event", body, "Accept-Language", "en-US,en;q=0.9", "Origin", "https://example.com", "Content-Type", "text/plain")
			b.ReportAllocs()
			for b.Loop() {
				ctx.Response.Reset()
				handle(ctx)
			}
			if ctx.Response.StatusCode() != 202 || len(ctx.Response.Header.Peek(HeaderDropped)) != 0 {
				b.Fatalf("status %d: %s", ctx.Response.StatusCode(), ctx.Response.Header.String())
			}
		})
	}
}
