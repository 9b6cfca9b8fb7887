package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/goccy/go-yaml"

	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/query"
	"github.com/pagetally/pagetally/schema"
)

// sitesFile lies in the data folder.
const sitesFile = "sites"

// siteList is the setting --sites: a list of sites with their settings, in YAML.
type siteList []ingest.SiteSettings

// UnmarshalText reads the list; unknown settings of a site are refused.
func (l *siteList) UnmarshalText(text []byte) error {
	*l = nil
	if err := yaml.UnmarshalWithOptions(text, (*[]ingest.SiteSettings)(l), yaml.Strict()); err != nil {
		return fmt.Errorf("no list of sites: %s", yaml.FormatError(err, false, false))
	}
	return nil
}

// configuredSites are the sites of the settings, all with the configured zone unless they name one.
func (s *Settings) configuredSites() ingest.LiveSitesConfig {
	return ingest.LiveSitesConfig{
		Named:    slices.DeleteFunc(slices.Clone(s.Site), func(domain string) bool { return domain == anySite }),
		Settings: s.Sites,
		Any:      slices.Contains(s.Site, anySite),
		Zone:     s.location(),
	}
}

// sites are the configured sites alone.
func (s *Settings) sites() (*ingest.Sites, error) {
	sites, err := ingest.OpenLiveSites(s.configuredSites())
	if err != nil {
		return nil, err
	}
	return sites.Sites, nil
}

// liveSites are the configured sites and those of the table, the last known ones until the table is read.
func (s *Settings) liveSites(conn driver.Conn, log *slog.Logger) (*ingest.LiveSites, error) {
	cfg := s.configuredSites()
	cfg.Path, cfg.Conn, cfg.Log = s.path(sitesFile), conn, log
	return ingest.OpenLiveSites(cfg)
}

// knownSites are the configured sites and those that the table holds now.
func (s *Settings) knownSites(ctx context.Context, conn driver.Conn) (*ingest.LiveSites, error) {
	cfg := s.configuredSites()
	cfg.Conn = conn
	sites, err := ingest.OpenLiveSites(cfg)
	if err != nil {
		return nil, err
	}
	return sites, sites.Refresh(ctx)
}

// readSites shows the sites of receiving to reading, so that both turn the same URL into the same page.
type readSites struct{ *ingest.Sites }

// ReadSite finds a site by the domain that a reader wrote.
func (s readSites) ReadSite(domain string) (query.Site, bool) {
	site, ok := s.Lookup(domain)
	if !ok {
		return query.Site{}, false
	}
	return query.Site{
		Domain: site.Domain, Zone: site.Zone, Paths: site.Paths, WeekStart: query.WeekStart(site.WeekStart), Public: site.Public,
		Badge: site.Badge, Goals: goals(site), Retention: site.Retention,
	}, true
}

// goals are those of a site as readers see them.
func goals(site *ingest.Site) []query.Goal {
	list := make([]query.Goal, len(site.Goals))
	for i, goal := range site.Goals {
		switch {
		case !strings.HasPrefix(goal, "/"):
			list[i] = query.Goal{Name: goal, Event: goal}
		case strings.Contains(goal, "*"):
			list[i] = query.Goal{Name: "Visit " + goal, Page: goal}
		default:
			list[i] = query.Goal{Name: "Visit " + goal, Page: schema.PageKey(goal, site.Paths)}
		}
	}
	return list
}

// OnlyBadgeSite is the one site that shows badges.
func (s readSites) OnlyBadgeSite() (domain string, ok bool) {
	site, ok := s.OnlyBadge()
	if !ok {
		return "", false
	}
	return site.Domain, true
}
