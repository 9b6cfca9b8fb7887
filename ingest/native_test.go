package ingest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

func TestNativeKeyed(t *testing.T) {
	r := newRig(t)
	ts := time.Now().Add(-40 * 24 * time.Hour).UTC().Truncate(time.Millisecond)
	answer := r.post(202, fmt.Sprintf(`{"id":"j-1","site":"example.com","url":"https://example.com/a?utm_source=mail","title":"T","referrer":"https://ref.example/",
		"props":{"plan":"pro"},"n":-3,"ts":%q,"ip":"203.0.113.9","user_agent":%q,"screen":"390x844","language":"pt-br"}`,
		ts.Format(time.RFC3339Nano), browser), bearer(ingestSecret), "User-Agent: some-job/1.0", "Accept-Language: fr")
	if answer.Accepted != 1 || answer.Receipt == "" || len(answer.Errors) != 0 || answer.Errors == nil {
		t.Errorf("answer %+v", answer)
	}
	e := r.only()
	want := schema.Event{
		Site: "example.com", Name: "pageview", Hostname: "example.com", Path: "/a", PathKey: "/a", Title: "T", Referrer: "https://ref.example/",
		Source: "mail", UTMSource: "mail", Channel: "Email", Browser: "Chrome", BrowserVersion: "126.0", OS: "Windows", OSVersion: "10", Device: "Desktop",
		Screen: "Mobile", Language: "pt-BR", EventID: "j-1", Namespace: "k1", TS: ts.UnixMilli(), ReceivedAt: e.ReceivedAt, Visitor: e.Visitor, N: -3,
		Scroll: schema.NoScroll, Props: []schema.Prop{{Key: "plan", Value: "pro"}},
	}
	if diff := cmp.Diff(want, e); diff != "" || e.Visitor == 0 {
		t.Error(diff, e.Visitor)
	}
	got := r.do(http.MethodGet, "/v1/receipts/"+answer.Receipt, nil)
	if got.status != 200 || !strings.Contains(got.body, `"state":"pending"`) {
		t.Errorf("receipt: %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodGet, "/v1/receipts/"+answer.Receipt[1:], nil); got.status != 400 {
		t.Errorf("bad receipt: %d %s", got.status, got.body)
	}
}

// A job's event without agent and address is its own, not the job's connection's.
func TestNativeKeyedKnowsNobody(t *testing.T) {
	r := newRig(t)
	r.post(202, `{"site":"example.com","path":"/a","name":"Paid"}`, bearer(ingestSecret), "User-Agent: curl/8.0", "Accept-Language: fr", "Sec-Purpose: prefetch", "Origin: https://evil.example")
	e := r.only()
	if e.Visitor != 0 || e.Browser != "" || e.Language != "" || e.Hostname != "" || e.Name != "Paid" {
		t.Errorf("event %+v", e)
	}
}

// An agent of blanks is none, and "-" is how logs write that a browser sent none.
func TestNativeKeyedWithoutAgent(t *testing.T) {
	r := newRig(t)
	for _, agent := range []string{"", " ", `\t`} {
		answer := r.post(202, `{"site":"example.com","path":"/a","user_agent":"`+agent+`"}`, bearer(ingestSecret))
		if answer.Accepted != 1 {
			t.Errorf("agent %q: %+v", agent, answer)
		}
	}
	answer := r.post(202, `{"site":"example.com","path":"/a","user_agent":"-"}`, bearer(ingestSecret))
	if answer.Accepted != 0 || len(answer.Errors) != 1 || answer.Errors[0].Reason != NoAgent {
		t.Errorf("agent -: %+v", answer)
	}
	events := r.events()
	for _, e := range events {
		if e.Browser != "" || e.Visitor != 0 {
			t.Errorf("browser %q, visitor %d, want neither", e.Browser, e.Visitor)
		}
	}
	if len(events) != 3 {
		t.Errorf("%d events, want 3", len(events))
	}
}

func TestNativeItems(t *testing.T) {
	const good = `{"site":"example.com","url":"https://example.com/"}`
	future := time.Now().Add(10 * time.Minute).UnixMilli()
	tests := []struct {
		item   string
		keyed  bool
		field  string
		reason Reason
	}{
		{`{}`, true, "site", BadField},
		{`7`, true, "", BadRequest},
		{`{"site":"example.com",}`, true, "", BadRequest},
		{`{"site":"nope.example","path":"/"}`, true, "site", UnknownSite},
		{`{"site":"example.com"}`, true, "url", BadField},
		{`{"site":"example.com","url":"/a"}`, true, "url", BadField},
		{`{"site":"example.com","url":"https://example.com/","path":"/"}`, true, "path", BadField},
		{`{"site":"example.com","path":"https://example.com/"}`, true, "path", BadField},
		{`{"site":"example.com","url":"file:///x"}`, true, "url", Scheme},
		{`{"site":"example.com","url":"https://other.example/"}`, true, "url", ForeignHost},
		{`{"site":"example.com","path":"/","name":""}`, true, "name", BadField},
		{`{"site":"example.com","path":"/","name":"engagement"}`, true, "name", BadField},
		{`{"site":"example.com","path":"/","title":1}`, true, "title", BadField},
		{`{"site":"example.com","path":"/","props":[]}`, true, "props", BadField},
		{`{"site":"example.com","path":"/","id":""}`, true, "id", BadField},
		{`{"site":"example.com","path":"/","n":0}`, true, "n", BadField},
		{`{"site":"example.com","path":"/","n":1.5}`, true, "n", BadField},
		{`{"site":"example.com","path":"/","n":1000000001}`, true, "n", BadField},
		{`{"site":"example.com","path":"/","n":99999999999999999999}`, true, "n", BadField},
		{`{"site":"example.com","path":"/","ts":"yesterday"}`, true, "ts", BadField},
		{`{"site":"example.com","path":"/","ts":-5}`, true, "ts", BadField},
		{fmt.Sprintf(`{"site":"example.com","path":"/","ts":%d}`, future), true, "ts", Future},
		{`{"site":"short.example","path":"/","ts":"2020-01-01T00:00:00Z"}`, true, "ts", BeyondRetention},
		{`{"site":"example.com","path":"/","ip":"nowhere"}`, true, "ip", BadField},
		{`{"site":"example.com","path":"/","ts":1}`, false, "ts", NeedsKey},
		{`{"site":"example.com","path":"/","ip":"192.0.2.1"}`, false, "ip", NeedsKey},
		{`{"site":"example.com","path":"/","user_agent":"x"}`, false, "user_agent", NeedsKey},
		{`{"site":"example.com","path":"/","n":2}`, false, "n", NeedsKey},
		{`{"site":"example.com","path":"/","title":"` + strings.Repeat("x", MaxEventBytes) + `"}`, true, "", TooLarge},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(string(tt.reason)+" "+tt.field, func(t *testing.T) {
			r.t = t
			var headers []string
			if tt.keyed {
				headers = []string{bearer(ingestSecret)}
			}
			// Alone it is a 400; between good ones it is an error of its own.
			alone := r.post(400, tt.item, headers...)
			if alone.Error == nil {
				t.Errorf("%.100s: no error in %+v", tt.item, alone)
			}
			among := r.post(202, "["+good+","+tt.item+" , "+good+"]", headers...)
			if among.Accepted != 2 || len(among.Errors) != 1 {
				t.Fatalf("%.100s: %+v, want two accepted and one error", tt.item, among)
			}
			if e := among.Errors[0]; e.Index != 1 || e.Field != tt.field || e.Reason != tt.reason {
				t.Errorf("%.100s: error %+v, want index 1, field %q, reason %s", tt.item, e, tt.field, tt.reason)
			}
		})
	}
}

func TestNativeBodies(t *testing.T) {
	const item = `{"site":"example.com","path":"/"}`
	many := strings.Repeat(item+"\n", MaxItems)
	bomb := bytes.Repeat([]byte("0,"), MaxBatchBytes)
	tests := []struct {
		name, body string
		headers    []string
		status     int
		accepted   int
		errors     int
	}{
		{"object", item, nil, 202, 1, 0},
		{"array", "\ufeff [" + item + "," + item + "] ", nil, 202, 2, 0},
		{"lines", item + "\n\r\n" + item + "\n", []string{"Content-Type: application/x-ndjson"}, 202, 2, 0},
		{"a bad line", item + "\n{\"site\n" + item, []string{"Content-Type: application/x-ndjson"}, 202, 2, 1},
		{"values", item + item + "\n\n" + strings.ReplaceAll(item, ",", ",\n"), nil, 202, 3, 0},
		{"gzip", string(gzipped(t, []byte(item))), []string{"Content-Encoding: gzip"}, 202, 1, 0},
		{"zstd", string(zstded(t, []byte(item))), []string{"Content-Encoding: zstd"}, 202, 1, 0},
		{"most items", many, nil, 202, MaxItems, 0},
		{"too many items", many + item, nil, 413, 0, 0},
		{"too many in an array", "[" + strings.Repeat("0,", MaxItems) + "0]", nil, 413, 0, 0},
		{"bomb", string(gzipped(t, bomb)), []string{"Content-Encoding: gzip"}, 413, 0, 0},
		{"empty", "", nil, 400, 0, 0},
		{"empty array", "[ ]", nil, 400, 0, 0},
		{"null", "null", nil, 400, 0, 1},
		{"cut array", "[" + item, nil, 400, 0, 0},
		{"cut object", item[:20], nil, 400, 0, 0},
		{"brackets", strings.Repeat("[", 1<<20), nil, 400, 0, 0},
		{"bot", item, []string{"User-Agent: curl/8.0"}, 202, 0, 1},
		{"unknown key", item, []string{"Authorization: Bearer pt_" + strings.Repeat("z", 32)}, 401, 0, 0},
		{"basic", item, []string{"Authorization: Basic eDp5"}, 401, 0, 0},
		{"scope", item, []string{bearer(readSecret1)}, 403, 0, 0},
		{"site of a key", item, []string{bearer(oneSite)}, 400, 0, 1},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			answer := r.post(tt.status, tt.body, tt.headers...)
			if answer.Accepted != tt.accepted || len(answer.Errors) != tt.errors {
				t.Errorf("accepted %d with %d errors, want %d with %d", answer.Accepted, len(answer.Errors), tt.accepted, tt.errors)
			}
			if (answer.Error != nil) != (tt.status >= 400) {
				t.Errorf("error %+v with status %d", answer.Error, tt.status)
			}
		})
	}
	r.t = t
	got := r.do(http.MethodPost, "/v1/events", []byte(item), "User-Agent: curl/8.0")
	if got.header.Get(HeaderReason) != string(Bot) {
		t.Errorf("headers of a bot: %v", got.header)
	}
}

