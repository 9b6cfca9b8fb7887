package ingest

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

func TestCanonicalHost(t *testing.T) {
	tests := []struct{ host, want string }{
		{"example.com", "example.com"},
		{"WWW.Example.COM:443", "example.com"},
		{"example.com.", "example.com"},
		{"www.com", "www.com"},
		{"[2001:db8::1]:8080", "2001:db8::1"},
		{"2001:db8::1", "2001:db8::1"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example:80", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"a_b.Example.com", "a_b.example.com"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := canonicalHost(tt.host); got != tt.want {
			t.Errorf("canonicalHost(%q) = %q, want %q", tt.host, got, tt.want)
		}
	}
}

func TestSites(t *testing.T) {
	sites, err := NewSites([]Site{
		{Domain: "example.com"}, {Domain: "narrow.example", ExactHosts: true}, {Domain: "two.example", Hosts: []string{"www.one.example", "Two.example"}},
		{Domain: "blog.example.com"},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ host, want string }{
		{"example.com", "example.com"}, {"a.b.example.com", "example.com"}, {"blog.example.com", "blog.example.com"}, {"x.blog.example.com", "blog.example.com"},
		{"narrow.example", "narrow.example"}, {"a.narrow.example", ""}, {"one.example", "two.example"}, {"two.example", "two.example"},
		{"notexample.com", ""}, {"com", ""}, {"", ""},
	}
	for _, tt := range tests {
		got := ""
		if site, ok := sites.OfHost(tt.host); ok {
			got = site.Domain
		}
		if got != tt.want {
			t.Errorf("site of host %q is %q, want %q", tt.host, got, tt.want)
		}
	}
	if err := sites.Replace([]Site{{Domain: "a b"}}, false); err == nil {
		t.Error("a site with a space in its name is taken")
	}
	if err := sites.Replace([]Site{{Domain: "bücher.example"}, {Domain: "xn--bcher-kva.example"}}, false); err == nil {
		t.Error("one site is taken under two names")
	}
	if _, ok := sites.Lookup("example.com"); !ok {
		t.Error("a refused Replace has changed the sites")
	}
}

func TestAnySite(t *testing.T) {
	sites, err := NewSites([]Site{{Domain: "example.com", Public: true}}, true)
	if err != nil {
		t.Fatal(err)
	}
	for domain, want := range map[string]string{"example.com": "example.com", "New.example": "new.example", "localhost": "localhost", "a b": "", "": "", strings.Repeat("a", 300): ""} {
		site, ok := sites.Lookup(domain)
		if got := ok && site.Domain == want; got != (want != "") {
			t.Errorf("Lookup(%q) = %+v, %v, want %q", domain, site, ok, want)
		}
	}
}

func TestClientAddress(t *testing.T) {
	p, err := NewProxies([]string{"192.0.2.250", "192.0.2.251/32", "::1", "10.0.0.0/8"}, "")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ peer, forwarded, want string }{
		{"192.0.2.251", "192.0.2.66, 192.0.2.10, 192.0.2.250", "192.0.2.10"},
		{"192.0.2.250", "[2001:db8::1]:443", "2001:db8::1"},
		{"192.0.2.250", "192.0.2.7:60604", "192.0.2.7"},
		{"192.0.2.250", "unknown, , 192.0.2.10", "192.0.2.10"},
		{"192.0.2.250", "192.0.2.10, unknown", "192.0.2.10"},
		{"192.0.2.250", "::ffff:192.0.2.20", "192.0.2.20"},
		{"::ffff:10.1.2.3", "192.0.2.21", "192.0.2.21"},
		{"198.51.100.1", "192.0.2.20", "198.51.100.1"},
		{"192.0.2.250", "", "192.0.2.250"},
		{"192.0.2.250", "10.0.0.1", "10.0.0.1"},
		{"192.0.2.250", "unknown", "192.0.2.250"},
		{"192.0.2.250", "fe80::1%eth0", "fe80::1"},
	}
	for _, tt := range tests {
		if got := p.Client(netip.MustParseAddr(tt.peer), tt.forwarded); got.String() != tt.want {
			t.Errorf("Client(%s, %q) = %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
	if _, err := NewProxies([]string{"10.0.0.0/99"}, ""); err == nil {
		t.Error("a bad prefix is taken")
	}
}

func TestVisitorsBehindProxy(t *testing.T) {
	const body = `{"n":"pageview","u":"https://example.com/","d":"example.com"}`
	visitors := func(trusted ...string) int {
		p, err := NewProxies(trusted, "")
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, func(c *Config) { c.Proxies = p })
		for _, client := range []string{"192.0.2.20", "192.0.2.21:60604", "192.0.2.21:60605"} {
			r.beacon(202, body, "X-Forwarded-For: "+client)
		}
		seen := map[uint64]bool{}
		for _, e := range r.events() {
			seen[e.Visitor] = true
		}
		return len(seen)
	}
	if got := visitors("127.0.0.1"); got != 2 {
		t.Errorf("%d visitors through a trusted proxy, want 2", got)
	}
	if got := visitors(); got != 1 {
		t.Errorf("%d visitors through an untrusted peer, want 1", got)
	}
}

func TestCampaign(t *testing.T) {
	tests := []struct {
		query string
		want  campaign
	}{
		{"utm_source=Spring%20Sale", campaign{source: "Spring Sale"}},
		{"ref=r&source=s&utm_source=u&src=x", campaign{source: "u"}},
		{"src=x&ref=r", campaign{source: "r"}},
		{"utm_source=&ref=r", campaign{source: "r"}},
		{"utm_source=a&utm_source=b", campaign{source: "a"}},
		{"utm_source=%E0%A4%A&utm_term=100%25&utm_content=%2525", campaign{source: "\uFFFD%A", term: "100%", content: "%25"}},
		{"MSCLKID=1&gbraid=2&gclid=", campaign{clicks: 1<<1 | 1<<3}},
		{"utm_campaign=a%00b", campaign{name: "ab"}},
		{"&&=&a", campaign{}},
	}
	for _, tt := range tests {
		got := readCampaign(tt.query)
		got.sourceRank = 0
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(campaign{})); diff != "" {
			t.Errorf("%s: %s", tt.query, diff)
		}
	}
}

func TestLanguageTag(t *testing.T) {
	for tag, want := range map[string]string{
		"en": "en", "en-US": "en-US", "EN-us": "en-US", "zh-hans-cn": "zh-Hans-CN", "zh-Hans-CN": "zh-Hans-CN", "es-419": "es-419",
		"": "", "*": "", "e": "", "<script>": "", strings.Repeat("a", 36): "",
	} {
		if got := languageTag(tag); got != want {
			t.Errorf("languageTag(%q) = %q, want %q", tag, got, want)
		}
	}
}

func TestUnkeyedTime(t *testing.T) {
	received := time.Date(2025, 3, 1, 12, 59, 30, 0, time.UTC).UnixMilli()
	const flagged = schema.FlagTimeReplaced
	tests := []struct {
		ts    string
		want  int64
		flags uint16
	}{
		{`"2025-03-01T12:00:00+01:00"`, time.Date(2025, 3, 1, 11, 0, 0, 0, time.UTC).UnixMilli(), 0},
		{`1740830400000`, 1740830400000, 0},
		{`"2025-03-01T13:00:50Z"`, received, 0}, // 80 s ahead: ordinary drift
		{`"2099-01-01T00:00:00Z"`, received, flagged},
		{`"2025-02-01T00:00:00Z"`, received, flagged},
		{`"now"`, received, flagged},
		{`1e30`, received, flagged},
		{`{}`, received, flagged},
		{`null`, received, 0},
	}
	for _, tt := range tests {
		e := schema.Event{TS: received, ReceivedAt: received}
		setUnkeyedTime(&e, fastjson.MustParse(tt.ts))
		if e.TS != tt.want || e.Flags != tt.flags {
			t.Errorf("%s: ts %d, flags %d, want %d, %d", tt.ts, e.TS, e.Flags, tt.want, tt.flags)
		}
	}
}

func TestDayOf(t *testing.T) {
	tests := []struct{ at, zone, want string }{
		{"2025-06-14T18:29:59Z", "Asia/Kolkata", "2025-06-14"},
		{"2025-06-14T18:30:00Z", "Asia/Kolkata", "2025-06-15"},
		{"2025-03-30T22:30:00Z", "Europe/Berlin", "2025-03-31"},
		{"1969-12-31T23:59:59Z", "UTC", "1969-12-31"},
		{"2025-06-14T00:00:00Z", "Pacific/Kiritimati", "2025-06-14"},
		{"2025-06-14T10:00:00Z", "Pacific/Kiritimati", "2025-06-15"},
	}
	for _, tt := range tests {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := dayOf(at.UnixMilli(), zone).String(); got != tt.want {
			t.Errorf("day of %s in %s is %s, want %s", tt.at, tt.zone, got, tt.want)
		}
	}
}
