package ingest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// send posts a message to Umami's endpoint and checks the status.
func (r *rig) send(status int, body string, headers ...string) reply {
	r.t.Helper()
	got := r.do(http.MethodPost, "/api/send", []byte(body), headers...)
	if got.status != status {
		r.t.Errorf("send %.200s: status %d, want %d: %.200s", body, got.status, status, got.body)
	}
	return got
}

// session decodes the answer to a message that was taken.
func session(t *testing.T, got reply) umamiSession {
	t.Helper()
	var s umamiSession
	if err := json.Unmarshal([]byte(got.body), &s); err != nil || s.Cache == "" || len(s.SessionID) != 36 || len(s.VisitID) != 36 {
		t.Errorf("answer %.300s: %v, want cache, sessionId and visitId", got.body, err)
	}
	return s
}

func umamiMessage(payload string) string {
	return `{"type":"event","payload":{"website":"example.com","hostname":"example.com",` + payload + `}}`
}

func TestUmamiEvent(t *testing.T) {
	tests := []struct {
		name, body string
		want       func(*schema.Event)
	}{
		{"what its tracker sends", `{"type":"event","payload":{"website":"cfbff0d1-9375-5685-968c-48ce8b15ae17","screen":"1920x1080","language":"de-DE","title":"Hi","hostname":"www.example.com","url":"https://www.example.com/a/?utm_source=news#x","referrer":"https://ref.example/p?q"}}`, func(e *schema.Event) {
			e.Path, e.Title, e.Screen, e.Language = "/a", "Hi", "Desktop", "de-DE"
			e.Source, e.UTMSource, e.Referrer, e.Channel = "news", "news", "https://ref.example/p", "Referral"
		}},
		{"path and hostname", umamiMessage(`"url":"/b?x=1"`), func(e *schema.Event) { e.Path = "/b" }},
		{"path alone", `{"type":"event","payload":{"website":"example.com","url":"/b"}}`, func(e *schema.Event) { e.Path, e.Hostname = "/b", "" }},
		{"own referrer", umamiMessage(`"url":"/","referrer":"/before"`), nil},
		{"custom event with data", umamiMessage(`"url":"/","name":"Buy","tag":"B","data":{"a":{"b":1.50,"c":[1,"x"]},"ok":true,"no":null,"none":"","t":"v"}`), func(e *schema.Event) {
			e.Name = "Buy"
			e.Props = []schema.Prop{{Key: "a.b", Value: "1.50"}, {Key: "a.c", Value: `[1,"x"]`}, {Key: "ok", Value: "true"}, {Key: "t", Value: "v"}, {Key: "tag", Value: "B"}}
		}},
		{"long data is cut", umamiMessage(`"url":"/","name":"x","data":{"a":"` + strings.Repeat("é", 501) + `"}`), func(e *schema.Event) {
			e.Name, e.Props = "x", []schema.Prop{{Key: "a", Value: strings.Repeat("é", 500)}}
		}},
		{"nulls", umamiMessage(`"url":"/","name":null,"data":null,"screen":null,"title":null,"referrer":null,"tag":null,"id":null`), nil},
		{"browser, os and device are read from the agent", umamiMessage(`"url":"/","browser":"Lynx","os":"BeOS","device":"toaster"`), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			got := r.send(200, tt.body, "Accept-Language: en-us")
			session(t, got)
			if reason := got.header.Get(HeaderReason); reason != "" {
				t.Errorf("reason %q", reason)
			}
			want := schema.Event{
				Site: "example.com", Name: "pageview", Hostname: "example.com", Path: "/", N: 1, Scroll: schema.NoScroll, Channel: "Direct",
				Browser: "Chrome", BrowserVersion: "126.0", OS: "Windows", OSVersion: "10", Device: "Desktop", Language: "en-US",
			}
			if tt.want != nil {
				tt.want(&want)
			}
			event := r.only()
			want.PathKey, want.Visitor, want.TS, want.ReceivedAt = want.Path, event.Visitor, event.ReceivedAt, event.ReceivedAt
			if diff := cmp.Diff(want, event); diff != "" || event.Visitor == 0 {
				t.Errorf("visitor %d\n%s", event.Visitor, diff)
			}
		})
	}
}