// A body whose values would be a tree of a gigabyte is refused without building it.
func TestNativeMemoryStaysFlat(t *testing.T) {
	r := newRig(t)
	body := append([]byte("["), bytes.Repeat([]byte("[0],"), (MaxBatchBytes-8)/4)...)
	body = append(body[:len(body)-1], ']')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		r.post(413, string(gzipped(t, body)), "Content-Encoding: gzip")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 600<<20 {
		t.Errorf("three requests of %d bytes allocated %d MiB", len(body), grown>>20)
	}
}

func TestIdempotencyKey(t *testing.T) {
	r := newRig(t)
	body := `[{"site":"example.com","path":"/a"},{"bad":1},{"site":"example.com","path":"/a","id":"own"},{"site":"example.com","path":"/a"}]`
	for range 2 {
		if answer := r.post(202, body, bearer(ingestSecret), "Idempotency-Key: job-7"); answer.Accepted != 3 {
			t.Errorf("answer %+v", answer)
		}
	}
	r.post(422, `{"site":"example.com","path":"/b"}`, bearer(ingestSecret), "Idempotency-Key: job-7")
	r.post(202, `{"site":"example.com","path":"/b"}`, "Idempotency-Key: job-7") // without the key it is another caller
	count := map[string]int{}
	for _, e := range r.events() {
		count[e.Namespace+" "+e.EventID]++
	}
	if len(count) != 4 || count["k1 own"] != 2 {
		t.Errorf("ids %v, want three of the key twice and one more", count)
	}
}

