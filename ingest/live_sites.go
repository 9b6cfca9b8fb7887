package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// LiveSitesConfig is what LiveSites need.
type LiveSitesConfig struct {
	Named    []string       // sites with default settings, which those of the table replace
	Settings []SiteSettings // sites of the configuration, which replace those of the table
	Any      bool           // every other domain is a site as well, see NewSites
	Zone     *time.Location // of sites that name none; UTC when nil

	Path string      // of the file that holds the last known sites of the table; empty: none
	Conn driver.Conn // whose default database has the table sites; nil: the configuration's sites are all
	Log  *slog.Logger
}

// Sources of a site.
const (
	SourceNamed    = "--site"        // a domain in a list, with default settings
	SourceSettings = "configuration" // settings in the configuration
	SourceTable    = "table"         // a row of the table sites
)

// KnownSite is a site, where it comes from, and why it is not in use, if so.
type KnownSite struct {
	SiteSettings
	Source    string `json:"source"`
	Unused    string `json:"unused,omitempty"`
	WebsiteID string `json:"website_id"` // its name for Umami's trackers, which also take the domain

	site Site
}

// LiveSites are the sites of the configuration and those of the table sites; the latter change while events arrive, within
// refreshPeriod on every node that reaches ClickHouse. While ClickHouse is away the last known ones are used, from a file also after
// a restart.
type LiveSites struct {
	*Sites
	cfg LiveSitesConfig

	refreshing sync.Mutex // one refresh at a time
	file       *lastKnown // refreshing; nil: none
	applied    []byte     // refreshing: the rows in use, as the file has them
	known      []KnownSite
}

// OpenLiveSites checks the sites of the configuration and adds the last known ones of the table. It does not reach for ClickHouse.
func OpenLiveSites(cfg LiveSitesConfig) (*LiveSites, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &LiveSites{Sites: &Sites{}, cfg: cfg}
	if err := s.checkConfigured(); err != nil {
		return nil, err
	}
	if cfg.Path != "" {
		var err error
		if s.file, err = openLastKnown(cfg.Path); err != nil {
			return nil, fmt.Errorf("read sites: %w", err)
		}
		s.applied = s.file.written
	}
	rows, err := decodeSites(s.applied)
	if err != nil {
		return nil, fmt.Errorf("read sites %s: %w", cfg.Path, err)
	}
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return s, s.applyLocked(rows)
}

// checkConfigured refuses what is wrong with the configuration, which nobody but its author can mend.
func (s *LiveSites) checkConfigured() error {
	var names []string
	for _, one := range s.cfg.Settings {
		if _, err := one.Site(s.cfg.Zone); err != nil {
			return err
		}
		if slices.Contains(names, siteName(one.Domain)) {
			return fmt.Errorf("site %.100q: domain: stands twice", one.Domain)
		}
		names = append(names, siteName(one.Domain))
	}
	for _, domain := range s.cfg.Named {
		one := SiteSettings{Domain: domain}
		if _, err := one.Site(s.cfg.Zone); err != nil {
			return err
		}
	}
	return nil
}

// Run refreshes the sites until ctx ends.
func (s *LiveSites) Run(ctx context.Context) error {
	return keepRefreshed(ctx, "sites", s.cfg.Log, s.Refresh)
}

// Refresh reads the sites from ClickHouse now. Sites whose settings are the same as before stay the same to requests under way.
func (s *LiveSites) Refresh(ctx context.Context) error {
	if s.cfg.Conn == nil {
		return nil
	}
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	records, err := ListSites(ctx, s.cfg.Conn)
	if err != nil {
		return err
	}
	rows := make([]SiteSettings, len(records))
	for i, r := range records {
		rows[i] = r.SiteSettings
	}
	data := encodeSites(rows)
	if !bytes.Equal(data, s.applied) {
		if err := s.applyLocked(rows); err != nil {
			return err
		}
		s.applied = data
		s.cfg.Log.Info("sites changed", "table", len(rows))
	}
	if s.file == nil {
		return nil
	}
	if err := s.file.write(data); err != nil {
		return fmt.Errorf("write sites: %w", err)
	}
	return nil
}

// Known lists all sites and where they come from, unused rows of the table too, the configuration's first.
func (s *LiveSites) Known() []KnownSite {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return slices.Clone(s.known)
}

// applyLocked joins the configuration with the table's rows. A row that cannot be used, which nobody wrote by these functions, is
// left out and does not stand in the way of the others.
func (s *LiveSites) applyLocked(rows []SiteSettings) error {
	known := s.joined(rows)
	var list []Site
	for _, k := range known {
		if k.Unused == "" {
			list = append(list, k.site)
			continue
		}
		s.cfg.Log.Warn("site of the table is not used", "site", k.Domain, "reason", k.Unused)
	}
	if err := s.Replace(list, s.cfg.Any); err != nil {
		return err
	}
	s.known = known
	return nil
}

func (s *LiveSites) joined(rows []SiteSettings) []KnownSite {
	var known []KnownSite
	by := make(map[string]string) // source of each site by its name
	add := func(one SiteSettings, source string) {
		k := KnownSite{SiteSettings: one, Source: source, WebsiteID: WebsiteID(one.Domain)}
		var err error
		if k.site, err = one.Site(s.cfg.Zone); err != nil {
			k.Unused = err.Error()
		} else if other, taken := by[siteName(one.Domain)]; taken {
			k.Unused = "the settings of the " + other + " count"
		} else {
			by[siteName(one.Domain)] = source
		}
		known = append(known, k)
	}
	for _, one := range s.cfg.Settings {
		add(one, SourceSettings)
	}
	for _, one := range rows {
		add(one, SourceTable)
	}
	for _, domain := range s.cfg.Named {
		if _, taken := by[siteName(domain)]; !taken {
			add(SiteSettings{Domain: strings.TrimSpace(domain)}, SourceNamed)
		}
	}
	return known
}

// encodeSites writes one site a line, in JSON.
func encodeSites(rows []SiteSettings) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i := range rows {
		if err := e.Encode(&rows[i]); err != nil {
			panic(err) // texts and finite numbers always marshal
		}
	}
	return b.Bytes()
}

func decodeSites(data []byte) ([]SiteSettings, error) {
	var rows []SiteSettings
	for _, line := range lines(string(data)) {
		var one SiteSettings
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, err
		}
		rows = append(rows, one)
	}
	return rows, nil
}
