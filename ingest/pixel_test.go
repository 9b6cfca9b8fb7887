package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

func TestPixel(t *testing.T) {
	const page = "Referer: https://www.example.com/from/page?x=1"
	tests := []struct {
		name, query string
		headers     []string
		want        schema.Event // site, name, hostname, path, title, source
	}{
		{"URL", "url=https%3A%2F%2Fblog.example.com%2Fa%2F%3Futm_source%3Dfeed", nil, schema.Event{Site: "example.com", Hostname: "blog.example.com", Path: "/a", Source: "feed"}},
		{"site and path, no page", "site=example.com&path=/newsletter/7", nil, schema.Event{Site: "example.com", Path: "/newsletter/7"}},
		{"site and path, shown elsewhere", "site=example.com&path=/p", []string{"Referer: https://reader.example/feed"}, schema.Event{Site: "example.com", Path: "/p"}},
		{"path, shown by the site", "path=/p", []string{page}, schema.Event{Site: "example.com", Hostname: "example.com", Path: "/p"}},
		{"the page that shows it", "", []string{page}, schema.Event{Site: "example.com", Hostname: "example.com", Path: "/from/page"}},
		{"title, name and referrer", "site=example.com&path=/&title=A+%C3%BC&name=Opened&referrer=https://ref.example/", nil,
			schema.Event{Site: "example.com", Name: "Opened", Path: "/", Title: "A ü", Source: "ref.example"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			got := r.do(http.MethodGet, "/pixel.gif?"+tt.query, nil, tt.headers...)
			if got.status != 200 || got.header.Get(HeaderReason) != "" {
				t.Errorf("status %d, reason %q", got.status, got.header.Get(HeaderReason))
			}
			e := r.only()
			got1 := schema.Event{Site: e.Site, Name: e.Name, Hostname: e.Hostname, Path: e.Path, Title: e.Title, Source: e.Source}
			if tt.want.Name == "" {
				tt.want.Name = schema.PageView
			}
			if diff := cmp.Diff(tt.want, got1); diff != "" {
				t.Error(diff)
			}
			if e.Visitor == 0 || e.Browser != "Chrome" {
				t.Errorf("visitor %d, browser %q", e.Visitor, e.Browser)
			}
		})
	}
}

// A browser or an image proxy that keeps the image hides the next view; a look at its headers is none.
func TestPixelIsNeverKept(t *testing.T) {
	r := newRig(t)
	for _, query := range []string{"a=1", "a=2"} {
		got := r.do(http.MethodGet, "/pixel.gif?site=example.com&path=/&"+query, nil)
		checkGIF(t, got, 200)
	}
	head := r.do(http.MethodHead, "/pixel.gif?site=example.com&path=/", nil)
	if head.status != 200 || head.body != "" || head.header.Get("Cache-Control") != "no-store, no-cache" {
		t.Errorf("HEAD: %d %q %v", head.status, head.body, head.header)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if got := r.do(method, "/pixel.gif?site=example.com&path=/", nil); got.status != 405 {
			t.Errorf("%s: status %d, want 405", method, got.status)
		}
	}
	if n := len(r.events()); n != 2 {
		t.Errorf("%d views, want 2", n)
	}
}

func checkGIF(t testing.TB, got reply, status int) {
	t.Helper()
	if got.status != status || len(got.body) != 43 || !strings.HasPrefix(got.body, "GIF89a") {
		t.Errorf("status %d, %d bytes %.6q, want %d and a GIF of 43", got.status, len(got.body), got.body, status)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/gif", "Cache-Control": "no-store, no-cache", "Cross-Origin-Resource-Policy": "cross-origin", "Etag": "", "Last-Modified": "",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}

func TestPixelRefusals(t *testing.T) {
	tests := []struct {
		name, query string
		headers     []string
		status      int
		reason      Reason
	}{
		{"no page at all", "site=example.com", nil, 400, BadField},
		{"path in url", "url=/a", nil, 400, BadField},
		{"no host", "url=https:///a", nil, 400, BadField},
		{"file", "site=example.com&url=file://host/a", nil, 400, Scheme},
		{"unknown site", "site=nope.example&path=/", nil, 400, UnknownSite},
		{"which of the sites", "path=/", nil, 400, UnknownSite},
		{"shown by a stranger", "", []string{"Referer: https://other.example/"}, 400, UnknownSite},
		{"URL of another", "site=example.com&url=https://other.example/", nil, 400, ForeignHost},
		{"reserved name", "site=example.com&path=/&name=engagement", nil, 400, BadField},
		{"blank name", "site=example.com&path=/&name=%00+", nil, 400, BadField},
		{"long name", "site=example.com&path=/&name=" + strings.Repeat("x", 121), nil, 400, BadField},
		{"bot", "site=example.com&path=/", []string{"User-Agent: curl/8.0"}, 200, Bot},
		{"no agent", "site=example.com&path=/", []string{"User-Agent: "}, 200, NoAgent},
		{"prefetch", "site=example.com&path=/", []string{"Sec-Purpose: prefetch"}, 200, Prefetch},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.do(http.MethodGet, "/pixel.gif?"+tt.query, nil, tt.headers...)
			checkGIF(t, got, tt.status)
			if reason := got.header.Get(HeaderReason); reason != string(tt.reason) {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
		})
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events were journaled, want none", n)
	}
}

// With a single site there is nothing to choose: a page that hides its address is that site's.
func TestPixelOfTheOnlySite(t *testing.T) {
	r := newRig(t, onlySite(t))
	if got := r.do(http.MethodGet, "/pixel.gif?path=/a", nil); got.status != 200 {
		t.Errorf("status %d: %v", got.status, got.header)
	}
	if e := r.only(); e.Site != "example.com" || e.Path != "/a" {
		t.Errorf("event of %q, path %q", e.Site, e.Path)
	}
}

func onlySite(t *testing.T) func(*Config) {
	t.Helper()
	sites, err := NewSites([]Site{{Domain: "example.com"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *Config) { cfg.Sites = sites }
}

// Until the event is on disk the image must not look as if it was counted.
func TestPixelOfAFullJournal(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.Journal = brokenJournal{journal.ErrFull} })
	got := r.do(http.MethodGet, "/pixel.gif?site=example.com&path=/", nil)
	checkGIF(t, got, 503)
	if got.header.Get("Retry-After") == "" || got.header.Get(HeaderReason) != string(Unavailable) {
		t.Errorf("headers %v", got.header)
	}
}
