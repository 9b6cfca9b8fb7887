package ingest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a site ignores is answered by each dialect in its own way, and never as if it were counted.
func TestIgnoredInEachDialect(t *testing.T) {
	r := newRig(t, behindProxy, withSites(t, SiteSettings{Domain: "example.com", IgnoreAddresses: []string{"192.0.2.0/24"}, IgnorePaths: []string{"/draft"}}))
	const office = "X-Forwarded-For: 192.0.2.7"
	if got := r.count(202, "p=/", examplePage, office); got.header.Get(headerGoatcounter) != "ignored because ignored_address" {
		t.Errorf("GoatCounter: %v", got.header)
	}
	r.count(202, "p=/draft", examplePage)
	r.send(403, umamiMessage(`"url":"/"`), office)
	if got := r.send(200, umamiMessage(`"url":"/draft"`)); got.body != `{"beep":"boop"}` {
		t.Errorf("Umami: %s", got.body)
	}
	got := r.do(http.MethodGet, "/pixel.gif?site=example.com&path=/", nil, office)
	checkGIF(t, got, 200)
	if got.header.Get(HeaderReason) != string(IgnoredAddress) {
		t.Errorf("pixel: %v", got.header)
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events were journaled, want none", n)
	}
}

// GoatCounter's API filters addresses unless the call says otherwise.
func TestGoatcounterFilter(t *testing.T) {
	r := newRig(t, withSites(t, SiteSettings{Domain: "example.com", IgnoreAddresses: []string{"192.0.2.0/24"}}))
	const hit = `"hits":[{"path":"/","ip":"192.0.2.7","user_agent":"Firefox"},{"path":"/","session":"s"}]}`
	for _, tt := range []struct{ filter, want string }{{"", "0"}, {`"filter":["ip"],`, "0"}, {`"filter":null,`, "0"}, {`"filter":[],`, ""}} {
		if got := r.hits(202, "{"+tt.filter+hit); got.header.Get(headerGoatFilter) != tt.want {
			t.Errorf("%s: filtered %q, want %q", tt.filter, got.header.Get(headerGoatFilter), tt.want)
		}
	}
	if n := len(r.events()); n != 5 {
		t.Errorf("%d events, want 5", n)
	}
}

func TestLimitsInEachDialect(t *testing.T) {
	sites, err := NewSites([]Site{{Domain: "example.com", Limits: Limits{PerAddress: 1}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(cfg *Config) { cfg.Sites = sites })
	limited := func(name string, send func() reply) {
		t.Helper()
		for range 20 { // the bucket of the address is shared by all dialects
			got := send()
			if got.status == http.StatusTooManyRequests {
				if got.header.Get("Retry-After") == "" || got.header.Get(HeaderReason) != string(RateLimited) {
					t.Errorf("%s: %v", name, got.header)
				}
				return
			}
		}
		t.Errorf("%s is not limited", name)
	}
	limited("Umami", func() reply { return r.do(http.MethodPost, "/api/send", []byte(umamiMessage(`"url":"/"`))) })
	limited("GoatCounter", func() reply { return r.do(http.MethodGet, "/count?p=/", nil, examplePage) })
	limited("pixel", func() reply { return r.do(http.MethodGet, "/pixel.gif?site=example.com&path=/", nil) })
}

func TestPlausibleHealth(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/api/health", "/api/system", "/api/system/health/live", "/api/system/health/ready", "/api/error"} {
		if got := r.do(http.MethodGet, path, nil); got.status != 200 {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
	unsalted := newRig(t, func(cfg *Config) { cfg.Salts = noSalts{} })
	if got := unsalted.do(http.MethodGet, "/api/system/health/ready", nil); got.status != 503 {
		t.Errorf("ready without salts: status %d, want 503", got.status)
	}
	if got := unsalted.do(http.MethodGet, "/api/system/health/live", nil); got.status != 200 {
		t.Errorf("live without salts: status %d", got.status)
	}
}

// What a site would not keep is refused in whichever dialect says that it is old, and never stored to vanish later.
func TestRetentionInEachDialect(t *testing.T) {
	r := newRig(t, withSites(t, SiteSettings{Domain: "example.com", RetentionDays: 3}))
	key := bearer(ingestSecret)
	for days, kept := range map[int]bool{2: true, 4: false} {
		at := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
		iso, seconds := at.UTC().Format(time.RFC3339), strconv.FormatInt(at.Unix(), 10)
		for _, d := range []struct {
			name, path, body, header string
		}{
			{"plausible", "/api/event", `{"n":"pageview","u":"https://example.com/","d":"example.com","ts":"` + iso + `"}`, "X-A: b"},
			{"umami", "/api/send", umamiMessage(`"url":"/","timestamp":` + seconds), "X-A: b"},
			{"umami, keyed", "/api/send", umamiMessage(`"url":"/","timestamp":` + seconds), key},
			{"goatcounter API", "/api/v0/count?site=example.com", `{"no_sessions":true,"hits":[{"path":"/","created_at":"` + iso + `"}]}`, key},
			{"native", "/v1/events", `{"site":"example.com","path":"/","ts":"` + iso + `"}`, key},
		} {
			before, refused := len(r.events()), r.refused(BeyondRetention)
			got := r.do(http.MethodPost, d.path, []byte(d.body), d.header)
			stored, counted := len(r.events())-before, r.refused(BeyondRetention)-refused
			if kept && (stored != 1 || counted != 0) || !kept && (stored != 0 || counted != 1 || got.status >= 500) {
				t.Errorf("%s, %d days old: %d %v %s: %d stored, %d refused", d.name, days, got.status, got.header, got.body, stored, counted)
			}
			if said := got.header.Get(HeaderReason) + got.body; !kept && !strings.Contains(said, string(BeyondRetention)) {
				t.Errorf("%s, %d days old: the reason is not told in %q", d.name, days, said)
			}
		}
	}
}
