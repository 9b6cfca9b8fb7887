package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// SiteSettings is a site as people write it: in the configuration file, on the command line, in the table sites. Only Domain is
// required; the zero value of everything else is its default.
type SiteSettings struct {
	Domain string `json:"domain" yaml:"domain"`

	Hosts      []string `json:"hosts,omitempty" yaml:"hosts,omitempty"`             // whose pages count; none: the domain, www. and its subdomains
	ExactHosts bool     `json:"exact_hosts,omitempty" yaml:"exact-hosts,omitempty"` // without subdomains
	Zone       string   `json:"zone,omitempty" yaml:"zone,omitempty"`               // IANA name; empty: the server's

	HashRouting bool     `json:"hash_routing,omitempty" yaml:"hash-routing,omitempty"` // the fragment names the page
	KeepQuery   []string `json:"keep_query,omitempty" yaml:"keep-query,omitempty"`     // query parameters that name the page

	Public    bool   `json:"public,omitempty" yaml:"public,omitempty"`         // numbers are read without a key
	Badge     bool   `json:"badge,omitempty" yaml:"badge,omitempty"`           // counts are shown as badges
	WeekStart string `json:"week_start,omitempty" yaml:"week-start,omitempty"` // monday to sunday; empty: monday
	// Goals are names of events, and pages by /path, where * is any text without a slash and ** any text.
	Goals []string `json:"goals,omitempty" yaml:"goals,omitempty"`

	AddressLimit  float64 `json:"address_limit,omitempty" yaml:"address-limit,omitempty"`   // beacons a second from one address; 0: the default
	SiteLimit     float64 `json:"site_limit,omitempty" yaml:"site-limit,omitempty"`         // beacons a second; 0: the default
	PathLimit     int     `json:"path_limit,omitempty" yaml:"path-limit,omitempty"`         // new paths a day; 0: the default
	RetentionDays int     `json:"retention_days,omitempty" yaml:"retention-days,omitempty"` // older events are refused; 0: none

	RespectDNT      bool     `json:"respect_dnt,omitempty" yaml:"respect-dnt,omitempty"`
	RespectGPC      bool     `json:"respect_gpc,omitempty" yaml:"respect-gpc,omitempty"`
	IgnoreAddresses []string `json:"ignore_addresses,omitempty" yaml:"ignore-addresses,omitempty"` // addresses and networks
	IgnoreHosts     []string `json:"ignore_hosts,omitempty" yaml:"ignore-hosts,omitempty"`         // also *.example.com
	IgnorePaths     []string `json:"ignore_paths,omitempty" yaml:"ignore-paths,omitempty"`         // globs of page keys
	IgnoreCountries []string `json:"ignore_countries,omitempty" yaml:"ignore-countries,omitempty"` // ISO 3166-1 alpha-2
}

// Bounds of the settings.
const (
	maxSiteHosts     = 100
	maxKeptQuery     = 50
	maxQueryName     = 100       // bytes
	maxBeaconRate    = 1_000_000 // a second
	maxPathLimit     = 10_000_000
	maxRetentionDays = 36_500
	maxGoals         = 100
	maxGoal          = 2048 // bytes
)

// Site checks the settings and makes the site that they describe; zone is for one that names none. The error names the site and
// the setting, as the configuration file calls it.
func (s *SiteSettings) Site(zone *time.Location) (Site, error) {
	site := Site{
		Domain: strings.TrimSpace(s.Domain), Hosts: s.Hosts, ExactHosts: s.ExactHosts, Zone: zone,
		Paths:  schema.PathRules{HashRouting: s.HashRouting, KeepQuery: s.KeepQuery},
		Public: s.Public, Badge: s.Badge, RespectDNT: s.RespectDNT, RespectGPC: s.RespectGPC,
		Limits:    Limits{PerAddress: s.AddressLimit, PerSite: s.SiteLimit, NewPathsDay: s.PathLimit},
		Retention: s.RetentionDays, Goals: s.Goals,
	}
	for _, setting := range []struct {
		name string
		read func(*Site) error
	}{
		{"domain", s.checkDomain},
		{"hosts", s.checkHosts},
		{"zone", s.readZone},
		{"keep-query", s.checkKeptQuery},
		{"week-start", s.readWeekStart},
		{"goals", s.checkGoals},
		{"address-limit", func(*Site) error { return within(s.AddressLimit, maxBeaconRate) }},
		{"site-limit", func(*Site) error { return within(s.SiteLimit, maxBeaconRate) }},
		{"path-limit", func(*Site) error { return within(s.PathLimit, maxPathLimit) }},
		{"retention-days", func(*Site) error { return within(s.RetentionDays, maxRetentionDays) }},
		{"ignore-addresses", readList(s.IgnoreAddresses, parseIgnoredAddress, func(i *ignored) *[]netip.Prefix { return &i.addresses })},
		{"ignore-hosts", readList(s.IgnoreHosts, parseHostPattern, func(i *ignored) *[]hostPattern { return &i.hosts })},
		{"ignore-paths", readList(s.IgnorePaths, parsePathPattern, func(i *ignored) *[]pathPattern { return &i.paths })},
		{"ignore-countries", readList(s.IgnoreCountries, parseCountry, func(i *ignored) *[]string { return &i.countries })},
	} {
		if err := setting.read(&site); err != nil {
			return Site{}, fmt.Errorf("site %.100q: %s: %w", s.Domain, setting.name, err)
		}
	}
	return site, nil
}