func TestUmamiRefusals(t *testing.T) {
	const good = `"url":"/"`
	tests := []struct {
		name, body string
		headers    []string
		status     int
		reason     Reason
		field      string
	}{
		{"empty", "", nil, 400, BadRequest, "body"},
		{"list", "[]", nil, 400, BadRequest, "body"},
		{"deep", strings.Repeat(`{"a":`, 10_000), nil, 400, BadRequest, "body"},
		{"no type", `{"payload":{"website":"example.com","url":"/"}}`, nil, 400, BadField, "type"},
		{"unknown type", `{"type":"pageview","payload":{"website":"example.com","url":"/"}}`, nil, 400, BadField, "type"},
		{"no payload", `{"type":"event"}`, nil, 400, BadField, "payload"},
		{"payload is a list", `{"type":"event","payload":[]}`, nil, 400, BadField, "payload"},
		{"no website", `{"type":"event","payload":{"url":"/"}}`, nil, 400, BadField, "website"},
		{"a link", `{"type":"event","payload":{"link":"cfbff0d1-9375-5685-968c-48ce8b15ae17","url":"/"}}`, nil, 400, BadField, "website"},
		{"unknown website", `{"type":"event","payload":{"website":"nope.example","url":"/"}}`, nil, 400, UnknownSite, "website"},
		{"unknown UUID", `{"type":"event","payload":{"website":"00000000-0000-4000-8000-000000000000","url":"/"}}`, nil, 400, UnknownSite, "website"},
		{"no URL", umamiMessage(`"title":"x"`), nil, 400, BadField, "url"},
		{"about", umamiMessage(`"url":"about:blank"`), nil, 400, Scheme, "url"},
		{"no host", umamiMessage(`"url":"https:///a"`), nil, 400, BadField, "url"},
		{"number as title", umamiMessage(good + `,"title":7`), nil, 400, BadField, "title"},
		{"long name", umamiMessage(good + `,"name":"` + strings.Repeat("x", 51) + `"`), nil, 400, BadField, "name"},
		{"blank name", umamiMessage(good + `,"name":" \u0000"`), nil, 400, BadField, "name"},
		{"reserved name", umamiMessage(good + `,"name":"pageview"`), nil, 400, BadField, "name"},
		{"long tag", umamiMessage(good + `,"tag":"` + strings.Repeat("x", 51) + `"`), nil, 400, BadField, "tag"},
		{"long screen", umamiMessage(good + `,"screen":"100000x100000"`), nil, 400, BadField, "screen"},
		{"data is text", umamiMessage(good + `,"data":"x"`), nil, 400, BadField, "data"},
		{"too much data", umamiMessage(good + `,"data":{` + manyPairs(51) + `}`), nil, 400, BadField, "data"},
		{"address without a key", umamiMessage(good + `,"ip":"192.0.2.1"`), nil, 400, NeedsKey, "ip"},
		{"agent without a key", umamiMessage(good + `,"userAgent":"x"`), nil, 400, NeedsKey, "userAgent"},
		{"time of a key", umamiMessage(good + `,"timestamp":"soon"`), []string{bearer(ingestSecret)}, 400, BadField, "timestamp"},
		{"time ahead", umamiMessage(good + `,"timestamp":4102444800`), []string{bearer(ingestSecret)}, 400, Future, "timestamp"},
		{"site of another key", umamiMessage(good), []string{bearer(oneSite)}, 403, KeySite, "website"},
		{"foreign host", `{"type":"event","payload":{"website":"example.com","url":"https://other.example/"}}`, nil, 403, ForeignHost, "url"},
		{"foreign origin", umamiMessage(good), []string{"Origin: https://other.example"}, 403, ForeignOrigin, "website"},
		{"unknown key", umamiMessage(good), []string{bearer("pt_nope")}, 401, "", "Authorization"},
		{"large", `{"type":"` + strings.Repeat("x", MaxEventBytes) + `"}`, nil, 413, "", ""},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			got := r.send(tt.status, tt.body, tt.headers...)
			var answer umamiError
			if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
				t.Fatalf("%.200s: %v", got.body, err)
			}
			p := answer.Error
			if p.Message == "" || p.Code == "" || p.Status != tt.status || p.Field != tt.field || p.Reason != tt.reason {
				t.Errorf("error %+v, want status %d, field %q, reason %q", p, tt.status, tt.field, tt.reason)
			}
			if reason := got.header.Get(HeaderReason); reason != string(tt.reason) {
				t.Errorf("header names reason %q, want %q", reason, tt.reason)
			}
		})
	}
	r.t = t
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events were journaled, want none", n)
	}
}

