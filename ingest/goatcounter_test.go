package ingest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

const examplePage = "Referer: https://www.example.com/"

// count sends a hit to GoatCounter's endpoint and checks the answer.
func (r *rig) count(status int, query string, headers ...string) reply {
	r.t.Helper()
	got := r.do(http.MethodGet, "/count?"+query, nil, headers...)
	checkGIF(r.t, got, status)
	if got.header.Get("Access-Control-Allow-Origin") != "*" || !got.closes {
		r.t.Errorf("headers %v, want any origin and a closed connection", got.header)
	}
	return got
}

func TestGoatcounterCount(t *testing.T) {
	tests := []struct {
		name, query string
		headers     []string
		want        func(*schema.Event)
	}{
		{"what its script sends", "p=%2Fa%20b%2F%3Futm_source%3Dnews&r=https%3A%2F%2Fref.example%2F&t=A%20title&e=false&s=1920%2C1080%2C1&b=0&q=%3Futm_source%3Dnews&rnd=abc12", []string{examplePage}, func(e *schema.Event) {
			e.Path, e.Title, e.Screen = "/a b", "A title", "Desktop"
			e.Referrer, e.Source, e.UTMSource, e.Channel = "https://ref.example/", "news", "news", "Referral"
		}},
		{"campaign beside a canonical path", "p=/post&q=%3Fx%3D1%26utm_campaign%3Dmay", []string{examplePage}, func(e *schema.Event) {
			e.Path, e.UTMCampaign, e.Channel = "/post", "may", "Unassigned"
		}},
		{"page by its Origin alone", "p=/a", []string{"Origin: https://blog.example.com"}, func(e *schema.Event) { e.Path, e.Hostname = "/a", "blog.example.com" }},
		{"site by name", "p=/a&site=example.com", nil, func(e *schema.Event) { e.Path, e.Hostname = "/a", "" }},
		{"site by name, null origin", "p=/a&site=example.com", []string{"Origin: null"}, func(e *schema.Event) { e.Path, e.Hostname = "/a", "" }},
		{"whole URL", "p=https%3A%2F%2Fexample.com%2Fw&site=example.com", nil, func(e *schema.Event) { e.Path = "/w" }},
		{"event", "p=/download&e=1", []string{"Referer: https://example.com/page/"}, func(e *schema.Event) { e.Name, e.Path = "download", "/page" }},
		{"event, on", "p=click%20me&e=on", []string{examplePage}, func(e *schema.Event) { e.Name = "click me" }},
		{"width alone", "p=/&s=390", []string{examplePage}, func(e *schema.Event) { e.Screen = "Mobile" }},
		{"click ids of kilobytes", "p=%2Fpage%3Fttclid%3D" + strings.Repeat("x", 6000), []string{examplePage}, func(e *schema.Event) {
			e.Path, e.Channel = "/page", "Paid Social"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			got := r.count(200, tt.query, append(tt.headers, "Accept-Language: en-us")...)
			if why := got.header.Get(headerGoatcounter) + got.header.Get(HeaderReason); why != "" {
				t.Errorf("not counted: %s", why)
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

func TestGoatcounterCountRefusals(t *testing.T) {
	page := []string{examplePage}
	tests := []struct {
		name, query string
		headers     []string
		status      int
		reason      Reason
		why         string // in X-Goatcounter
	}{
		{"no path", "t=x", page, 400, BadField, "p: is required"},
		{"blank path", "p=+", page, 400, BadField, "p: is required"},
		{"bad switch", "p=/&e=maybe", page, 400, BadField, "e: must be true or false"},
		{"bad session switch", "p=/&ns=2", page, 400, BadField, "ns: must be true or false"},
		{"bot of no kind", "p=/&b=7", page, 400, BadField, "b: must be 0 or a number from 150 to 255"},
		{"bot is text", "p=/&b=x", page, 400, BadField, "b: must be 0 or a number from 150 to 255"},
		{"nameless event", "p=/&e=1", page, 400, BadField, "p: must be an event's name of 1 to 2048 bytes"},
		{"reserved event", "p=pageview&e=1", page, 400, BadField, "p: is a reserved event name"},
		{"unknown site", "p=/&site=nope.example", page, 400, UnknownSite, "no site of this server: the page's Origin or Referer, or the parameter site, must name one"},
		{"page of a stranger", "p=/", []string{"Referer: https://other.example/"}, 400, UnknownSite, "no site of this server: the page's Origin or Referer, or the parameter site, must name one"},
		{"which page", "p=/", nil, 400, UnknownSite, "no site of this server: the page's Origin or Referer, or the parameter site, must name one"},
		{"a stranger speaks for the site", "p=/&site=example.com", []string{"Referer: https://other.example/"}, 400, ForeignHost, "foreign_host"},
		{"a stranger's script", "p=/&site=example.com", []string{"Origin: https://other.example"}, 400, ForeignHost, "foreign_host"},
		{"bot by its own word", "p=/&b=153", page, 200, Bot, ""},
		{"bot by its agent", "p=/", []string{examplePage, "User-Agent: Googlebot/2.1"}, 200, Bot, ""},
		{"no agent", "p=/", []string{examplePage, "User-Agent: "}, 200, NoAgent, ""},
		{"prefetch", "p=/", []string{examplePage, "Purpose: prefetch"}, 200, Prefetch, ""},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			got := r.count(tt.status, tt.query, tt.headers...)
			if reason, why := got.header.Get(HeaderReason), got.header.Get(headerGoatcounter); reason != string(tt.reason) || why != tt.why {
				t.Errorf("reason %q, why %q, want %q, %q", reason, why, tt.reason, tt.why)
			}
		})
	}
	r.t = t
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events were journaled, want none", n)
	}
}

// sendBeacon posts, with the page's credentials and the parameters in the query.
func TestGoatcounterBeacon(t *testing.T) {
	r := newRig(t)
	got := r.do(http.MethodPost, "/count?p=/a", nil, "Origin: https://example.com")
	checkGIF(t, got, 200)
	if got.header.Get("Access-Control-Allow-Origin") != "https://example.com" || got.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("headers %v", got.header)
	}
	if head := r.do(http.MethodHead, "/count?p=/a", nil, examplePage); head.status != 200 {
		t.Errorf("HEAD: status %d", head.status)
	}
	if put := r.do(http.MethodPut, "/count?p=/a", nil, examplePage); put.status != 405 {
		t.Errorf("PUT: status %d, want 405", put.status)
	}
	if e := r.only(); e.Path != "/a" || e.Hostname != "example.com" {
		t.Errorf("event %+v", e)
	}
}

func TestGoatcounterWithoutSession(t *testing.T) {
	r := newRig(t)
	r.count(200, "p=/&ns=true", examplePage)
	if e := r.only(); e.Visitor != 0 || e.Browser != "Chrome" {
		t.Errorf("visitor %d, browser %q, want nobody's and Chrome", e.Visitor, e.Browser)
	}
}

// A page's kept parameter counts once, though path and query both carry it.
func TestJoinQueries(t *testing.T) {
	for _, tt := range []struct{ path, page, want string }{
		{"", "", ""}, {"a=1", "", "a=1"}, {"", "a=1", "a=1"}, {"a=1", "a=1", "a=1"}, {"a=1", "b=2&a=3&c", "a=1&b=2&c"}, {"a", "&&=x", "a"},
	} {
		if got := joinQueries(tt.path, tt.page); got != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.path, tt.page, got, tt.want)
		}
	}
}

