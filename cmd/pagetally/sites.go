package main

import (
	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/query"
)

// sites makes the configured sites, all with the configured zone.
func (s *Settings) sites() (*ingest.Sites, error) {
	var list []ingest.Site
	takeAny := false
	for _, domain := range s.Site {
		if domain == anySite {
			takeAny = true
			continue
		}
		list = append(list, ingest.Site{Domain: domain, Zone: s.location()})
	}
	return ingest.NewSites(list, takeAny)
}

// readSites shows the sites of receiving to reading, so that both turn the same URL into the same page.
type readSites struct{ *ingest.Sites }

// ReadSite finds a site by the domain that a reader wrote.
func (s readSites) ReadSite(domain string) (query.Site, bool) {
	site, ok := s.Lookup(domain)
	if !ok {
		return query.Site{}, false
	}
	return query.Site{Domain: site.Domain, Zone: site.Zone, Paths: site.Paths, Public: site.Public}, true
}