// manyPairs is the inside of an object of n pairs.
func manyPairs(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = `"k` + strings.Repeat("x", i) + `":1`
	}
	return strings.Join(pairs, ",")
}

func TestUmamiBots(t *testing.T) {
	r := newRig(t)
	for reason, header := range map[Reason]string{Bot: "User-Agent: Googlebot/2.1", NoAgent: "User-Agent: -", Prefetch: "Sec-Purpose: prefetch;prerender"} {
		got := r.send(200, umamiMessage(`"url":"/"`), header)
		if got.body != `{"beep":"boop"}` || got.header.Get(HeaderReason) != string(reason) {
			t.Errorf("%s: %s, reason %q", header, got.body, got.header.Get(HeaderReason))
		}
		if r.refused(reason) != 1 {
			t.Errorf("%d refused for %s, want 1", r.refused(reason), reason)
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events were journaled, want none", n)
	}
}

// Messages that count nothing are answered like events, and say that they count nothing.
func TestUmamiMessagesWithoutView(t *testing.T) {
	r := newRig(t)
	view := session(t, r.send(200, umamiMessage(`"url":"/"`)))
	for _, body := range []string{
		`{"type":"identify","payload":{"website":"example.com","hostname":"example.com","data":{"plan":"pro"}}}`,
		`{"type":"identify","payload":{"website":"example.com"}}`,
		`{"type":"performance","payload":{"website":"example.com","hostname":"example.com","url":"/","lcp":1200.5,"inp":40,"cls":0.01,"fcp":300,"ttfb":80}}`,
	} {
		got := r.send(200, body, headerUmamiCache+": "+view.Cache)
		if s := session(t, got); s.SessionID != view.SessionID || s.VisitID != view.VisitID {
			t.Errorf("%s: another session or visit", body)
		}
		if got.header.Get(HeaderReason) != string(NoView) {
			t.Errorf("%s: reason %q", body, got.header.Get(HeaderReason))
		}
	}
	r.only()
}

func TestUmamiVisit(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 5, 0, 0, time.UTC)
	r := newRig(t, func(cfg *Config) { cfg.Now = func() time.Time { return now }; cfg.Salts = fixedSalts{} })
	send := func(cache string, headers ...string) umamiSession {
		return session(t, r.send(200, umamiMessage(`"url":"/"`), append(headers, headerUmamiCache+": "+cache)...))
	}
	first := send("")
	now = now.Add(29 * time.Minute)
	second := send(first.Cache)
	now = now.Add(29 * time.Minute)
	third := send(second.Cache)
	if third.VisitID != first.VisitID || third.SessionID != first.SessionID || third.Cache == first.Cache {
		t.Errorf("a visit ended before half an hour of silence: %+v, then %+v", first, third)
	}
	now = now.Add(30 * time.Minute)
	later := send(third.Cache)
	if later.VisitID == first.VisitID || later.SessionID != first.SessionID {
		t.Errorf("after silence: %+v, want another visit of session %s", later, first.SessionID)
	}
	if again := send(later.Cache + "x"); again.VisitID == later.VisitID {
		t.Error("a forged token was believed")
	}
	if other := send(later.Cache, "User-Agent: "+strings.Replace(browser, "126", "127", 1)); other.SessionID == later.SessionID || other.VisitID == later.VisitID {
		t.Error("another visitor goes by the token of the first")
	}
}

// fixedSalts has the same salt for every day.
type fixedSalts struct{}

func (fixedSalts) For(Day) ([16]byte, error) { return [16]byte{1}, nil }

