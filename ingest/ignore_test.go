package ingest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pagetally/pagetally/schema"
)

// withSites gives the rig sites of these settings and no others.
func withSites(t testing.TB, list ...SiteSettings) func(*Config) {
	t.Helper()
	sites, err := OpenLiveSites(LiveSitesConfig{Settings: list})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Sites = sites.Sites }
}

// behindProxy makes the rig believe X-Forwarded-For.
func behindProxy(c *Config) { c.Proxies, _ = NewProxies([]string{"127.0.0.0/8"}, "") }

func TestSiteFilters(t *testing.T) {
	r := newRig(t, behindProxy, withSites(t,
		SiteSettings{
			Domain: "example.com", RespectDNT: true, RespectGPC: true,
			IgnoreAddresses: []string{"192.0.2.0/24", "2001:db8::1"}, IgnoreHosts: []string{"staging.example.com", "*.dev.example.com"},
			IgnorePaths: []string{"/admin/**", "/caf%C3%A9/", "/*/draft"},
		},
		SiteSettings{Domain: "example.org"}, SiteSettings{Domain: "dnt.example", RespectDNT: true},
	))
	tests := []struct {
		name, site, url, header string
		want                    Reason
	}{
		{"plain", "example.com", "https://example.com/", "", Accepted},
		{"office", "example.com", "https://example.com/", "X-Forwarded-For: 192.0.2.77", IgnoredAddress},
		{"office, mapped into IPv6", "example.com", "https://example.com/", "X-Forwarded-For: ::ffff:192.0.2.77", IgnoredAddress},
		{"one address", "example.com", "https://example.com/", "X-Forwarded-For: 2001:db8::1", IgnoredAddress},
		{"its neighbour", "example.com", "https://example.com/", "X-Forwarded-For: 2001:db8::2", Accepted},
		{"another site's visitor", "example.org", "https://example.org/", "X-Forwarded-For: 192.0.2.77", Accepted},
		{"staging", "example.com", "https://STAGING.example.com:8443/", "", IgnoredHost},
		{"below staging", "example.com", "https://a.staging.example.com/", "", Accepted},
		{"below dev", "example.com", "https://a.b.dev.example.com/", "", IgnoredHost},
		{"dev itself", "example.com", "https://dev.example.com/", "", Accepted},
		{"a path alone has no host", "example.com", "/page", "", Accepted},
		{"page below", "example.com", "https://example.com/admin/users?x=1", "", IgnoredPath},
		{"page beside", "example.com", "https://example.com/administration", "", Accepted},
		{"escaped page", "example.com", "https://example.com/caf%c3%a9", "", IgnoredPath},
		{"one segment", "example.com", "https://example.com/post/draft/", "", IgnoredPath},
		{"two segments", "example.com", "https://example.com/post/2/draft", "", Accepted},
		{"do not track", "example.com", "https://example.com/", "DNT: 1", DoNotTrack},
		{"may be tracked", "example.com", "https://example.com/", "DNT: 0", Accepted},
		{"privacy control", "example.com", "https://example.com/", "Sec-GPC: 1", PrivacyControl},
		{"a wish that the site does not ask for", "example.org", "https://example.org/", "DNT: 1", Accepted},
		{"only the other wish", "dnt.example", "https://dnt.example/", "Sec-GPC: 1", Accepted},
	}
	counted, refused := 0, map[Reason]int{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if tt.header != "" {
				headers = append(headers, tt.header)
			}
			got := r.do(http.MethodPost, "/api/event", []byte(`{"n":"pageview","d":"`+tt.site+`","u":"`+tt.url+`"}`), headers...)
			if got.status != http.StatusAccepted || got.header.Get(HeaderReason) != string(tt.want) {
				t.Errorf("status %d, reason %q, want 202 and %q", got.status, got.header.Get(HeaderReason), tt.want)
			}
		})
		refused[tt.want]++
		if tt.want == Accepted {
			counted++
		}
	}
	if got := len(r.events()); got != counted {
		t.Errorf("%d events counted, want %d", got, counted)
	}
	for reason, want := range refused {
		if got := r.refusedOf("example.com", reason); reason != Accepted && got != want {
			t.Errorf("refused for %s: %d, want %d", reason, got, want)
		}
	}
}

