package query

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"
)

// badgeSites knows the tables' site, which shows badges, and sites that do not.
type badgeSites struct{ site string }

func (s badgeSites) ReadSite(domain string) (Site, bool) {
	switch domain = strings.ToLower(domain); domain {
	case s.site:
		return Site{Domain: domain, Badge: true, Zone: time.UTC}, true
	case "public.example":
		return Site{Domain: domain, Public: true}, true
	}
	return Site{}, false
}

func (s badgeSites) OnlyBadgeSite() (string, bool) { return s.site, true }

func badgeApp(t *testing.T, s *tables) *fiber.App {
	t.Helper()
	server, err := New(Config{Store: s.store, Sites: badgeSites{s.site}, Badges: badgeSites{s.site}, Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	server.Register(app)
	return app
}

// shown asks for what anyone may see, with headers given as name and value in turn.
func shown(t *testing.T, app *fiber.App, method, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	response, body := fetch(t, app, method, url, header...)
	return response.StatusCode, response.Header, body
}

// views1234 are 1,234 views of /blog/x, one of "/" and one of "/ä?/b".
func views1234(t *testing.T) *tables {
	s := newTables(t)
	hot := view("2026-01-14T10:20:00Z", "/blog/x")
	hot.N = 1234
	odd := view("2026-01-15T11:00:00Z", "/ä%3F/b")
	s.insert(hot, odd, view("2026-01-15T10:20:00Z", "/"))
	return s
}

func TestBadgeNumbers(t *testing.T) {
	s := views1234(t)
	app := badgeApp(t, s)
	tests := []struct {
		url, path string
		want      string
	}{
		{"/badge/blog/x.json", `,"path":"/blog/x"`, "1234"},
		{"/badge//blog/x/.json", `,"path":"/blog/x"`, "1234"},
		{"/badge/%2Fblog%2Fx.json", `,"path":"/blog/x"`, "1234"},
		{"/badge/%C3%A4%3F/b.json", `,"path":"/ä%3F/b"`, "1"},
		{"/badge/.json", `,"path":"/"`, "1"},
		{"/badge//.json", `,"path":"/"`, "1"},
		{"/badge/TOTAL.json", "", "1236"},
		{"/badge//TOTAL.json", `,"path":"/TOTAL"`, "0"},
		{"/badge/nowhere.json", `,"path":"/nowhere"`, "0"},
		{"/badge/TOTAL.json?period=day", "", "2"},
		{"/badge/TOTAL.json?from=2026-01-14&to=2026-01-14", "", "1234"},
	}
	for _, test := range tests {
		status, header, got := shown(t, app, http.MethodGet, test.url)
		want := `{"site":"` + s.site + `"` + test.path + `,"views":` + test.want + `,"as_of":"2026-01-15T12:00:00Z"}`
		if got != want || status != 200 || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, want %s", test.url, status, got, want)
		}
	}
	if _, _, got := shown(t, app, http.MethodGet, "/badge/blog/x.svg"); !strings.Contains(got, ">1,234</text>") {
		t.Errorf("want a grouped number in %s", got)
	}
	if _, _, got := shown(t, app, http.MethodGet, "/badge/blog/x.svg?short=1&site="+strings.ToUpper(s.site)); !strings.Contains(got, ">1.2k</text>") {
		t.Errorf("want a short number in %s", got)
	}
}

// Nothing tells a site that shows no badges from one that is not there.
func TestBadgeNeedsTheSitesWord(t *testing.T) {
	s := newTables(t)
	app := badgeApp(t, s)
	const want = `{"error":{"code":"not_found","message":"there is no such badge"}}`
	var first http.Header
	for _, url := range []string{
		"/badge/x.svg?site=public.example", "/badge/x.svg?site=unknown.example", "/badge/x.json?site=public.example&period=decade&nonsense=1",
		"/badge/x.gif", "/badge/x", "/badge/", "/badge/x.svg?site=%00",
	} {
		status, header, got := shown(t, app, http.MethodGet, url)
		header.Del("Date")
		if first == nil {
			first = header
		}
		if status != 404 || got != want || cmp.Diff(first, header) != "" {
			t.Errorf("%s: %d %v %s, want 404 with %v %s", url, status, header, got, first, want)
		}
	}
	for query, field := range map[string]string{
		"period=decade": "period", "lable=x": "lable", "color=javascript:": "color", "short=yes": "short", "label=": "label",
		"label=" + strings.Repeat("x", maxLabel+1): "label", "label=a%00b": "label", "label=%ff": "label", "to=2026-01-01": "from",
	} {
		status, _, got := shown(t, app, http.MethodGet, "/badge/x.svg?"+query)
		if status != 400 || !strings.Contains(got, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s, want 400 about %s", query, status, got, field)
		}
	}
}

func TestBadgeIsKeptAndAskedForAgain(t *testing.T) {
	s := views1234(t)
	app := badgeApp(t, s)
	for _, format := range []string{"json", "svg", "png"} {
		url := "/badge/blog/x." + format
		status, header, body := shown(t, app, http.MethodGet, url)
		tag := header.Get("ETag")
		if status != 200 || header.Get("Cache-Control") != "public, max-age=2" || len(tag) < 10 || tag[0] != '"' ||
			header.Get("Access-Control-Allow-Origin") != "*" || header.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
			t.Errorf("%s: %d %v", url, status, header)
		}
		status, headHeader, headBody := shown(t, app, http.MethodHead, url)
		if status != 200 || headBody != "" || headHeader.Get("ETag") != tag || headHeader.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("HEAD %s: %d %v %q", url, status, headHeader, headBody)
		}
		for match, want := range map[string]int{tag: 304, "W/" + tag: 304, `"a", ` + tag: 304, "*": 304, `"a"`: 200, "": 200} {
			status, header, body := shown(t, app, http.MethodGet, url, "If-None-Match", match)
			if status != want || header.Get("ETag") != tag || (body == "") != (want == 304) || header.Get("Cache-Control") == "" {
				t.Errorf("%s with If-None-Match %s: %d %v with %d bytes, want %d", url, match, status, header, len(body), want)
			}
		}
	}
	_, header, _ := shown(t, app, http.MethodGet, "/badge/blog/x.svg")
	before := header.Get("ETag")
	s.insert(view("2026-01-15T11:30:00Z", "/blog/x"))
	s.now = s.now.Add(publicTTL)
	_, header, body := shown(t, app, http.MethodGet, "/badge/blog/x.svg")
	if header.Get("ETag") == before || !strings.Contains(body, "1,235") {
		t.Errorf("a new view: tag %s after %s, %s", header.Get("ETag"), before, body)
	}
}

