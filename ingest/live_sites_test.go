package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

// full has a value in every setting.
var full = SiteSettings{
	Domain: "example.com", Hosts: []string{"example.com", "shop.example.net"}, ExactHosts: true, Zone: "Asia/Kathmandu",
	HashRouting: true, KeepQuery: []string{"page", "id"}, Public: true, Badge: true, WeekStart: "sunday",
	AddressLimit: 2.5, SiteLimit: 70, PathLimit: 1000, RetentionDays: 30, RespectDNT: true, RespectGPC: true,
	IgnoreAddresses: []string{"192.0.2.0/24"}, IgnoreHosts: []string{"*.dev.example.com"}, IgnorePaths: []string{"/admin/**"}, IgnoreCountries: []string{"NO"}, Goals: []string{"signup", "/thanks/**"},
}

func TestLiveSites(t *testing.T) {
	conn := migrated(t)
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "sites")
	cfg := LiveSitesConfig{Path: path, Conn: conn, Named: []string{"named.example", "EXAMPLE.com"}, Settings: []SiteSettings{{Domain: "file.example", Public: true}}}
	sites, err := OpenLiveSites(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := sites.Lookup("bücher.example"); ok {
		t.Error("a site nobody added is known")
	}

	for _, one := range []SiteSettings{full, {Domain: "bücher.example"}, {Domain: "file.example", Zone: "Europe/Berlin"}} {
		if err := AddSite(ctx, conn, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := AddSite(ctx, conn, SiteSettings{Domain: "XN--BCHER-KVA.example"}); !errors.Is(err, ErrSiteExists) {
		t.Errorf("the same site in another script: %v, want ErrSiteExists", err)
	}
	if err := AddSite(ctx, conn, SiteSettings{Domain: "a.example", Zone: "Mars/Olympus"}); err == nil {
		t.Error("a site in no zone is stored")
	}
	refresh(t, sites)

	records, err := ListSites(ctx, conn)
	if err != nil || len(records) != 3 {
		t.Fatalf("%d sites, %v", len(records), err)
	}
	if diff := cmp.Diff(full, records[0].SiteSettings); diff != "" {
		t.Errorf("not stored as written (-want +got):\n%s", diff)
	}
	site, _ := sites.Lookup("example.com")
	if site == nil || site.Zone.String() != "Asia/Kathmandu" || !site.Public || !site.Badge || site.WeekStart != 7 || site.Retention != 30 ||
		site.Limits != (Limits{2.5, 70, 1000}) || site.HasHost("a.example.com") || !site.HasHost("shop.example.net") ||
		!cmp.Equal(site.Paths, schema.PathRules{HashRouting: true, KeepQuery: []string{"page", "id"}}) {
		t.Errorf("site %+v", site)
	}
	var sources []string
	for _, k := range sites.Known() {
		used := ""
		if k.Unused != "" {
			used = " unused"
		}
		sources = append(sources, k.Domain+" "+k.Source+used)
	}
	want := []string{"file.example configuration", "example.com table", "bücher.example table", "file.example table unused", "named.example --site"}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if site, _ := sites.Lookup("file.example"); site == nil || !site.Public || site.Zone != time.UTC {
		t.Errorf("the table's settings count for a site of the configuration: %+v", site)
	}

	testSitesOffline(t, path)

	refresh(t, sites)
	if again, _ := sites.Lookup("example.com"); again != site {
		t.Error("a refresh without changes made other sites")
	}
	changed, err := ChangeSite(ctx, conn, "Example.com", func(s *SiteSettings) { s.Public, s.Domain = false, "evil.example" })
	if err != nil || changed.Public || changed.Domain != "example.com" {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	if _, err := ChangeSite(ctx, conn, "example.com", func(s *SiteSettings) { s.WeekStart = "someday" }); err == nil {
		t.Error("a bad change is stored")
	}
	if removed, err := RemoveSite(ctx, conn, "xn--bcher-kva.example"); err != nil || removed != "bücher.example" {
		t.Errorf("removed %q, %v", removed, err)
	}
	if _, err := RemoveSite(ctx, conn, "bücher.example"); !errors.Is(err, ErrNoSite) {
		t.Errorf("removed twice: %v, want ErrNoSite", err)
	}
	refresh(t, sites)
	if site, _ := sites.Lookup("example.com"); site == nil || site.Public {
		t.Errorf("the change did not arrive: %+v", site)
	}
	if _, ok := sites.Lookup("bücher.example"); ok {
		t.Error("a removed site is known")
	}
	if err := AddSite(ctx, conn, SiteSettings{Domain: "bücher.example", Public: true}); err != nil {
		t.Errorf("add again: %v", err)
	}
	refresh(t, sites)
	if site, _ := sites.Lookup("bücher.example"); site == nil || !site.Public {
		t.Errorf("added again: %+v", site)
	}
}

func refresh(t *testing.T, sites *LiveSites) {
	t.Helper()
	if err := sites.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testSitesOffline starts from the file alone.
func testSitesOffline(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info, err)
	}
	offline, err := OpenLiveSites(LiveSitesConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	site, ok := offline.Lookup("example.com")
	if !ok || site.WeekStart != 7 || len(site.ignored.paths) != 1 {
		t.Errorf("offline: %+v", site)
	}
}

// A row that these functions would not have written takes itself out, not the others, and never an earlier state's place.
func TestLiveSitesWithABadRow(t *testing.T) {
	conn := migrated(t)
	ctx := t.Context()
	if err := AddSite(ctx, conn, SiteSettings{Domain: "good.example"}); err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{"domain, zone) VALUES ('bad.example', 'Mars/Olympus'", "domain, site_limit) VALUES ('nan.example', nan", "domain) VALUES (''"} {
		if err := conn.Exec(ctx, "INSERT INTO sites ("+values+")"); err != nil {
			t.Fatal(err)
		}
	}
	sites, err := OpenLiveSites(LiveSitesConfig{Path: filepath.Join(t.TempDir(), "sites"), Conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	refresh(t, sites)
	unused := 0
	for _, k := range sites.Known() {
		if k.Unused != "" {
			unused++
		}
	}
	if _, ok := sites.Lookup("good.example"); !ok || unused != 3 {
		t.Errorf("good one known: %t, %d unused, want true and 3", ok, unused)
	}
}

func TestLiveSitesRefuseABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sites")
	for _, content := range []string{"x", `{"domain":1}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLiveSites(LiveSitesConfig{Path: path}); err == nil {
			t.Errorf("%q is taken for sites", content)
		}
	}
}

func TestConfiguredSitesRefused(t *testing.T) {
	for _, cfg := range []LiveSitesConfig{
		{Settings: []SiteSettings{{Domain: "a.example"}, {Domain: "A.example"}}},
		{Settings: []SiteSettings{{Domain: "a.example", Zone: "x"}}},
		{Named: []string{"https://a.example"}},
	} {
		if _, err := OpenLiveSites(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// One event for several sites is judged by each site's own settings.
func TestOneEventForSitesOfDifferentSettings(t *testing.T) {
	r := newRig(t, behindProxy, withSites(t,
		SiteSettings{Domain: "a.example", Hosts: []string{"shared.example"}, KeepQuery: []string{"page"}, Zone: "Asia/Tokyo"},
		SiteSettings{Domain: "b.example", Hosts: []string{"shared.example"}, HashRouting: true},
		SiteSettings{Domain: "c.example", Hosts: []string{"shared.example"}, IgnoreAddresses: []string{"192.0.2.1"}},
		SiteSettings{Domain: "d.example", Hosts: []string{"shared.example"}, RespectDNT: true},
		SiteSettings{Domain: "e.example"},
	))
	got := r.beacon(202, `{"n":"pageview","u":"https://www.shared.example/p?page=2&x=1#/in","d":"a.example, b.example,c.example,A.example,d.example,e.example"}`,
		"DNT: 1", "X-Forwarded-For: 192.0.2.1")
	if dropped, reason := got.header.Get(HeaderDropped), got.header.Get(HeaderReason); dropped != "3" || reason != "ignored_address, dnt, foreign_host" {
		t.Errorf("dropped %q for %q", dropped, reason)
	}
	pages := map[string]string{}
	visitors := map[uint64]bool{}
	for _, e := range r.events() {
		pages[e.Site] = e.PathKey
		visitors[e.Visitor] = true
	}
	if diff := cmp.Diff(map[string]string{"a.example": "/p?page=2", "b.example": "/p#/in"}, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if len(visitors) != 2 {
		t.Errorf("%d visitor hashes at two sites: a person must not be followed from one to the other", len(visitors))
	}
}
