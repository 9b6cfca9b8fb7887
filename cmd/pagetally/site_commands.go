package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/pagetally/pagetally/ingest"
)

// sitesCommand looks after the sites of the table. A running server takes changes up within seconds.
type sitesCommand struct {
	Add    sitesAdd    `cmd:"" help:"Add a site and print what to put on its pages."`
	Set    sitesSet    `cmd:"" help:"Change settings of a site: those given, and no others."`
	List   sitesList   `cmd:"" help:"List all sites, their settings and where they come from."`
	Remove sitesRemove `cmd:"" help:"Remove a site. What was counted stays."`
}

// siteFlags are a site's settings as flags. Those not given are nil and change nothing; --zone is a flag of every command.
type siteFlags struct {
	Hosts           *[]string `help:"Hosts whose pages count. Empty: the domain, www. and its subdomains."`
	ExactHosts      *bool     `negatable:"" help:"The hosts alone, without their subdomains."`
	HashRouting     *bool     `negatable:"" help:"The fragment (#/page) names the page."`
	KeepQuery       *[]string `help:"Query parameters that name the page."`
	Public          *bool     `negatable:"" help:"Numbers may be read without a key."`
	Badge           *bool     `negatable:"" help:"Counts may be shown as badges."`
	WeekStart       *string   `help:"First day of a week in reports: monday to sunday."`
	Goals           *[]string `help:"What visitors are wanted to do: names of events, and pages by /path ('*' stops at a slash, '**' does not)."`
	AddressLimit    *float64  `help:"Beacons a second from one address. 0: the default."`
	SiteLimit       *float64  `help:"Beacons a second. 0: the default."`
	PathLimit       *int      `help:"New paths a day before further ones count as (other). 0: the default."`
	RetentionDays   *int      `help:"Days after which events are refused. 0: never."`
	RespectDNT      *bool     `name:"respect-dnt" negatable:"" help:"Views of browsers that send DNT: 1 do not count."`
	RespectGPC      *bool     `name:"respect-gpc" negatable:"" help:"Views of browsers that send Sec-GPC: 1 do not count."`
	IgnoreAddresses *[]string `help:"Addresses and networks whose views do not count."`
	IgnoreHosts     *[]string `help:"Hosts whose views do not count, also *.dev.example.com."`
	IgnorePaths     *[]string `help:"Pages whose views do not count: /admin/** ('*' stops at a slash, '**' does not)."`
	IgnoreCountries *[]string `help:"Countries whose views do not count, such as DE."`
}

// apply changes the settings that were given.
func (f *siteFlags) apply(s *ingest.SiteSettings) {
	list(&s.Hosts, f.Hosts)
	give(&s.ExactHosts, f.ExactHosts)
	give(&s.HashRouting, f.HashRouting)
	list(&s.KeepQuery, f.KeepQuery)
	give(&s.Public, f.Public)
	give(&s.Badge, f.Badge)
	give(&s.WeekStart, f.WeekStart)
	list(&s.Goals, f.Goals)
	give(&s.AddressLimit, f.AddressLimit)
	give(&s.SiteLimit, f.SiteLimit)
	give(&s.PathLimit, f.PathLimit)
	give(&s.RetentionDays, f.RetentionDays)
	give(&s.RespectDNT, f.RespectDNT)
	give(&s.RespectGPC, f.RespectGPC)
	list(&s.IgnoreAddresses, f.IgnoreAddresses)
	list(&s.IgnoreHosts, f.IgnoreHosts)
	list(&s.IgnorePaths, f.IgnorePaths)
	list(&s.IgnoreCountries, f.IgnoreCountries)
}

func give[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

// list takes over a list that was given; --hosts= empties it.
func list(to, given *[]string) {
	if given != nil {
		*to = slices.DeleteFunc(slices.Clone(*given), func(s string) bool { return strings.TrimSpace(s) == "" })
	}
}

// zoneGiven is the zone that the command line names, not that of the environment or the configuration file: it is the server's.
func zoneGiven(k *kong.Context, s *Settings) (zone string, ok bool) {
	given := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "zone" && !p.Resolved })
	return s.Zone, given
}

type sitesAdd struct {
	Domain string `arg:"" help:"The site's domain, such as example.com."`
	At     string `help:"Address at which browsers reach this server, for what is printed. Empty: --listen." placeholder:"URL"`
	siteFlags
}