// refusedOf is the number of refused events of one site and reason.
func (r *rig) refusedOf(site string, reason Reason) int {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "pagetally_ingest_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["site"] == site && labels["reason"] == string(reason) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// TestJobsAreNoVisitors: the headers of a job say nothing about its visitors; the address that it names does.
func TestJobsAreNoVisitors(t *testing.T) {
	r := newRig(t, withSites(t, SiteSettings{Domain: "example.com", RespectDNT: true, IgnoreAddresses: []string{"127.0.0.0/8", "192.0.2.7"}}))
	got := r.post(http.StatusAccepted, `[{"site":"example.com","path":"/a"},{"site":"example.com","path":"/b","ip":"192.0.2.7"}]`,
		bearer(ingestSecret), "DNT: 1")
	if got.Accepted != 1 || len(got.Errors) != 1 || got.Errors[0].Reason != IgnoredAddress || got.Errors[0].Field != "ip" || got.Errors[0].Index != 1 {
		t.Errorf("got %+v, want the first counted and the second %s", got, IgnoredAddress)
	}
}

func TestIgnoredCountry(t *testing.T) {
	settings := SiteSettings{Domain: "example.com", IgnoreCountries: []string{"no", "XK"}}
	site, err := settings.Site(nil)
	if err != nil {
		t.Fatal(err)
	}
	for country, want := range map[string]Reason{"NO": IgnoredCountry, "XK": IgnoredCountry, "DE": Accepted, "": Accepted} {
		h := hit{site: &site, event: schema.Event{Country: country}}
		if got := checkIgnoredCountry(nil, &h); got != want {
			t.Errorf("%q: %q, want %q", country, got, want)
		}
	}
}

// A check stands behind the step that finds what it judges.
func TestFiltersComeAfterWhatTheyJudge(t *testing.T) {
	at := func(name string) int {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("no step %q", name)
		}
		return i
	}
	for finds, judges := range map[string]string{"host": "ignored host", "page": "ignored path", "place": "ignored country"} {
		if at(finds) > at(judges) {
			t.Errorf("%s stands before %s", judges, finds)
		}
	}
}

func TestPathPatterns(t *testing.T) {
	tests := []struct{ pattern, matches, others string }{
		{"/a", "/a", "/a/ /b /aa"},
		{"/a/", "/a", "/"},
		{"/", "/", "/a"},
		{"/a/*", "/a/b /a/", "/a /a/b/c"},
		{"/a/**", "/a/b /a/b/c /a/", "/a /ab"},
		{"/a**", "/a /ab /a/b", "/b"},
		{"**", "/ /a/b", ""},
		{"*/x", "/x", "/a/x"},
		{"**/x", "/x /a/b/x", "/x/y"},
		{"/a/**/z", "/a/b/z /a/b/c/z", "/a/z"},
		{"/a.b+c", "/a.b+c", "/aXb+c /a.bbc"},
		{"/*.php", "/index.php", "/index.html /a/index.php"},
		{"/?page=*", "/?page=1", "/"},
		{"/#/in/**", "/#/in/a/b", "/#/out"},
		{"/%E6%A9%9F/*", "/機/1", "/機"},
	}
	for _, tt := range tests {
		p, err := parsePathPattern(tt.pattern)
		if err != nil {
			t.Fatalf("%s: %v", tt.pattern, err)
		}
		for _, path := range strings.Fields(tt.matches) {
			if !p.matches(path) {
				t.Errorf("%s does not match %s", tt.pattern, path)
			}
		}
		for _, path := range strings.Fields(tt.others) {
			if p.matches(path) {
				t.Errorf("%s matches %s", tt.pattern, path)
			}
		}
	}
}

func TestSiteSettingsRefused(t *testing.T) {
	many := make([]string, maxIgnored+1)
	for i := range many {
		many[i] = "192.0.2.1"
	}
	tests := []struct {
		field    string
		settings SiteSettings
	}{
		{"domain", SiteSettings{Domain: ""}},
		{"domain", SiteSettings{Domain: "https://a.example"}},
		{"domain", SiteSettings{Domain: "/blog"}},
		{"domain", SiteSettings{Domain: ":80"}},
		{"hosts", SiteSettings{Hosts: []string{"a.example", ""}}},
		{"hosts", SiteSettings{Hosts: []string{"https://a.example/"}}},
		{"zone", SiteSettings{Zone: "Mars/Olympus"}},
		{"zone", SiteSettings{Zone: "Local"}},
		{"keep-query", SiteSettings{KeepQuery: []string{"a=b"}}},
		{"keep-query", SiteSettings{KeepQuery: []string{"a", "a"}}},
		{"week-start", SiteSettings{WeekStart: "someday"}},
		{"goals", SiteSettings{Goals: []string{""}}},
		{"goals", SiteSettings{Goals: []string{"pageview"}}},
		{"goals", SiteSettings{Goals: []string{"signup", "signup"}}},
		{"goals", SiteSettings{Goals: []string{" signup"}}},
		{"address-limit", SiteSettings{AddressLimit: -1}},
		{"site-limit", SiteSettings{SiteLimit: maxBeaconRate + 1}},
		{"path-limit", SiteSettings{PathLimit: -5}},
		{"retention-days", SiteSettings{RetentionDays: -1}},
		{"ignore-addresses", SiteSettings{IgnoreAddresses: []string{"10.0.0.0/33"}}},
		{"ignore-addresses", SiteSettings{IgnoreAddresses: many}},
		{"ignore-hosts", SiteSettings{IgnoreHosts: []string{"a.example/x"}}},
		{"ignore-hosts", SiteSettings{IgnoreHosts: []string{"www.a.example"}}},
		{"ignore-paths", SiteSettings{IgnorePaths: []string{"admin"}}},
		{"ignore-paths", SiteSettings{IgnorePaths: []string{""}}},
		{"ignore-countries", SiteSettings{IgnoreCountries: []string{"Norway"}}},
	}
	for _, tt := range tests {
		if tt.settings.Domain == "" && tt.field != "domain" {
			tt.settings.Domain = "a.example"
		}
		if _, err := tt.settings.Site(nil); err == nil || !strings.Contains(err.Error(), ": "+tt.field+": ") {
			t.Errorf("%+v: error %v, want one that names %s", tt.settings, err, tt.field)
		}
	}
}
