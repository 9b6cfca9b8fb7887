package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Errors of changing the table sites.
var (
	ErrNoSite     = errors.New("no such site in the table")
	ErrSiteExists = errors.New("site exists in the table")
)

// SiteRecord is a row of the table sites.
type SiteRecord struct {
	SiteSettings
	CreatedAt time.Time
	UpdatedAt time.Time
}

// AddSite stores a site that the table does not hold yet. ErrSiteExists when it does, be it in another case or script.
func AddSite(ctx context.Context, conn driver.Conn, settings SiteSettings) error {
	if _, err := settings.Site(nil); err != nil {
		return err
	}
	name := siteName(settings.Domain)
	list, err := ListSites(ctx, conn)
	if err != nil {
		return err
	}
	if i := indexSite(list, name); i >= 0 {
		return fmt.Errorf("%w: %q", ErrSiteExists, list[i].Domain)
	}
	now := time.Now().UTC()
	return putSite(ctx, conn, SiteRecord{SiteSettings: settings, CreatedAt: now, UpdatedAt: now}, false)
}

// ChangeSite lets change alter a site's settings, all but the domain, and stores and returns them. ErrNoSite when the table holds
// none of that domain. Of two changes at the same time the later one counts as a whole.
func ChangeSite(ctx context.Context, conn driver.Conn, domain string, change func(*SiteSettings)) (SiteSettings, error) {
	record, err := findSite(ctx, conn, domain)
	if err != nil {
		return SiteSettings{}, err
	}
	name := record.Domain
	change(&record.SiteSettings)
	record.Domain = name
	if _, err := record.Site(nil); err != nil {
		return SiteSettings{}, err
	}
	return record.SiteSettings, putSite(ctx, conn, record, false)
}

// RemoveSite takes a site out of the table and returns its domain: its events are refused, what was counted stays. ErrNoSite when
// the table holds none of that domain.
func RemoveSite(ctx context.Context, conn driver.Conn, domain string) (removed string, err error) {
	record, err := findSite(ctx, conn, domain)
	if err != nil {
		return "", err
	}
	return record.Domain, putSite(ctx, conn, record, true)
}

func findSite(ctx context.Context, conn driver.Conn, domain string) (SiteRecord, error) {
	list, err := ListSites(ctx, conn)
	if err != nil {
		return SiteRecord{}, err
	}
	i := indexSite(list, siteName(domain))
	if i < 0 {
		return SiteRecord{}, fmt.Errorf("%w: %.100q", ErrNoSite, domain)
	}
	return list[i], nil
}

func indexSite(list []SiteRecord, name string) int {
	return slices.IndexFunc(list, func(r SiteRecord) bool { return siteName(r.Domain) == name })
}

// siteColumns in the order in which a row is read and written.
const siteColumns = `domain, hosts, exact_hosts, zone, hash_routing, keep_query, public, badge, week_start,
	address_limit, site_limit, path_limit, retention_days, respect_dnt, respect_gpc,
	ignore_addresses, ignore_hosts, ignore_paths, ignore_countries, goals, created_at, updated_at`

// ListSites reads the sites of the table, the oldest first.
func ListSites(ctx context.Context, conn driver.Conn) ([]SiteRecord, error) {
	rows, err := conn.Query(ctx, "SELECT "+siteColumns+" FROM sites FINAL WHERE removed = 0 ORDER BY created_at, domain")
	if err != nil {
		return nil, fmt.Errorf("read sites: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var list []SiteRecord
	for rows.Next() {
		r, err := scanSite(rows)
		if err != nil {
			return nil, fmt.Errorf("read sites: %w", err)
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

func scanSite(rows driver.Rows) (r SiteRecord, err error) {
	var exact, hash, public, badge, dnt, gpc uint8
	var paths, days uint32
	err = rows.Scan(&r.Domain, &r.Hosts, &exact, &r.Zone, &hash, &r.KeepQuery, &public, &badge, &r.WeekStart,
		&r.AddressLimit, &r.SiteLimit, &paths, &days, &dnt, &gpc,
		&r.IgnoreAddresses, &r.IgnoreHosts, &r.IgnorePaths, &r.IgnoreCountries, &r.Goals, &r.CreatedAt, &r.UpdatedAt)
	r.AddressLimit, r.SiteLimit = finite(r.AddressLimit), finite(r.SiteLimit)
	r.PathLimit, r.RetentionDays = int(paths), int(days)
	r.ExactHosts, r.HashRouting, r.Public, r.Badge = exact != 0, hash != 0, public != 0, badge != 0
	r.RespectDNT, r.RespectGPC = dnt != 0, gpc != 0
	return r, err
}

// finite makes what is no number, and what JSON cannot hold, one that no setting may have.
func finite(n float64) float64 {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return -1
	}
	return n
}

// putSite writes r as the newest row of its domain: clocks may differ, so that it is never older than the row it replaces.
func putSite(ctx context.Context, conn driver.Conn, r SiteRecord, removed bool) error {
	if now := time.Now().UTC(); now.After(r.UpdatedAt) {
		r.UpdatedAt = now
	} else {
		r.UpdatedAt = r.UpdatedAt.Add(time.Millisecond)
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO sites ("+siteColumns+", removed)")
	if err != nil {
		return fmt.Errorf("store site: %w", err)
	}
	defer func() { _ = batch.Close() }()
	err = batch.Append(r.Domain, notNil(r.Hosts), flag(r.ExactHosts), r.Zone, flag(r.HashRouting), notNil(r.KeepQuery), flag(r.Public), flag(r.Badge),
		r.WeekStart, r.AddressLimit, r.SiteLimit, uint32(r.PathLimit), uint32(r.RetentionDays), flag(r.RespectDNT), flag(r.RespectGPC),
		notNil(r.IgnoreAddresses), notNil(r.IgnoreHosts), notNil(r.IgnorePaths), notNil(r.IgnoreCountries), notNil(r.Goals), r.CreatedAt, r.UpdatedAt, flag(removed))
	if err == nil {
		err = batch.Send()
	}
	if err != nil {
		return fmt.Errorf("store site: %w", err)
	}
	return nil
}

// flag is a switch as the table holds it.
func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
