package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// testDialects sends the same page's views in each dialect, as its tracker would: together they are one counter.
func testDialects(t *testing.T, p *process) {
	const page = "https://example.com/dialects/"
	for _, tt := range []struct {
		name, method, path, body, headers string
		status                            int
	}{
		{"Plausible", "POST", "/api/event", `{"n":"pageview","u":"` + page + `","d":"example.com","r":null,"v":24}`, "", 202},
		{"Umami", "POST", "/api/send", `{"type":"event","payload":{"website":"cfbff0d1-9375-5685-968c-48ce8b15ae17","screen":"1920x1080","language":"de-DE","title":"","hostname":"example.com","url":"` + page + `","referrer":""}}`, "", 200},
		{"Umami, a batch", "POST", "/api/batch", `[{"type":"event","payload":{"website":"example.com","hostname":"example.com","url":"/dialects"}},{"type":"identify","payload":{"website":"example.com","id":"a"}}]`, "", 200},
		{"GoatCounter", "GET", "/count?p=%2Fdialects%2F&t=T&e=false&s=1920%2C1080%2C1&b=0&q=&rnd=x1", "", "Referer: " + page, 200},
		{"GoatCounter, by sendBeacon", "POST", "/count?p=%2Fdialects&b=0", "", "Origin: https://example.com", 200},
		{"GoatCounter's API", "POST", "/api/v0/count?site=example.com", `{"no_sessions":true,"hits":[{"path":"/dialects"},{"path":"/dialects/"}]}`, "", 202},
		{"image", "GET", "/pixel.gif?site=example.com&path=/dialects", "", "", 200},
		{"own", "POST", "/v1/events", `{"site":"example.com","url":"` + page + `"}`, "", 202},
	} {
		request, err := http.NewRequest(tt.method, p.url+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", browser)
		if name, value, ok := strings.Cut(tt.headers, ": "); ok {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != tt.status {
			t.Errorf("%s: %d %.200s, want %d", tt.name, response.StatusCode, body, tt.status)
		}
	}
	p.awaitCount("/dialects", 9)
}
