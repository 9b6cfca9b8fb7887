package ingest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Sites is the set of sites that events may name. It is safe for concurrent use; Replace changes it while events arrive.
type Sites struct {
	current atomic.Pointer[siteSet]

	replacing sync.Mutex
	labels    map[string]bool // replacing: domains with a label of their own, past ones too, which metrics keep
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
	s.replacing.Lock()
	defer s.replacing.Unlock()
	for _, site := range list {
		site.label = s.labelLocked(strings.TrimSpace(site.Domain))
		if err := set.add(site); err != nil {
			return err
		}
	}
	s.current.Store(set)
	return nil
}

// labelLocked is the label in metrics of a site: its own for the first maxSiteLabels that there ever were.
func (s *Sites) labelLocked(domain string) string {
	if !s.labels[domain] && len(s.labels) >= maxSiteLabels {
		return labelOther
	}
	if s.labels == nil {
		s.labels = make(map[string]bool)
	}
	s.labels[domain] = true
	return domain
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

// OnlyBadge is the one site whose counts may be shown as badges; false when there is none, or several.
func (s *Sites) OnlyBadge() (only *Site, ok bool) {
	for _, site := range s.current.Load().byDomain {
		if !site.Badge || site == only {
			continue
		}
		if only != nil {
			return nil, false
		}
		only = site
	}
	return only, only != nil
}
