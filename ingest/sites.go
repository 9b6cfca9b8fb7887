package ingest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

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
	Retention  int          // days for which events are kept, older ones are refused; 0 is for ever
	WeekStart  time.Weekday // of weekly reports

	label string // in metrics
}

// Limits bound what a site takes. Zero stands for the default.
type Limits struct {
	PerAddress  float64 // beacons a second from one address
	PerSite     float64 // beacons a second
	NewPathsDay int     // new paths a day before they are folded
}

// Sites is the set of sites that events may name. It is safe for concurrent use; Replace changes it while events arrive.
type Sites struct {
	current atomic.Pointer[siteSet]
}

type siteSet struct {
	byDomain map[string]*Site
	byHost   map[string]*Site
	byID     map[string]*Site          // by WebsiteID
	any      *lru.Cache[string, *Site] // sites made up on demand; nil when only listed ones count
}

// maxAnySites bounds the sites made up on demand that are remembered.
const maxAnySites = 1024

// NewSites returns the sites of list. When any is true every other domain is a site with default settings as well, which is for
// trying things out on a loopback address only.
func NewSites(list []Site, any bool) (*Sites, error) {
	s := &Sites{}
	return s, s.Replace(list, any)
}

// Replace sets the sites for all requests that start after it.
func (s *Sites) Replace(list []Site, any bool) error {
	set := &siteSet{byDomain: make(map[string]*Site), byHost: make(map[string]*Site), byID: make(map[string]*Site)}
	if any {
		set.any, _ = lru.New[string, *Site](maxAnySites) // fails for a size below one only
	}
	for i, site := range list {
		site.label = labelOther
		if i < maxSiteLabels {
			site.label = strings.TrimSpace(site.Domain)
		}
		if err := set.add(site); err != nil {
			return err
		}
	}
	s.current.Store(set)
	return nil
}

func (set *siteSet) add(site Site) error {
	site.Domain = strings.TrimSpace(site.Domain)
	if !validDomain(site.Domain) {
		return fmt.Errorf("site %q is not a domain", site.Domain)
	}
	site.complete()
	for _, name := range []string{site.Domain, canonicalHost(site.Domain)} {
		if other, taken := set.byDomain[name]; taken && other.Domain != site.Domain {
			return fmt.Errorf("site %q is the same as %q", site.Domain, other.Domain)
		}
		set.byDomain[name] = &site
	}
	set.byID[WebsiteID(site.Domain)] = &site
	for _, host := range site.Hosts {
		if host == "" {
			return fmt.Errorf("site %q has an empty host", site.Domain)
		}
		if _, taken := set.byHost[host]; !taken {
			set.byHost[host] = &site
		}
	}
	return nil
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

// Lookup finds the site that an event names, in any case and as Unicode or punycode.
func (s *Sites) Lookup(domain string) (*Site, bool) {
	set := s.current.Load()
	if site, ok := set.byDomain[domain]; ok {
		return site, true
	}
	if len(domain) > maxDomainBytes {
		return nil, false
	}
	name := canonicalHost(domain)
	if site, ok := set.byDomain[name]; ok {
		return site, true
	}
	if set.any == nil || !validDomain(name) {
		return nil, false
	}
	return set.madeUp(name), true
}

// madeUp is the site of a name that nobody listed. The name may point into a request.
func (set *siteSet) madeUp(name string) *Site {
	if site, ok := set.any.Get(name); ok {
		return site
	}
	site := &Site{Domain: strings.Clone(name), label: labelAny}
	site.complete()
	set.any.Add(site.Domain, site)
	return site
}

// OfHost finds the site to which a page's host belongs, the closest when several fit.
func (s *Sites) OfHost(host string) (*Site, bool) {
	set := s.current.Load()
	for name := host; name != ""; {
		if site, ok := set.byHost[name]; ok && site.HasHost(host) {
			return site, true
		}
		_, name, _ = strings.Cut(name, ".")
	}
	if set.any != nil {
		return s.Lookup(host)
	}
	return nil, false
}

// HasHost reports whether host, in canonical form, is one of the site's by rule R1.
func (site *Site) HasHost(host string) bool {
	for _, own := range site.Hosts {
		if host == own {
			return true
		}
		if !site.ExactHosts && len(host) > len(own) && host[len(host)-len(own)-1] == '.' && strings.HasSuffix(host, own) {
			return true
		}
	}
	return false
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