func TestLoopbackRights(t *testing.T) {
	trust := func(c *Config) { c.TrustLoopback = true }
	const item = `{"site":"example.com","path":"/","n":5}`
	tests := []struct {
		name    string
		headers []string
		status  int
	}{
		{"plain", nil, 202},
		{"localhost", []string{"Host: localhost:8080", "Origin: http://localhost:3000"}, 202},
		{"forwarded", []string{"X-Forwarded-For: 127.0.0.1"}, 400},
		{"real ip", []string{"X-Real-IP: 192.0.2.1"}, 400},
		{"rebound name", []string{"Host: evil.example"}, 400},
		{"page of another", []string{"Origin: https://evil.example"}, 400},
	}
	r := newRig(t, trust)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			r.post(tt.status, item, append(tt.headers, "User-Agent: curl/8.0")...)
		})
	}
	r.t = t
	events := r.events()
	if len(events) != 2 || events[0].N != 5 || events[0].Visitor == 0 {
		t.Errorf("events %+v", events)
	}
}

// brokenJournal refuses for the reason it is given.
type brokenJournal struct{ err error }

func (j brokenJournal) Append(context.Context, []byte, int) (journal.Position, error) {
	return journal.Position{}, j.err
}

func TestRefusedByTheServer(t *testing.T) {
	for _, cause := range []error{journal.ErrFull, journal.ErrIO, journal.ErrClosed, context.DeadlineExceeded} {
		r := newRig(t, func(c *Config) { c.Journal = brokenJournal{cause} })
		got := r.beacon(503, `{"n":"pageview","u":"https://example.com/","d":"example.com"}`)
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%v: no Retry-After in %v", cause, got.header)
		}
		r.post(503, `{"site":"example.com","path":"/"}`, "Idempotency-Key: a")
		// Nothing was stored, so the key is free again.
		r.post(503, `{"site":"example.com","path":"/other"}`, "Idempotency-Key: a")
	}
	r := newRig(t, func(c *Config) { c.Salts = noSalts{} })
	if got := r.beacon(503, `{"n":"pageview","u":"https://example.com/","d":"example.com"}`); got.header.Get("Retry-After") == "" {
		t.Errorf("no salt: no Retry-After in %v", got.header)
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events, want 0", n)
	}
}