func TestNumbersOfBadges(t *testing.T) {
	tests := []struct {
		n           int64
		long, short string
	}{
		{0, "0", "0"}, {999, "999", "999"}, {1000, "1,000", "1k"}, {1299, "1,299", "1.2k"}, {12345, "12,345", "12.3k"}, {123456, "123,456", "123k"},
		{999_999, "999,999", "999k"}, {1_000_000, "1,000,000", "1M"}, {-1234, "-1,234", "-1.2k"}, {-12, "-12", "-12"},
		{math.MaxInt64, "9,223,372,036,854,775,807", "9.2E"}, {math.MinInt64, "-9,223,372,036,854,775,808", "-9.2E"},
	}
	for _, test := range tests {
		if long, short := groupDigits(test.n, ","), shortNumber(test.n); long != test.long || short != test.short {
			t.Errorf("%d: %s and %s, want %s and %s", test.n, long, short, test.long, test.short)
		}
	}
}

// goldenFile is golden for files that are no SQL.
func goldenFile(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not what is drawn: -update and look at it", file)
	}
}

func TestBadgesAsDrawn(t *testing.T) {
	goldenFile(t, "badge.svg", badgeSVG("views", "12,345", badgeColors["blue"]))
	goldenFile(t, "badge_escaped.svg", badgeSVG(`<b>"Tom" & 'Jerry'`, "1.2k", badgeColors["green"]))
	drawn, err := badgePNG("views", "12,345", badgeColors["blue"])
	if err != nil {
		t.Fatal(err)
	}
	goldenFile(t, "badge.png", drawn)
	for _, g := range []goatRequest{{format: "svg"}, {format: "html"}, {format: "png"}, {format: "svg", whole: true, alone: true, style: "#gcvc-views{fill:red}"}} {
		name := "counter"
		if g.alone {
			name += "_alone"
		}
		_, drawn, err := g.draw("1" + goatSpace + "234")
		if err != nil {
			t.Fatal(err)
		}
		goldenFile(t, name+"."+g.format, drawn)
	}
}