func TestUmamiTokens(t *testing.T) {
	tokens := umamiTokens{newSecret()}
	want := umamiToken{WebsiteID: "w", SessionID: "s", VisitID: "v", IssuedAt: 7}
	signed := tokens.sign(want)
	if got, err := tokens.parse(signed); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for i := range signed {
		changed := signed[:i] + string(signed[i]^1) + signed[i+1:]
		if got, err := tokens.parse(changed); err == nil && i < len(signed)-1 { // the last character carries spare bits
			t.Errorf("token changed at %d is believed: %+v", i, got)
		}
		if _, err := tokens.parse(signed[:i]); err == nil {
			t.Errorf("token cut at %d is believed", i)
		}
	}
	if _, err := (umamiTokens{newSecret()}).parse(signed); err == nil {
		t.Error("a token under another secret is believed")
	}
}

func TestOpenSecret(t *testing.T) {
	path := t.TempDir() + "/secret"
	first, err := OpenSecret(path)
	if err != nil || len(first) != tokenSecretBytes {
		t.Fatalf("%x, %v", first, err)
	}
	second, err := OpenSecret(path)
	if err != nil || string(second) != string(first) {
		t.Errorf("opened again: %x, %v, want %x", second, err, first)
	}
	if err := writeSecret(path, []byte("short\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSecret(path); err == nil {
		t.Error("a damaged secret was taken")
	}
}

// Who names its visitors is believed: one person on two devices is one visitor, two behind one address are two.
func TestUmamiIdentity(t *testing.T) {
	r := newRig(t)
	r.send(200, umamiMessage(`"url":"/","id":"ann"`))
	r.send(200, umamiMessage(`"url":"/","id":"ann"`), "User-Agent: "+strings.Replace(browser, "126", "127", 1))
	r.send(200, umamiMessage(`"url":"/","id":"bob"`))
	r.send(200, umamiMessage(`"url":"/"`))
	e := r.events()
	if e[0].Visitor != e[1].Visitor || e[0].Visitor == e[2].Visitor || e[2].Visitor == e[3].Visitor {
		t.Errorf("visitors %d %d %d %d, want the first two equal", e[0].Visitor, e[1].Visitor, e[2].Visitor, e[3].Visitor)
	}
}

func TestUmamiTimestamp(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	hourAgo, yearAgo := now.Add(-time.Hour).Unix(), now.AddDate(-1, 0, 0).Unix()
	tests := []struct {
		name     string
		seconds  string
		headers  []string
		want     int64 // Unix seconds, 0 for the time of receipt
		replaced bool
	}{
		{"an hour ago", jsonNumber(hourAgo), nil, hourAgo, false},
		{"a year ago", jsonNumber(yearAgo), nil, 0, true},
		{"ahead", jsonNumber(now.Add(time.Hour).Unix()), nil, 0, true},
		{"beyond all numbers", "1e300", nil, 0, true},
		{"a year ago, with a key", jsonNumber(yearAgo), []string{bearer(ingestSecret)}, yearAgo, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.send(200, umamiMessage(`"url":"/","timestamp":`+tt.seconds), tt.headers...)
			e := r.only()
			if want := tt.want * 1000; want != 0 && e.TS != want || want == 0 && e.TS != e.ReceivedAt {
				t.Errorf("ts %d, received %d, want %d", e.TS, e.ReceivedAt, want)
			}
			if replaced := e.Flags&schema.FlagTimeReplaced != 0; replaced != tt.replaced {
				t.Errorf("flagged as replaced: %v, want %v", replaced, tt.replaced)
			}
		})
	}
}