func (s *SiteSettings) checkDomain(site *Site) error {
	if host, _, _ := strings.Cut(site.Domain, "/"); !validDomain(site.Domain) || strings.Contains(site.Domain, "//") || canonicalHost(host) == "" {
		return fmt.Errorf("%.100q is no domain such as example.com", s.Domain)
	}
	return nil
}

func (s *SiteSettings) checkHosts(*Site) error {
	if len(s.Hosts) > maxSiteHosts {
		return fmt.Errorf("are %d, at most %d are possible", len(s.Hosts), maxSiteHosts)
	}
	for _, host := range s.Hosts {
		if host = strings.TrimSpace(host); !isHost(host) || canonicalHost(host) == "" {
			return fmt.Errorf("%.100q is no host such as shop.example.com", host)
		}
	}
	return nil
}

func (s *SiteSettings) readZone(site *Site) error {
	if s.Zone == "" {
		return nil
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil || s.Zone == "Local" {
		return fmt.Errorf("%.100q is no IANA time zone such as Europe/Berlin", s.Zone)
	}
	site.Zone = zone
	return nil
}

func (s *SiteSettings) checkKeptQuery(*Site) error {
	if len(s.KeepQuery) > maxKeptQuery {
		return fmt.Errorf("are %d, at most %d are possible", len(s.KeepQuery), maxKeptQuery)
	}
	for i, name := range s.KeepQuery {
		switch {
		case name == "" || len(name) > maxQueryName || strings.ContainsAny(name, "?&=# ") || !isClean(name):
			return fmt.Errorf("%.100q is no name of a query parameter", name)
		case slices.Contains(s.KeepQuery[:i], name):
			return fmt.Errorf("%q stands twice", name)
		}
	}
	return nil
}

// weekdays in the order of ISO 8601, which counts them from 1.
var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

func (s *SiteSettings) readWeekStart(site *Site) error {
	if s.WeekStart == "" {
		return nil
	}
	i := slices.Index(weekdays, strings.ToLower(s.WeekStart))
	if i < 0 {
		return fmt.Errorf("%.100q is no day such as monday or sunday", s.WeekStart)
	}
	site.WeekStart = i + 1
	return nil
}

func (s *SiteSettings) checkGoals(*Site) error {
	if len(s.Goals) > maxGoals {
		return fmt.Errorf("are %d, at most %d are possible", len(s.Goals), maxGoals)
	}
	for i, goal := range s.Goals {
		switch {
		case strings.TrimSpace(goal) != goal || goal == "" || len(goal) > maxGoal || !isClean(goal):
			return fmt.Errorf("%.100q is neither the name of an event nor a page such as /thanks", goal)
		case goal == schema.PageView || goal == schema.Engagement:
			return fmt.Errorf("%q is reached by whoever comes", goal)
		case slices.Contains(s.Goals[:i], goal):
			return fmt.Errorf("%q stands twice", goal)
		}
	}
	return nil
}

func within[N int | float64](n, most N) error {
	if !(n >= 0 && n <= most) { // so that NaN is refused as well
		return fmt.Errorf("%v is not within 0 and %v", n, most)
	}
	return nil
}

func parseIgnoredAddress(text string) (netip.Prefix, error) {
	prefix, err := parsePrefix(strings.TrimSpace(text))
	if err != nil {
		return prefix, fmt.Errorf("%.100q is no address or network such as 192.0.2.0/24", text)
	}
	return prefix, nil
}

// readList parses each entry of a list into the part of ignored that in names.
func readList[T any](list []string, parse func(string) (T, error), in func(*ignored) *[]T) func(*Site) error {
	return func(site *Site) error {
		if len(list) > maxIgnored {
			return fmt.Errorf("are %d, at most %d are possible", len(list), maxIgnored)
		}
		for _, entry := range list {
			one, err := parse(entry)
			if err != nil {
				return err
			}
			into := in(&site.ignored)
			*into = append(*into, one)
		}
		return nil
	}
}

// siteName is the form of a domain by which sites are told apart.
func siteName(domain string) string { return canonicalHost(strings.TrimSpace(domain)) }