func TestGoatcounterOfAFullJournal(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.Journal = brokenJournal{journal.ErrFull} })
	got := r.count(503, "p=/", examplePage)
	if got.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", got.header)
	}
	r.hits(503, `{"no_sessions":true,"hits":[{"path":"/"}]}`)
}

// hits posts to GoatCounter's API for example.com and checks the status.
func (r *rig) hits(status int, body string, headers ...string) reply {
	r.t.Helper()
	if len(headers) == 0 {
		headers = []string{bearer(ingestSecret)}
	}
	got := r.do(http.MethodPost, "/api/v0/count?site=example.com", []byte(body), append(headers, "User-Agent: a job", "Accept-Language: fr")...)
	if got.status != status {
		r.t.Errorf("%.200s: status %d, want %d: %.300s", body, got.status, status, got.body)
	}
	return got
}

func TestGoatcounterHits(t *testing.T) {
	hour := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	agent, _ := json.Marshal(browser)
	who := `"ip":"192.0.2.7","user_agent":` + string(agent)
	tests := []struct {
		name, hit string
		want      func(*schema.Event)
	}{
		{"all there is", `{"path":"/a/","title":"T","ref":"https://ref.example/","size":[390,844,3],"query":"?utm_medium=mail","bot":0,` + who + `,"location":"US-TX","language":"pt-br","created_at":"` + hour.Format(time.RFC3339) + `"}`, func(e *schema.Event) {
			e.Path, e.Title, e.Screen, e.Country, e.Language, e.TS = "/a", "T", "Mobile", "US", "pt-BR", hour.UnixMilli()
			e.Referrer, e.Source, e.UTMMedium, e.Channel = "https://ref.example/", "ref.example", "mail", "Email"
			e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.Device = "Chrome", "126.0", "Windows", "10", "Desktop"
		}},
		{"session alone", `{"path":"/a","session":"s1"}`, func(e *schema.Event) { e.Path = "/a" }},
		{"event", `{"path":"/buy","event":true,"session":"s1"}`, func(e *schema.Event) { e.Name = "buy" }},
		{"size as text", `{"path":"/","size":"1920,1080,1","session":"s"}`, func(e *schema.Event) { e.Screen = "Desktop" }},
		{"size as number", `{"path":"/","size":800,"session":"s","location":"nowhere"}`, func(e *schema.Event) { e.Screen = "Tablet" }},
		{"nulls", `{"path":"/","title":null,"event":null,"ref":null,"size":null,"query":null,"bot":null,"location":null,"language":null,"created_at":null,"ip":null,"user_agent":null,"session":"s"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			got := r.hits(202, `{"hits":[`+tt.hit+`]}`)
			if got.body != `{"status":"ok"}` || got.header.Get(headerGoatFilter) != "" {
				t.Errorf("%s, %v", got.body, got.header)
			}
			event := r.only()
			want := schema.Event{Site: "example.com", Name: "pageview", Path: "/", N: 1, Scroll: schema.NoScroll, Channel: "Direct", TS: event.ReceivedAt}
			if tt.want != nil {
				tt.want(&want)
			}
			want.PathKey, want.Visitor, want.ReceivedAt = want.Path, event.Visitor, event.ReceivedAt
			if diff := cmp.Diff(want, event); diff != "" || event.Visitor == 0 {
				t.Errorf("visitor %d\n%s", event.Visitor, diff)
			}
		})
	}
}

// Hits in error are named by index, filtered ones by a header; all others are stored.
func TestGoatcounterHitErrors(t *testing.T) {
	r := newRig(t)
	ahead := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	got := r.hits(400, `{"hits":[
		{"path":"/0","session":"s"}, {"session":"s"}, {"path":"/2"}, {"path":"/3","ip":"192.0.2.1"}, {"path":"/4","ip":"x","user_agent":"y"},
		{"path":"/5","ip":"192.0.2.1","user_agent":"Googlebot/2.1"}, {"path":"/6","session":"s","bot":150}, {"path":"/7","session":"s","created_at":"`+ahead+`"},
		7, {"path":8,"session":"s"}, {"path":"/10","session":"s","event":"perhaps"}, {"path":"/11","session":"s","bot":-1},
		{"path":"https://other.example/12","session":"s"}, {"path":"/13","session":"s"}]}`)
	var answer struct{ Errors map[string]string }
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"1": "path: is required", "2": "session: is required, or ip and user_agent, or no_sessions", "3": "session: is required, or ip and user_agent, or no_sessions",
		"4": "ip: is not an address", "7": "created_at: is more than 5 minutes ahead", "8": "hit: is not an object", "9": "path: must be text",
		"10": "event: must be true or false", "11": "bot: must be a number from 0 to 255", "12": "foreign_host",
	}
	if diff := cmp.Diff(want, answer.Errors); diff != "" {
		t.Error(diff)
	}
	if filtered := got.header.Get(headerGoatFilter); filtered != "5, 6" {
		t.Errorf("filtered %q, want 5, 6", filtered)
	}
	var paths []string
	for _, e := range r.events() {
		paths = append(paths, e.Path)
	}
	if diff := cmp.Diff([]string{"/0", "/13"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestGoatcounterHitVisitors(t *testing.T) {
	r := newRig(t)
	r.hits(202, `{"hits":[{"path":"/","session":"a"},{"path":"/","session":"a"},{"path":"/","session":"b"},{"path":"/","ip":"192.0.2.1","user_agent":"Firefox"}]}`)
	r.hits(202, `{"no_sessions":true,"hits":[{"path":"/","session":"a"},{"path":"/"}]}`)
	e := r.events()
	if len(e) != 6 || e[0].Visitor != e[1].Visitor || e[1].Visitor == e[2].Visitor || e[3].Visitor == 0 || e[4].Visitor != 0 || e[5].Visitor != 0 {
		t.Errorf("events %+v", e)
	}
}

func TestGoatcounterHitRights(t *testing.T) {
	const body = `{"no_sessions":true,"hits":[{"path":"/"}]}`
	basic := func(pair string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
	}
	r := newRig(t)
	r.hits(202, body, basic("whoever:"+ingestSecret))
	r.hits(202, `{"site":"example.org","no_sessions":true,"hits":[{"path":"/"}]}`) // the parameter goes before the field
	for _, tt := range []struct {
		name, header string
		status       int
	}{
		{"no key", "X-Nothing: here", 401}, {"unknown", bearer("pt_nope"), 401}, {"no pair", basic(ingestSecret), 401}, {"no base64", "Authorization: Basic ???", 401},
		{"read only", bearer(readSecret1), 403}, {"other site", bearer(oneSite), 403},
	} {
		got := r.hits(tt.status, body, tt.header)
		var answer struct{ Error string }
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.Error == "" {
			t.Errorf("%s: %s: %v", tt.name, got.body, err)
		}
	}
	if n := len(r.events()); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// The site need not be named by a key of one site, nor to a server of one.
func TestGoatcounterHitSite(t *testing.T) {
	const body = `"no_sessions":true,"hits":[{"path":"/"}]}`
	post := func(r *rig, status int, body, secret string) {
		t.Helper()
		if got := r.do(http.MethodPost, "/api/v0/count", []byte(body), bearer(secret)); got.status != status {
			t.Errorf("%s: %d %s, want %d", body, got.status, got.body, status)
		}
	}
	r := newRig(t)
	post(r, 202, "{"+body, oneSite)
	if e := r.only(); e.Site != "example.org" {
		t.Errorf("site %q", e.Site)
	}
	post(r, 202, `{"site":"example.com",`+body, ingestSecret)
	post(r, 400, "{"+body, ingestSecret)
	post(r, 400, `{"site":"nope.example",`+body, ingestSecret)
	single := newRig(t, onlySite(t))
	post(single, 202, "{"+body, ingestSecret)
	if e := single.only(); e.Site != "example.com" {
		t.Errorf("site %q", e.Site)
	}
}

func TestGoatcounterHitBodies(t *testing.T) {
	hits := func(n int) string {
		return `{"no_sessions":true,"hits":[` + strings.TrimSuffix(strings.Repeat(`{"path":"/"},`, n), ",") + `]}`
	}
	r := newRig(t)
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"empty", "", 400}, {"list", "[]", 400}, {"null", "null", 400}, {"none", `{}`, 400}, {"no hits", `{"hits":[]}`, 400}, {"hits are text", `{"hits":"x"}`, 400},
		{"deep", `{"hits":` + strings.Repeat("[", 20_000), 400}, {"cut", `{"hits":[{"path":"/"`, 400}, {"most", hits(500), 202}, {"one too many", hits(501), 400},
	} {
		got := r.hits(tt.status, tt.body)
		if tt.status == 400 && !strings.HasPrefix(got.body, `{"error":"`) {
			t.Errorf("%s: %.200s", tt.name, got.body)
		}
	}
	if n := len(r.events()); n != 500 {
		t.Errorf("%d events, want 500", n)
	}
}

// A path that its script takes from the address bar is escaped once more than the page key.
func TestGoatcounterEscapes(t *testing.T) {
	r := newRig(t)
	for _, pathname := range []string{"/%e6%a9%9f/1", "/機/1"} {
		r.count(200, "p="+url.QueryEscape(pathname), examplePage)
	}
	for _, e := range r.events() {
		if e.Path != "/機/1" {
			t.Errorf("path %q", e.Path)
		}
	}
}

// Its clients keep to the API's limit by the headers; who does not is refused until there is room again, and its events are not taken.
func TestGoatcounterCallLimit(t *testing.T) {
	now := time.Now()
	r := newRig(t, func(c *Config) { c.GoatcounterCalls, c.Now = 0, func() time.Time { return now } })
	const body = `{"no_sessions":true,"hits":[{"path":"/"}]}`
	check := func(got reply, left, reset string) {
		t.Helper()
		for name, want := range map[string]string{"X-Rate-Limit-Limit": "60", "X-Rate-Limit-Remaining": left, "X-Rate-Limit-Reset": reset} {
			if value := got.header.Get(name); value != want {
				t.Errorf("%s is %q, want %q", name, value, want)
			}
		}
	}
	for left := 59; left > 0; left-- {
		check(r.hits(202, body), strconv.Itoa(left), "0")
	}
	check(r.hits(202, body), "0", "2")
	got := r.hits(429, body)
	check(got, "0", "2")
	if got.header.Get("Retry-After") != "2" || got.header.Get(HeaderReason) != string(RateLimited) || !strings.HasPrefix(got.body, `{"error":"`) {
		t.Errorf("%v %s", got.header, got.body)
	}
	r.hits(202, body, bearer(oneOfExample)) // another key has its own
	r.hits(401, body, "X-Nothing: here")
	now = now.Add(2 * time.Second)
	check(r.hits(202, body), "0", "2")
	r.hits(429, body)
	now = now.Add(2 * time.Minute)
	check(r.hits(400, "{"), "59", "0") // a bad call is a call
	if n := r.refused(RateLimited); n != 2 {
		t.Errorf("%d refusals for the rate are counted, want 2", n)
	}
	if n := len(r.events()); n != 62 {
		t.Errorf("%d events, want 62", n)
	}
}