func jsonNumber(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// A server that sends for its visitors says whose address and agent they are, which takes a key.
func TestUmamiKeyed(t *testing.T) {
	r := newRig(t)
	key := bearer(ingestSecret)
	r.send(200, umamiMessage(`"url":"/","ip":"192.0.2.7","userAgent":"`+browser+`"`), key, "User-Agent: node", "Accept-Language: fr")
	got := r.send(200, umamiMessage(`"url":"/","ip":"192.0.2.7","userAgent":"Googlebot/2.1"`), key)
	if got.body != `{"beep":"boop"}` {
		t.Errorf("bot of another: %s", got.body)
	}
	if e := r.only(); e.Browser != "Chrome" || e.Visitor == 0 || e.Language != "" {
		t.Errorf("event %+v", e)
	}
}

func TestUmamiBatch(t *testing.T) {
	r := newRig(t)
	body := "[" + umamiMessage(`"url":"/1"`) + "," + `{"type":"event","payload":{}}` + " ,\n" + umamiMessage(`"url":"/2","userAgent":"x"`) + "," +
		`{"type":"identify","payload":{"website":"example.com"}},` + umamiMessage(`"url":"/3"`) + ",7]"
	got := r.do(http.MethodPost, "/api/batch", []byte(body))
	var answer struct {
		Size, Processed, Errors int
		Details                 []struct {
			Index    int
			Response umamiError
		}
		Cache string
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != 200 {
		t.Fatalf("status %d: %.300s: %v", got.status, got.body, err)
	}
	if answer.Size != 6 || answer.Processed != 3 || answer.Errors != 3 || answer.Cache == "" || len(answer.Details) != 3 {
		t.Fatalf("answer %+v, want 6 = 3 processed + 3 errors", answer)
	}
	for i, want := range []struct {
		index int
		field string
	}{{1, "url"}, {2, "userAgent"}, {5, "body"}} {
		if d := answer.Details[i]; d.Index != want.index || d.Response.Error.Field != want.field || d.Response.Error.Status != 400 {
			t.Errorf("detail %+v, want index %d, field %s", d, want.index, want.field)
		}
	}
	if got.header.Get(HeaderReason) != "bad_field, needs_key, no_view, bad_request" {
		t.Errorf("reasons %q", got.header.Get(HeaderReason))
	}
	var paths []string
	for _, e := range r.events() {
		paths = append(paths, e.Path)
	}
	if diff := cmp.Diff([]string{"/1", "/3"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestUmamiBatchBodies(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		"[]":  {200, `{"size":0,"processed":0,"errors":0,"details":[]}`},
		"":    {400, `"code":"bad-request"`},
		"{}":  {400, "not a JSON array"},
		"[1,": {400, "not JSON"},
		"[" + strings.Repeat("0,", MaxItems) + "0]": {413, `"code":"too-large"`},
	} {
		got := r.do(http.MethodPost, "/api/batch", []byte(body))
		if got.status != want.status || !strings.Contains(got.body, want.text) {
			t.Errorf("%.20q: %d %.200s, want %d %s", body, got.status, got.body, want.status, want.text)
		}
	}
}

func TestUmamiOfAFullJournal(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.Journal = brokenJournal{journal.ErrFull} })
	for _, path := range []string{"/api/send", "/api/batch"} {
		body := umamiMessage(`"url":"/"`)
		if path == "/api/batch" {
			body = "[" + body + "]"
		}
		got := r.do(http.MethodPost, path, []byte(body))
		if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"code":"service-unavailable"`) {
			t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
	}
}

func TestUmamiAround(t *testing.T) {
	r := newRig(t)
	if got := r.do(http.MethodGet, "/api/heartbeat", nil); got.status != 200 || got.body != `{"ok":true}` {
		t.Errorf("heartbeat: %d %s", got.status, got.body)
	}
	got := r.do(http.MethodOptions, "/api/send", nil, "Origin: https://example.com", "Access-Control-Request-Headers: content-type,x-umami-cache")
	if got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != "https://example.com" || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "x-umami-cache") {
		t.Errorf("preflight: %d %v", got.status, got.header)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
		if got := r.do(method, "/api/send", nil); got.status != 405 {
			t.Errorf("%s: status %d, want 405", method, got.status)
		}
	}
}

func TestWebsiteID(t *testing.T) {
	const want = "cfbff0d1-9375-5685-968c-48ce8b15ae17" // as uuidgen prints it
	for _, domain := range []string{"example.com", "www.Example.com", " example.com"} {
		if got := WebsiteID(domain); got != want {
			t.Errorf("%q: %s, want %s", domain, got, want)
		}
	}
	any, err := NewSites(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if site, ok := any.website(strings.ToUpper(want), "example.com"); !ok || site.Domain != "example.com" {
		t.Errorf("of a site made up on demand: %v %v", site, ok)
	}
	if _, ok := any.website(want, "other.example"); ok {
		t.Error("a UUID stands for another site than its own")
	}
}
