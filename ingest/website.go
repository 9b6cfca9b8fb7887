package ingest

import (
	"strings"

	"github.com/google/uuid"
)

// WebsiteID is a site's name for trackers that know sites by UUIDs: version 5 (RFC 9562) of the domain in the DNS name space, which
// `uuidgen --sha1 --namespace @dns --name example.com` prints as well. It depends on nothing but the domain.
func WebsiteID(domain string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(canonicalHost(strings.TrimSpace(domain)))).String()
}

// website finds the site that name, a domain or a WebsiteID, stands for. A UUID says nothing about its domain: that of a site made
// up on demand is recognised by the page's host alone.
func (s *Sites) website(name, host string) (*Site, bool) {
	if len(name) != len(uuid.Nil.String()) || uuid.Validate(name) != nil {
		return s.Lookup(name)
	}
	id := strings.ToLower(name)
	if site, ok := s.current.Load().byID[id]; ok {
		return site, true
	}
	site, ok := s.OfHost(host)
	if !ok || WebsiteID(site.Domain) != id {
		return nil, false
	}
	return site, true
}

// sole is the site of a server that has only one: what names no site can mean no other.
func (s *Sites) sole() (only *Site, ok bool) {
	set := s.current.Load()
	if set.any != nil {
		return nil, false
	}
	for _, site := range set.byDomain {
		if only != nil && only != site {
			return nil, false
		}
		only = site
	}
	return only, only != nil
}

// ofPage finds the site of a page's hit: the one that it names, else that of the page's host, else the only one there is.
func (s *Sites) ofPage(name, host string) (*Site, bool) {
	switch {
	case name != "":
		return s.Lookup(name)
	case host != "":
		return s.OfHost(host)
	}
	return s.sole()
}
