package query

import (
	"bytes"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/pagetally/pagetally/schema"
)

func TestGoatCounter(t *testing.T) {
	s := newTables(t)
	var events []schema.Event
	for i := range 1234 {
		e := view("2026-01-14T10:20:00Z", "/post")
		if i%100 != 0 {
			e.Path, e.PathKey = "/many", "/many"
		}
		e.Visitor = uint64(i + 1)
		events = append(events, e)
	}
	again := view("2026-01-14T10:21:00Z", "/post")
	again.Visitor = 1 // counts once
	s.insert(append(events, again, view("2026-01-05T10:21:00Z", "/"))...)
	app := badgeApp(t, s)

	const thousand = "1" + goatSpace + "234"
	tests := []struct {
		url    string
		status int
		want   string
	}{
		{"/counter/%2Fpost.json", 200, "13"},
		{"/counter//post.json?rnd=1", 200, "13"},
		{"/counter/post.json", 200, "13"},
		{"/counter//.json", 200, "1"},
		{"/counter/TOTAL.json", 200, "1" + goatSpace + "235"},
		{"/counter/TOTAL.json?start=week", 200, thousand},
		{"/counter/TOTAL.json?end=2026-01-05", 200, "1"},
		{"/counter/TOTAL.json?start=2026-01-06&end=2026-01-06", 200, "0"},
		{"/counter//post.json?start=2026-01-15", 404, "0"},
		{"/counter/%2Fnowhere.json", 404, "0"},
	}
	for _, test := range tests {
		status, header, got := shown(t, app, http.MethodGet, test.url)
		want := `{"count":"` + test.want + `","count_unique":"` + test.want + `"}`
		if status != test.status || got != want {
			t.Errorf("%s: %d %s, want %d %s", test.url, status, got, test.status, want)
		}
		if header.Get("Access-Control-Allow-Origin") != "*" || !strings.HasPrefix(header.Get("Cache-Control"), "public") || header.Get("Expires") == "" {
			t.Errorf("%s: %v", test.url, header)
		}
	}
	for url, want := range map[string]string{
		"/counter/TOTAL.svg?start=week": thousand, "/counter//post.html?no_branding=1": ">13<", "/counter//post.html?style=%23gcvc-by%7Bcolor:red%7D": "#gcvc-by{color:red}",
	} {
		if status, _, got := shown(t, app, http.MethodGet, url); status != 200 || !strings.Contains(got, want) || strings.Contains(url, "no_branding") == strings.Contains(got, goatBy) {
			t.Errorf("%s: %d %s, want %s", url, status, got, want)
		}
	}
	for url, height := range map[string]int{"/counter//post.png": 80, "/counter//post.png?no_branding=1": 60} {
		_, header, got := shown(t, app, http.MethodGet, url)
		size, err := png.DecodeConfig(bytes.NewReader([]byte(got)))
		if err != nil || size.Width != 200 || size.Height != height || header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %+v %v, want 200 by %d", url, size, err, height)
		}
	}
	for url, want := range map[string]int{
		"/counter/x.json?site=public.example": 403, "/counter/x.json?site=unknown.example": 403, "/counter/x.gif": 400, "/counter/x": 400,
		"/counter/x.json?start=decade": 400, "/counter/x.html?style=%3C/style%3E%3Cscript%3E": 400,
	} {
		if status, header, got := shown(t, app, http.MethodGet, url); status != want || !strings.HasPrefix(got, `{"error":"`) || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, want %d", url, status, got, want)
		}
	}
}