// Run adds a site.
func (c *sitesAdd) Run(ctx context.Context, s *Settings, k *kong.Context, out io.Writer) error {
	settings := ingest.SiteSettings{Domain: strings.ToLower(strings.TrimSpace(c.Domain))}
	c.apply(&settings)
	if zone, ok := zoneGiven(k, s); ok {
		settings.Zone = zone
	}
	if _, err := settings.Site(nil); err != nil {
		return err // before an engine is started for it
	}
	err := s.changeSites(ctx, settings.Domain, func(db *connection) error { return ingest.AddSite(ctx, db.Conn, settings) })
	if errors.Is(err, ingest.ErrSiteExists) {
		return fmt.Errorf("%w; 'sites set' changes it", err)
	}
	if err != nil {
		return err
	}
	at := strings.TrimSuffix(c.At, "/")
	if at == "" {
		at = "http://" + s.Listen
	}
	return writeSnippet(out, settings, at)
}

// changeSites changes the table, unless the configuration has settings for the domain, behind which a row would not count.
func (s *Settings) changeSites(ctx context.Context, domain string, change func(*connection) error) error {
	configured, err := s.sites()
	if err != nil {
		return err
	}
	for _, one := range s.Sites {
		if site, ok := configured.Lookup(domain); ok && site.Domain == strings.TrimSpace(one.Domain) {
			return fmt.Errorf("site %q is set in the configuration, which goes before the table: change it there", domain)
		}
	}
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	return change(db)
}

type sitesSet struct {
	Domain string `arg:"" help:"The site's domain."`
	siteFlags
}

// Run changes the settings that are given and prints the site as it is now.
func (c *sitesSet) Run(ctx context.Context, s *Settings, k *kong.Context, out io.Writer) error {
	return s.changeSites(ctx, c.Domain, func(db *connection) error {
		settings, err := ingest.ChangeSite(ctx, db.Conn, c.Domain, func(one *ingest.SiteSettings) {
			c.apply(one)
			if zone, ok := zoneGiven(k, s); ok {
				one.Zone = zone
			}
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s: %s\nA running server takes it up within seconds.\n", settings.Domain, describe(settings))
		return err
	})
}

type sitesRemove struct {
	Domain string `arg:"" help:"The site's domain."`
}

// Run removes a site.
func (c *sitesRemove) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return s.changeSites(ctx, c.Domain, func(db *connection) error {
		removed, err := ingest.RemoveSite(ctx, db.Conn, c.Domain)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s is removed; a running server refuses its events within seconds. What was counted stays.\n", removed)
		return err
	})
}

type sitesList struct {
	JSON bool `name:"json" help:"Print JSON instead of a table."`
}

// Run lists the sites of the configuration and of the table.
func (c *sitesList) Run(ctx context.Context, s *Settings, out io.Writer) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	sites, err := s.knownSites(ctx, db.Conn)
	if err != nil {
		return err
	}
	known := sites.Known()
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(append([]ingest.KnownSite{}, known...)) // an empty list, not null
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "domain\tsource\tUmami website\tsettings")
	for _, k := range known {
		source := k.Source
		if k.Unused != "" {
			source += ", unused: " + k.Unused
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Domain, source, k.WebsiteID, describe(k.SiteSettings))
	}
	if slices.Contains(s.Site, anySite) {
		fmt.Fprintf(w, "*\t%s\t\tany other domain\n", ingest.SourceNamed)
	}
	return w.Flush()
}

// describe lists the settings that are not the default, under their names in the configuration file.
func describe(settings ingest.SiteSettings) string {
	text, err := yaml.Marshal(settings)
	if err != nil {
		return err.Error()
	}
	var items yaml.MapSlice
	if err := yaml.Unmarshal(text, &items); err != nil {
		return err.Error()
	}
	var words []string
	for _, item := range items {
		switch value := item.Value.(type) {
		case []any:
			words = append(words, fmt.Sprintf("%v=%s", item.Key, joinList(value)))
		default:
			if item.Key != "domain" {
				words = append(words, fmt.Sprintf("%v=%v", item.Key, value))
			}
		}
	}
	if len(words) == 0 {
		return "defaults"
	}
	return strings.Join(words, " ")
}