type noSalts struct{}

func (noSalts) For(Day) ([16]byte, error) { return [16]byte{}, ErrNoSalt }

// delivery stores a segment when it is told to.
type delivery struct{ stored chan struct{} }

func (d delivery) WaitStored(ctx context.Context, _ ulid.ULID) error {
	select {
	case <-d.stored:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d delivery) Status(_ context.Context, node string, _ ulid.ULID, _ uint32, rows int) (string, error) {
	return fmt.Sprintf("%s/%d", node, rows), nil
}

func TestAckStored(t *testing.T) {
	d := delivery{make(chan struct{})}
	r := newRig(t, func(c *Config) { c.Delivery, c.AckTimeout = d, 30*time.Millisecond })
	const body = `{"site":"example.com","path":"/"}`
	post := func(status int, query string) {
		t.Helper()
		if got := r.do(http.MethodPost, "/v1/events"+query, []byte(body)); got.status != status || !strings.Contains(got.body, `"receipt":"n1.`) == (status < 400) {
			t.Errorf("%s: %d %s, want %d", query, got.status, got.body, status)
		}
	}
	post(202, "?ack=stored")
	close(d.stored)
	post(200, "?ack=stored")
	post(202, "")
	post(400, "?ack=maybe")
	answer := r.post(202, "["+body+","+body+"]")
	if got := r.do(http.MethodGet, "/v1/receipts/"+answer.Receipt, nil); !strings.Contains(got.body, `"state":"n1/2"`) {
		t.Errorf("receipt: %s", got.body)
	}
}
