package ingest

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/geo"
)

// BenchmarkWholeEvent is an event as Chrome sends it, which takes every step: hints, a known source, a click id, a place.
func BenchmarkWholeEvent(b *testing.B) {
	handle := handler(b, noJournal{}, func(c *Config) {
		c.Places = somePlaces{netip.IPv4Unspecified(): {Country: "GB", Region: "GB-ENG", City: "London"}}
	})
	body := []byte(`{"n":"pageview","v":24,"u":"https://example.com/blog/some-article?gclid=EAIaIQobChMI","d":"example.com","r":"https://www.google.co.uk/"}`)
	ctx := request("/api/event", body, "Accept", "*/*", "Accept-Encoding", "gzip, deflate, br, zstd", "Accept-Language", "en-US,en;q=0.9", "Origin", "https://example.com",
		"Content-Type", "text/plain", "Referer", "https://example.com/", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "cross-site", "Priority", "u=4, i",
		"Sec-CH-UA", `"Brave";v="126", "Chromium";v="126", "Not/A)Brand";v="8"`, "Sec-CH-UA-Mobile", "?0", "Sec-CH-UA-Platform", `"Windows"`)
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		handle(ctx)
	}
	if ctx.Response.StatusCode() != http.StatusAccepted || len(ctx.Response.Header.Peek(HeaderDropped)) != 0 {
		b.Fatalf("status %d: %s", ctx.Response.StatusCode(), ctx.Response.Header.String())
	}
}

type somePlaces map[netip.Addr]geo.Place

func (p somePlaces) Lookup(addr netip.Addr) geo.Place { return p[addr] }

func TestPlaces(t *testing.T) {
	proxies, err := NewProxies([]string{"127.0.0.1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) {
		c.Proxies = proxies
		c.Places = somePlaces{
			netip.MustParseAddr("81.2.69.142"): {Country: "GB", Region: "GB-ENG", City: "London"}, netip.MustParseAddr("2001:db8::1"): {Country: "DE"},
		}
	})
	const beacon = `{"n":"pageview","u":"https://example.com/","d":"example.com"}`
	r.beacon(http.StatusAccepted, beacon, "X-Forwarded-For: 81.2.69.142")
	r.beacon(http.StatusAccepted, beacon, "X-Forwarded-For: ::ffff:81.2.69.142")
	r.beacon(http.StatusAccepted, beacon, "X-Forwarded-For: 192.0.2.1")
	r.post(http.StatusAccepted, `[{"site":"example.com","path":"/","ip":"2001:db8::1"},{"site":"example.com","path":"/"}]`, bearer(ingestSecret), "X-Forwarded-For: 81.2.69.142")
	var got []geo.Place
	for _, e := range r.events() {
		got = append(got, geo.Place{Country: e.Country, Region: e.Region, City: e.City})
	}
	london := geo.Place{Country: "GB", Region: "GB-ENG", City: "London"}
	if diff := cmp.Diff([]geo.Place{london, london, {}, {Country: "DE"}, {}}, got); diff != "" {
		t.Error(diff)
	}
}
