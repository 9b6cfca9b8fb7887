package ingest

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/geo"
)

type somePlaces map[string]geo.Place

func (p somePlaces) Lookup(addr netip.Addr) geo.Place { return p[addr.String()] }

func TestPlaces(t *testing.T) {
	proxies, err := NewProxies([]string{"127.0.0.1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) {
		c.Proxies = proxies
		c.Places = somePlaces{"81.2.69.142": {Country: "GB", Region: "GB-ENG", City: "London"}, "2001:db8::1": {Country: "DE"}}
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
