package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// explanation asks for one and decodes it.
func (r *rig) explanation(status int, question string, headers ...string) (x Explanation) {
	r.t.Helper()
	got := r.do("POST", "/v1/explain", []byte(question), headers...)
	if got.status != status {
		r.t.Fatalf("explain %.200s: status %d, want %d: %s", question, got.status, status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), &x); err != nil {
		r.t.Fatalf("explain %.200s: %v in %s", question, err, got.body)
	}
	return x
}

func (h ExplainedHit) step(name string) ExplainedStep {
	for _, s := range h.Steps {
		if s.Name == name {
			return s
		}
	}
	return ExplainedStep{}
}

func TestExplain(t *testing.T) {
	tests := []struct {
		name, question string
		endpoint       string
		status         int
		reason         Reason // of the first hit
		events         int
	}{
		{"url", `{"url":"https://www.example.com/a/?utm_source=mail#x"}`, "POST /api/event", 202, Accepted, 1},
		{"plausible", `{"body":{"n":"pageview","u":"https://example.com/a","d":"example.com,example.org"}}`, "POST /api/event", 202, Accepted, 1},
		{"malformed", `{"body":"{\"n\":"}`, "POST /api/event", 400, Accepted, 0},
		{"bot", `{"url":"https://example.com/a","headers":{"User-Agent":"curl/8.0"}}`, "POST /api/event", 202, Bot, 0},
		{"no agent", `{"url":"https://example.com/a","headers":{"User-Agent":""}}`, "POST /api/event", 202, NoAgent, 0},
		{"foreign host", `{"url":"https://other.example/a","site":"example.com"}`, "POST /api/event", 202, ForeignHost, 0},
		{"native", `{"body":[{"site":"example.com","path":"/a"},{"site":"example.com"}]}`, "POST /v1/events", 202, Accepted, 1},
		{"native that needs a key", `{"body":{"site":"example.com","path":"/a","n":2}}`, "POST /v1/events", 400, Accepted, 0},
		{"native with a key", fmt.Sprintf(`{"body":{"site":"example.com","path":"/a","n":2},"headers":{"Authorization":"Bearer %s"}}`, ingestSecret), "POST /v1/events", 202, Accepted, 1},
		{"umami", `{"body":{"type":"event","payload":{"website":"example.com","url":"/a","hostname":"example.com"}}}`, "POST /api/send", 200, Accepted, 1},
		{"umami batch", `{"body":[{"type":"event","payload":{"website":"example.com","url":"/a","hostname":"example.com"}}]}`, "POST /api/batch", 200, Accepted, 1},
		{"goatcounter", `{"endpoint":"GET /count?p=/a","headers":{"Referer":"https://example.com/a"}}`, "GET /count?p=/a", 200, Accepted, 1},
		{"goatcounter API", `{"body":{"no_sessions":true,"hits":[{"path":"/a"}]}}`, "POST /api/v0/count", 401, Accepted, 0},
		{"pixel", `{"endpoint":"GET /pixel.gif?site=example.com&path=/a"}`, "GET /pixel.gif?site=example.com&path=/a", 200, Accepted, 1},
		{"unknown site", `{"url":"https://nope.example/a"}`, "POST /api/event", 202, Accepted, 0},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			x := r.explanation(200, tt.question, bearer(ingestSecret))
			var reason Reason
			if len(x.Hits) > 0 {
				reason = x.Hits[0].Reason
			}
			if x.Endpoint != tt.endpoint || x.Reply.Status != tt.status || reason != tt.reason || len(x.Events) != tt.events || x.Stored {
				t.Errorf("%s answers %d, %q with %d events (stored: %t); want %s, %d, %q, %d: %s",
					x.Endpoint, x.Reply.Status, reason, len(x.Events), x.Stored, tt.endpoint, tt.status, tt.reason, tt.events, x.Reply.Body)
			}
			var b strings.Builder
			if err := x.WriteText(&b); err != nil || !strings.Contains(b.String(), "reply     "+fmt.Sprint(tt.status)) {
				t.Errorf("text: %v in %s", err, b.String())
			}
		})
	}
	r.t = t
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events are stored, want 0", n)
	}
	if n := r.refused(Bot) + r.refused(UnknownSite); n != 0 {
		t.Errorf("%d refusals are counted, want 0", n)
	}
}