// Whatever the label is, the SVG stays one well-formed element whose texts are the label and the number, inside their boxes.
func FuzzBadgeLabel(f *testing.F) {
	for _, label := range []string{"views", `"><script>alert(1)</script>`, "</text></svg>", "&amp;", "日本語", "\u202eabc", "]]>", "a\ufffeb"} {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		p := parser{values: map[string][]string{"label": {label}}}
		if label = p.label(); p.err != nil {
			return
		}
		drawn := badgeSVG(label, "12,345", badgeColors["blue"])
		var svg struct {
			XMLName xml.Name `xml:"svg"`
			Width   int      `xml:"width,attr"`
			Role    string   `xml:"role,attr"`
			Title   string   `xml:"title"`
			Texts   []struct {
				X      int    `xml:"x,attr"`
				Length int    `xml:"textLength,attr"`
				Text   string `xml:",chardata"`
			} `xml:"g>text"`
			Rest []struct{ XMLName xml.Name } `xml:",any"`
		}
		if err := xml.Unmarshal(drawn, &svg); err != nil {
			t.Fatalf("%v in %s", err, drawn)
		}
		want := strings.Map(func(r rune) rune {
			if r == 0xfffe || r == 0xffff {
				return 0xfffd // XML has no such character
			}
			return r
		}, label)
		if len(svg.Texts) != 2 || svg.Texts[0].Text != want || svg.Texts[1].Text != "12,345" || svg.Title != want+": 12,345" || svg.Role != "img" || len(svg.Rest) != 3 {
			t.Fatalf("%q became %+v", label, svg)
		}
		if end := svg.Texts[0].X + svg.Texts[0].Length; end > svg.Texts[1].X || svg.Texts[1].X+svg.Texts[1].Length > svg.Width {
			t.Fatalf("%q leaves its box: %s", label, drawn)
		}
		if image, err := badgePNG(label, "1", badgeColors["red"]); err != nil {
			t.Fatal(err)
		} else if _, err := png.Decode(bytes.NewReader(image)); err != nil {
			t.Fatal(err)
		}
	})
}

// Texts can be read on their boxes by WCAG's measure for text: a contrast of 4.5.
func TestBadgeContrast(t *testing.T) {
	pairs := map[string]string{labelTextLight: labelBoxLight, labelTextDark: labelBoxDark}
	for _, color := range badgeColors {
		pairs[color] = numberText
	}
	for text, box := range pairs {
		light, dark := luminance(text), luminance(box)
		if got := (max(light, dark) + .05) / (min(light, dark) + .05); got < 4.5 {
			t.Errorf("%s and %s have a contrast of %.2f", text, box, got)
		}
	}
}

func luminance(hex string) float64 {
	c := rgb(hex)
	part := func(v uint8) float64 {
		f := float64(v) / 255
		if f <= .04045 {
			return f / 12.92
		}
		return math.Pow((f+.055)/1.055, 2.4)
	}
	return .2126*part(c.R) + .7152*part(c.G) + .0722*part(c.B)
}
