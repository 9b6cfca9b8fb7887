package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

const packagesDir = "testdata/browser/node_modules"

// trackers are packages that speak Plausible's format besides Plausible's own: each starts to count pages, and leaves a function buy
// whose promise ends when its event was answered.
var trackers = []struct{ pack, site, script string }{
	{"plausible-tracker", "tracker.example", `
		const plausible = require('plausible-tracker').default({ domain: site, apiHost })
		plausible.enableAutoPageviews()
		window.buy = () => new Promise(done => plausible.trackEvent('Buy', { props: { color: 'blue', amount: 3 }, callback: done }))`},
	{"plausible-client", "client.example", `
		const { Plausible, enableAutoPageviews } = require('plausible-client')
		const plausible = new Plausible({ domain: site, apiHost })
		enableAutoPageviews(plausible)
		window.buy = () => plausible.sendEvent('Buy', { props: { color: 'blue', amount: 3, nothing: null }, revenue: { currency: 'USD', amount: 5 } })`},
}

// TestTrackers lets a real browser run the trackers of others: what each of them sends is counted once, with nothing changed but the
// address that it sends to.
func TestTrackers(t *testing.T) {
	chromium := findBrowser(t)
	var sites []string
	for _, tracker := range trackers {
		sites = append(sites, tracker.site)
	}
	p := startServer(t, t.TempDir(), "--site="+strings.Join(sites, ","))
	port := servePackages(t, p)
	ctx := startBrowser(t, chromium)
	for _, tracker := range trackers {
		err := chromedp.Do(ctx,
			chromedp.Navigate("http://"+tracker.site+":"+port+"/products/?utm_source=newsletter"),
			chromedp.Poll[chromedp.Void]("window.buy !== undefined"),
			script(`history.pushState({}, '', '/products/7#reviews')`),
			script(`history.pushState({}, '', '/cart')`),
			script(`history.replaceState({}, '', '/cart?step=2')`), // the same page: no view
			script(`new Promise(done => { addEventListener('popstate', () => setTimeout(done)); history.back() })`),
			script(`buy()`),
		)
		if err != nil {
			t.Fatalf("%s: %v", tracker.pack, err)
		}
	}
	for _, tracker := range trackers {
		checkTracker(t, p, tracker.pack, tracker.site)
	}
}

func checkTracker(t *testing.T, p *process, pack, site string) {
	t.Helper()
	var count struct{ Views, Visitors int64 }
	eventually(t, time.Minute, func() error {
		if status, body := p.get("/v1/count?site="+site, &count); status != http.StatusOK || count.Views < 4 {
			return fmt.Errorf("%s: count %d %s", pack, status, body)
		}
		return nil
	})
	p.awaitNothingPending()
	conn, err := connect(t.Context(), &Settings{Data: p.data, ClickHouse: embeddedEngine})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rows, err := conn.Query(t.Context(), `SELECT name, path, source, screen != '', toString(mapSort(props)), sum(n) FROM events WHERE site = ? GROUP BY ALL ORDER BY name, path`, site)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	type stored struct {
		Name, Path, Source string
		Screen             bool
		Props              string
		N                  int64
	}
	var got []stored
	for rows.Next() {
		var s stored
		if err := rows.Scan(&s.Name, &s.Path, &s.Source, &s.Screen, &s.Props, &s.N); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	want := []stored{
		{"Buy", "/products/7", "", true, "{'amount':'3','color':'blue'}", 1},
		{"pageview", "/cart", "", true, "{}", 1},
		{"pageview", "/products", "newsletter", true, "{}", 1},
		{"pageview", "/products/7", "", true, "{}", 2},
	}
	if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
		t.Errorf("%s: stored (-want +got): %v\n%s", pack, rows.Err(), diff)
	}
	if status, body := p.get("/v1/count?site="+site, &count); status != http.StatusOK || count.Views != 4 || count.Visitors != 1 {
		t.Errorf("%s: count %d %s, want 4 views of 1 visitor", pack, status, body)
	}
}

// servePackages serves each tracker's page at the host of its site, and all packages; it returns the port.
func servePackages(t *testing.T, p *process) string {
	t.Helper()
	page, err := template.ParseFiles("testdata/browser/require.html")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /packages/{name...}", servePackage)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		for _, tracker := range trackers {
			if !strings.HasPrefix(r.Host, tracker.site+":") {
				continue
			}
			err := page.Execute(w, map[string]any{
				"Site": tracker.site, "API": "http://stats.example:" + portOf(t, p.url), "Script": template.JS(tracker.script),
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return portOf(t, server.URL)
}

// servePackage serves a file of a package, and redirects from a module's name to the file that it means.
func servePackage(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("/" + r.PathValue("name"))
	file := filepath.Join(packagesDir, filepath.FromSlash(name))
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		http.ServeFile(w, r, file)
		return
	}
	index := "index.js"
	var manifest struct{ Main string }
	if data, err := os.ReadFile(filepath.Join(file, "package.json")); err == nil && json.Unmarshal(data, &manifest) == nil && manifest.Main != "" {
		index = manifest.Main
	}
	for _, candidate := range []string{name + ".js", path.Join(name, index)} {
		if info, err := os.Stat(filepath.Join(packagesDir, filepath.FromSlash(candidate))); err == nil && info.Mode().IsRegular() {
			http.Redirect(w, r, "/packages"+candidate, http.StatusFound)
			return
		}
	}
	http.NotFound(w, r)
}
