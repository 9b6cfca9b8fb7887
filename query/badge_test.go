package query

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// manyViews are n views of a page by as many visitors.
func manyViews(s *tables, path string, n int) {
	e := view("2025-05-05T10:20:00Z", path)
	e.N = int64(n)
	s.insert(e)
}

func TestBadges(t *testing.T) {
	s := newTables(t)
	manyViews(s, "/blog/a post", 1234567)
	manyViews(s, "/", 3)
	app := newApp(t, s)
	site := "?site=" + s.site
	for _, test := range []struct {
		name, url string
		status    int
		want      string
	}{
		{"page", "/badge/blog/a%20post.json" + site, 200, `"path":"/blog/a post","views":1234567,`},
		{"start page", "/badge/.json" + site, 200, `"path":"/","views":3,`},
		{"whole site", "/badge/TOTAL.json" + site, 200, `"views":1234570,`},
		{"page of no views", "/badge/nowhere.json" + site, 200, `"views":0,`},
		{"days", "/badge/TOTAL.json" + site + "&from=2025-05-06&to=2025-05-07", 200, `"views":0,`},
		{"picture", "/badge/blog/a%20post.svg" + site, 200, `>1,234,567</text>`},
		{"label", "/badge/TOTAL.svg" + site + "&label=" + url.QueryEscape(`<script>&"`+"\x00\x01"), 200, `&lt;script&gt;&amp;&#34;`},
		{"site without badges", "/badge/TOTAL.json?site=public.example", 404, `"not_found"`},
		{"unknown site", "/badge/TOTAL.json?site=unknown.example", 404, `"not_found"`},
		{"no format", "/badge/TOTAL" + site, 404, `.svg`},
		{"unknown parameter", "/badge/TOTAL.json" + site + "&colour=red", 400, `"colour"`},
		{"bad day", "/badge/TOTAL.json" + site + "&from=yesterday&to=2025-05-07", 400, `"from"`},
		{"GoatCounter's", "/counter/%2Fblog%2Fa%20post.json" + site, 200, `{"count_unique":"1","count":"1"}`},
		{"GoatCounter's of no page", "/counter/%2Fnowhere.json" + site, 404, `{"count_unique":"0","count":"0"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, body := fetch(t, app, test.url)
			if response.StatusCode != test.status || !strings.Contains(body, test.want) {
				t.Errorf("%d %s, want %d with %s", response.StatusCode, body, test.status, test.want)
			}
			if response.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("header %v, want any origin allowed", response.Header)
			}
			if strings.Contains(test.url, ".svg") {
				if err := xml.Unmarshal([]byte(body), new(struct{})); err != nil || !strings.Contains(body, "prefers-color-scheme:dark") {
					t.Errorf("picture: %v in %s", err, body)
				}
			}
		})
	}
}

func TestBadgeAsPNG(t *testing.T) {
	s := newTables(t)
	manyViews(s, "/", 1000)
	response, body := fetch(t, newApp(t, s), "/badge/TOTAL.png?site="+s.site)
	picture, err := png.Decode(bytes.NewReader([]byte(body)))
	if err != nil || response.Header.Get("Content-Type") != "image/png" {
		t.Fatalf("%v, %v", err, response.Header)
	}
	if got, want := picture.Bounds().Dx(), badgeWidth("views")+badgeWidth("1,000"); got != want {
		t.Errorf("%d pixels wide, want %d", got, want)
	}
}

// A badge that was shown is asked for again by its tag, and is new as soon as the count is.
func TestBadgeTag(t *testing.T) {
	s := newTables(t)
	manyViews(s, "/", 5)
	app := newApp(t, s)
	address := "/badge/TOTAL.svg?site=" + s.site
	response, _ := fetch(t, app, address)
	tag := response.Header.Get("ETag")
	if got := response.Header.Get("Cache-Control"); tag == "" || got != "public, no-cache" {
		t.Fatalf("ETag %q, Cache-Control %q", tag, got)
	}
	if response, body := fetch(t, app, address, "If-None-Match", tag); response.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("%d %q, want 304 without a body", response.StatusCode, body)
	}
	manyViews(s, "/", 1)
	time.Sleep(badgeFresh + 10*time.Millisecond)
	if response, body := fetch(t, app, address, "If-None-Match", tag); response.StatusCode != http.StatusOK || !strings.Contains(body, ">6</text>") {
		t.Errorf("%d %q, want the new count", response.StatusCode, body)
	}
}

// However many ask at once, the count is asked for once.
func TestBadgesShareTheirCount(t *testing.T) {
	b, asked, seven := newBadges(), 0, int64(7)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			count, err := b.get("k", func() (CountResult, error) {
				asked++ // under the lock of the count
				return CountResult{Figures: Figures{Views: &seven}}, nil
			})
			if err != nil || *count.Views != 7 {
				t.Errorf("%+v, %v", count, err)
			}
		})
	}
	wg.Wait()
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	for i := range 2 * badgesKept {
		if _, err := b.get(fmt.Sprint(i), func() (CountResult, error) { return CountResult{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.kept.Len(); n > badgesKept {
		t.Errorf("%d counts are kept, want at most %d", n, badgesKept)
	}
}

func TestGroupDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -999: "-999"} {
		if got := groupDigits(n, ","); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestBadgeNumbersAreNumbers(t *testing.T) {
	s := newTables(t)
	manyViews(s, "/", 12)
	_, body := fetch(t, newApp(t, s), "/badge/TOTAL.json?site="+s.site)
	var got struct{ Views json.Number }
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil || got.Views != "12" || strings.Contains(body, `"12"`) {
		t.Errorf("%v, %s, want the number 12", err, body)
	}
}
