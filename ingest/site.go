package ingest

import (
	"strings"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// Site is a site's settings. Only Domain is required.
type Site struct {
	Domain string   // the site's name in events and queries, such as "example.com"
	Hosts  []string // whose pages count; when empty, the host in Domain
	// ExactHosts narrows Hosts to themselves: without it their subdomains count too.
	ExactHosts bool
	Zone       *time.Location // of the site's days and of its visitors' salts; UTC when nil
	Paths      schema.PathRules
	Public     bool // its numbers may be read without a key
	Badge      bool // its counts may be shown as badges
	Limits     Limits
	Retention  int // days for which events are kept, older ones are refused; 0 is for ever
	WeekStart  int // first day of the week in reports by ISO 8601: 1 is Monday, 7 is Sunday; 0 stands for Monday
	// Goals are names of events and patterns of pages, which start with a slash.
	Goals      []string
	RespectDNT bool // views of browsers that send DNT: 1 do not count
	RespectGPC bool // views of browsers that send Sec-GPC: 1 do not count

	ignored ignored // made of SiteSettings
	label   string  // in metrics
}

// Limits bound what a site takes. Zero stands for the default.
type Limits struct {
	PerAddress  float64 // beacons a second from one address
	PerSite     float64 // beacons a second
	NewPathsDay int     // new paths a day before they are folded
}

// complete fills in defaults and brings hosts into the form in which they are compared.
func (site *Site) complete() {
	if site.Zone == nil {
		site.Zone = time.UTC
	}
	hosts := site.Hosts
	if len(hosts) == 0 {
		host, _, _ := strings.Cut(site.Domain, "/")
		hosts = []string{host}
	}
	site.Hosts = make([]string, len(hosts))
	for i, host := range hosts {
		site.Hosts[i] = canonicalHost(strings.TrimSpace(host))
	}
}

// HasHost reports whether host, in canonical form, is one of the site's by rule R1.
func (site *Site) HasHost(host string) bool {
	for _, own := range site.Hosts {
		if host == own {
			return true
		}
		if !site.ExactHosts && isSubdomain(host, own) {
			return true
		}
	}
	return false
}

// isSubdomain reports whether host is a subdomain of of, and not of itself; both are in canonical form.
func isSubdomain(host, of string) bool {
	return len(host) > len(of) && host[len(host)-len(of)-1] == '.' && strings.HasSuffix(host, of)
}

// isHost accepts what can be a host, in any case, international or an address, without port and brackets.
func isHost(s string) bool {
	return validDomain(s) && !strings.ContainsAny(s, "/%")
}

const maxDomainBytes = 253

// validDomain accepts what can be a site's name: a host, perhaps with a path behind it.
func validDomain(s string) bool {
	if s == "" || len(s) > maxDomainBytes {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`,;"'<>\?#@*`, r) || r == 0xfffd {
			return false
		}
	}
	return true
}