func TestExplainDetails(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Proxies, _ = NewProxies([]string{"192.0.2.250"}, "") })
	x := r.explanation(200, `{"url":"https://www.example.com/a%20b/?utm_source=mail&utm_campaign=c#x","peer":"192.0.2.250",
		"headers":{"X-Forwarded-For":"198.51.100.7, 203.0.113.9:443","Accept-Language":"de"}}`, bearer(ingestSecret))
	if x.Client.Address != "203.0.113.9" || x.Client.Header != "X-Forwarded-For" || !strings.Contains(x.Client.Why, "in the header") {
		t.Errorf("client %+v", x.Client)
	}
	h := x.Hits[0]
	if h.Site != "example.com" || h.FoundBy != "the page's host" || h.Address != "203.0.113.9" {
		t.Errorf("hit %+v", h)
	}
	for step, want := range map[string]map[string]any{
		"host": {"hostname": "example.com"}, "page": {"path": "/a b", "path_key": "/a b"},
		"agent": {"browser": "Chrome", "os": "Windows"}, "campaign": {"utm_source": "mail", "utm_campaign": "c"}, "language": {"language": "de"},
	} {
		for column, value := range want {
			if got := h.step(step).Set[column]; got != value {
				t.Errorf("step %s sets %s to %v, want %v", step, column, got, value)
			}
		}
	}
	if e := x.Events[0]; e["path"] != "/a b" || e["site"] != "example.com" || e["n"] != 1.0 {
		t.Errorf("event %v", e)
	}
	if strings.Contains(fmt.Sprint(x), "isitor") {
		t.Errorf("the explanation names the visitor: %+v", x)
	}
	straight := r.explanation(200, `{"url":"https://example.com/","peer":"198.51.100.1","headers":{"X-Forwarded-For":"203.0.113.9"}}`, bearer(ingestSecret))
	if straight.Client.Address != "198.51.100.1" || !strings.Contains(straight.Client.Why, "no trusted proxy") {
		t.Errorf("client %+v", straight.Client)
	}
}

// Looking at a limit takes nothing from it, and tells when it is reached.
func TestExplainTakesNothing(t *testing.T) {
	r := limited(t, Limits{PerAddress: 1, PerSite: 100, NewPathsDay: 1})
	question := `{"url":"https://example.com/a","peer":"127.0.0.1","headers":{"X-Forwarded-For":"192.0.2.1"}}`
	for range 10 {
		if x := r.explanation(200, question, bearer(ingestSecret)); x.Reply.Status != 202 || len(x.Events) != 1 {
			t.Fatalf("explanation %+v", x)
		}
	}
	r.beacon(202, plain, from("192.0.2.1"))
	r.beacon(202, plain, from("192.0.2.1"))
	x := r.explanation(200, question, bearer(ingestSecret))
	if x.Reply.Status != 429 || x.Hits[0].Reason != RateLimited || x.Reply.Headers["Retry-After"] != "1" {
		t.Errorf("at the limit: %+v", x)
	}
	x = r.explanation(200, `{"url":"https://example.com/b","peer":"192.0.2.2"}`, bearer(ingestSecret))
	if e := x.Events[0]; e["path"] != "/b" || e["path_key"] != FoldedPath {
		t.Errorf("one path too many: %v", e)
	}
}

func TestExplainRefuses(t *testing.T) {
	r := newRig(t)
	const question = `{"url":"https://example.com/a"}`
	r.explanation(401, question)
	r.explanation(401, question, "Authorization: Bearer pt_"+strings.Repeat("z", 32))
	r.explanation(403, question, bearer(readSecret1))
	r.explanation(403, question, bearer(oneSite))
	for _, bad := range []string{
		"", "[]", "7", `{"url":7}`, `{"urls":"https://example.com/"}`, `{}`, `{"url":"https://example.com/","body":{}}`, `{"site":"example.com","body":{}}`,
		`{"url":"https://example.com/","endpoint":"POST /v1/explain"}`, `{"url":"https://example.com/","endpoint":"GET /v1/ledger"}`,
		`{"url":"https://example.com/","peer":"me"}`, `{"url":"https://example.com/","headers":{"A\r\nB":"c"}}`, `{"url":"https://example.com/","headers":{"A":"c\nHost: x"}}`,
	} {
		r.explanation(400, bad, bearer(ingestSecret))
	}
	local := newRig(t, func(c *Config) { c.TrustLoopback = true })
	if x := local.explanation(200, question); x.Client.Address != "127.0.0.1" {
		t.Errorf("client %+v", x.Client)
	}
	local.explanation(401, question, from("192.0.2.1"))
}

func FuzzExplain(f *testing.F) {
	for _, s := range []string{
		`{"url":"https://example.com/a","site":"example.com","peer":"::1","headers":{"User-Agent":"x"}}`, `{"body":[{"site":"example.com","path":"/"}]}`,
		`{"body":"{","endpoint":"POST /api/send"}`, `{"endpoint":"GET /count?p=/a&site=example.com"}`, `{"body":null}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte) {
		j.t, j.rows = t, 0
		ctx := request("/v1/explain", body, "Authorization", "Bearer "+ingestSecret)
		handle(ctx)
		status := ctx.Response.StatusCode()
		var x Explanation
		if err := json.Unmarshal(ctx.Response.Body(), &x); err != nil || status >= 500 || x.Reply.Status >= 500 || j.rows > 0 {
			t.Errorf("status %d, explained %d, %d rows, %v: %s", status, x.Reply.Status, j.rows, err, ctx.Response.Body())
		}
	})
}
