package ingest

import (
	"net/netip"

	"github.com/pagetally/pagetally/ingest/geo"
)

// Places tells where addresses are, the zero Place for those it does not know.
type Places interface {
	Lookup(addr netip.Addr) geo.Place
}

// enrichPlace sets country, region and city. Without a database they stay unknown.
func enrichPlace(s *Server, h *hit) Reason {
	if s.places == nil || !h.ip.IsValid() {
		return Accepted
	}
	place := s.places.Lookup(h.ip)
	h.event.Country, h.event.Region, h.event.City = place.Country, place.Region, place.City
	return Accepted
}
