package main

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

const (
	trackerDir = "testdata/browser/node_modules/@plausible-analytics/tracker"
	// desktopChrome is what the browser calls itself: headless, it would tell that it is driven by a program.
	desktopChrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"
)

// TestBrowser lets a real browser run Plausible's tracker on a page of another origin: loading a page, moving through its history
// and a custom event are counted, each once.
func TestBrowser(t *testing.T) {
	chromium := findBrowser(t)
	p := startServer(t, t.TempDir(), "--site=shop.example")
	shop := serveShop(t, p)
	ctx := startBrowser(t, chromium)

	err := chromedp.Do(ctx,
		chromedp.Navigate(shop+"/products?utm_source=newsletter&size=42"),
		chromedp.Poll[chromedp.Void]("window.addToCart !== undefined"),
		script(`history.pushState({}, '', '/products/7')`),
		script(`history.pushState({}, '', '/cart')`),
		script(`history.replaceState({}, '', '/cart?step=2')`), // the same page: no view
		script(`new Promise(done => { addEventListener('popstate', () => setTimeout(done)); history.back() })`),
	)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[struct{ Status int }](`addToCart()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != http.StatusAccepted {
		t.Errorf("the custom event was answered %d, want 202 readable across origins", answer.Status)
	}
	awaitShopViews(t, p, 4)
	p.awaitNothingPending()
	checkShopCounts(t, p)
	checkShopEvents(t, p)
}

// script runs JavaScript in the page, and waits for the promise that it may return.
func script(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](text, chromedp.EvalAwaitPromise)
}

// findBrowser skips the test when the browser is missing, except in CI, where this must not go unnoticed.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no chromium on the PATH")
	}
	t.Skip("no chromium on the PATH")
	return ""
}

// serveShop serves the page under every path, and the tracker from its npm package, and returns the shop's origin.
func serveShop(t *testing.T, p *process) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(trackerDir, "plausible.js")); err != nil {
		t.Fatalf("%v: run npm ci --prefix cmd/pagetally/testdata/browser", err)
	}
	page, err := template.ParseFiles("testdata/browser/page.html")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /tracker/", http.StripPrefix("/tracker/", http.FileServer(http.Dir(trackerDir))))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		if err := page.Execute(w, "http://stats.example:"+portOf(t, p.url)+"/api/event"); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return "http://shop.example:" + portOf(t, server.URL)
}

func portOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// startBrowser runs a browser that takes every host name for this machine: the tracker ignores pages on localhost.
func startBrowser(t *testing.T, path string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.UserAgent(desktopChrome), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("headless", "new"),
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"),
		chromedp.Flag("enable-automation", false),
		chromedp.Flag("disable-blink-features", "AutomationControlled"), // the tracker ignores browsers driven by a program
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-proxy-server", true),
	)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventLoadingFailed:
			t.Logf("browser: request failed: %s %+v", e.ErrorText, e.CorsErrorStatus)
		case *runtime.EventExceptionThrown:
			t.Errorf("browser: %v", e.ExceptionDetails)
		}
	})
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	return ctx
}

// awaitShopViews waits until the exact count of the site's views is want.
func awaitShopViews(t *testing.T, p *process, want int64) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		if views := shopViews(p, ""); views < want {
			return fmt.Errorf("%d views, want %d", views, want)
		}
		return nil
	})
}

// shopViews reads the exact count of a page, or of the site.
func shopViews(p *process, path string) int64 {
	p.t.Helper()
	query := url.Values{"site": {"shop.example"}}
	if path != "" {
		query.Set("path", path)
	}
	var count struct{ Views int64 }
	if status, body := p.get("/v1/count?"+query.Encode(), &count); status != http.StatusOK {
		p.t.Logf("count: %d %s", status, body) // the engine still starts
	}
	return count.Views
}

// awaitNothingPending waits until everything that was acknowledged is counted.
func (p *process) awaitNothingPending() {
	p.t.Helper()
	eventually(p.t, time.Minute, func() error {
		var ledger struct{ Pending, Open int64 }
		if status, body := p.get("/v1/ledger", &ledger); status != http.StatusOK || ledger.Pending+ledger.Open != 0 {
			return fmt.Errorf("ledger: %d %s", status, body)
		}
		return nil
	})
}

func checkShopCounts(t *testing.T, p *process) {
	t.Helper()
	for _, tt := range []struct {
		path string
		want int64
	}{{"", 4}, {"/products", 1}, {"/products/7", 2}, {"/cart", 1}} {
		if got := shopViews(p, tt.path); got != tt.want {
			t.Errorf("page %q has %d views, want %d", tt.path, got, tt.want)
		}
	}
}

// checkShopEvents looks at what was stored. Engagement pings come when the browser finds that it is time, and count nowhere.
func checkShopEvents(t *testing.T, p *process) {
	t.Helper()
	conn, err := connect(t.Context(), &Settings{Data: p.data, ClickHouse: embeddedEngine})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rows, err := conn.Query(t.Context(), `SELECT name, path, source, browser, props['variant'], sum(n), uniqExact(visitor)
		FROM events WHERE name != 'engagement' GROUP BY ALL ORDER BY name, path, source`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	type stored struct {
		Name, Path, Source, Browser, Variant string
		N                                    int64
		Visitors                             uint64
	}
	var got []stored
	for rows.Next() {
		var s stored
		if err := rows.Scan(&s.Name, &s.Path, &s.Source, &s.Browser, &s.Variant, &s.N, &s.Visitors); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	want := []stored{
		{"Add to cart", "/products/7", "", "Chrome", "blue", 1, 1},
		{"pageview", "/cart", "", "Chrome", "", 1, 1},
		{"pageview", "/products", "newsletter", "Chrome", "", 1, 1},
		{"pageview", "/products/7", "", "Chrome", "", 2, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
		t.Errorf("stored (-want +got): %v\n%s", rows.Err(), diff)
	}
	var visitors uint64
	if err := conn.QueryRow(t.Context(), "SELECT uniqExact(visitor) FROM events").Scan(&visitors); err != nil || visitors != 1 {
		t.Errorf("%d visitors, error %v, want 1", visitors, err)
	}
}
