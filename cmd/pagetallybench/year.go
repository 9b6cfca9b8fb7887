//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/aggregate/periods"
)

// year is a year of events as they might have been: popular pages and sites, days and weeks with their rhythm, visitors who come for a day.
// The same size is the same year in every run.
type year struct {
	conn  driver.Conn
	views int64
	sites int
}

const (
	yearPages = 5000 // of a site
	yearDays  = 365
	// yearVisit is the mean number of events of a visitor of a day.
	yearVisit = 3
)

var (
	yearStart = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	// yearNow is when the year is looked at: some days after its end.
	yearNow = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	// weekRhythm is the weight of each day from Sunday on.
	weekRhythm = [7]float64{.7, 1.1, 1.15, 1.15, 1.1, 1.05, .75}
)

func yearSite(i int) string { return fmt.Sprintf("site%d.example", i) }

// yearEvents is the SELECT of a day's events, all of them functions of their number. u(x) is even between 0 and 1.
const yearEvents = `WITH
	(x) -> cityHash64(x, number, {day:UInt32}) / 18446744073709551616. AS u,
	'site' || toString(toUInt8(floor(pow(u('site'), 2.5) * {sites:UInt8}))) || '.example' AS of_site,
	toUInt32(floor(exp(u('page') * log({pages:UInt32} + 1)))) AS page,
	cityHash64(of_site, {day:UInt32}, floor(u('visitor') * greatest(1, {rows:UInt64} / {visit:UInt8}))) AS who
SELECT
	of_site AS site, if(u('name') < .95, 'pageview', 'signup') AS name, of_site AS hostname, '/page/' || toString(page) AS path, path AS path_key,
	'Page ' || toString(page) AS title,
	['', '', 'Google', 'Google', 'Bing', 'Newsletter', 'Reddit', 'news.example'][1 + who % 8] AS source,
	['Direct', 'Direct', 'Organic Search', 'Organic Search', 'Organic Search', 'Email', 'Organic Social', 'Referral'][1 + who % 8] AS channel,
	['US', 'US', 'DE', 'GB', 'FR', 'IN', 'BR', 'JP', 'CA', 'NO'][1 + intDiv(who, 8) % 10] AS country,
	['Chrome', 'Chrome', 'Chrome', 'Safari', 'Firefox', 'Edge'][1 + intDiv(who, 80) % 6] AS browser,
	['Windows', 'macOS', 'Android', 'iOS', 'Linux'][1 + intDiv(who, 480) % 5] AS os,
	['Desktop', 'Mobile', 'Mobile', 'Tablet'][1 + intDiv(who, 2400) % 4] AS device,
	['en', 'de', 'fr', 'es'][1 + intDiv(who, 9600) % 4] AS language,
	fromUnixTimestamp64Milli({day:Int64} * 86400000 + toInt64((u('a') + u('b')) / 2 * 86399999), 'UTC') AS ts, ts AS received_at,
	who AS visitor, toInt64(1) AS n, {batch:String} AS batch
FROM numbers({rows:UInt64})`

// fill makes the year and builds what a server has built of it.
func (y *year) fill(ctx context.Context) error {
	began := time.Now()
	for day := range yearDays {
		if err := y.fillDay(ctx, day); err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
		if day%30 == 29 {
			say("%d of %d days of %d views, %s", day+1, yearDays, y.views, time.Since(began).Round(time.Second))
		}
	}
	return y.build(ctx)
}

func (y *year) fillDay(ctx context.Context, day int) error {
	start := yearStart.AddDate(0, 0, day)
	rows := int64(float64(y.views) / .95 / yearDays * weekRhythm[start.Weekday()])
	batch := "year-" + start.Format(time.DateOnly)
	settings := clickhouse.Settings{
		"async_insert": 0, "insert_deduplicate": 0, "deduplicate_insert": "disable", "deduplicate_insert_select": "disable", "max_insert_threads": 1, "max_threads": 2,
		"max_block_size": 200_000, "min_insert_block_size_rows": 200_000, "force_grouping_standard_compatibility": 1, "group_by_use_nulls": 0,
	}
	err := y.conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(settings)), `INSERT INTO inbox (site, name, hostname, path, path_key, title, source, channel,
		country, browser, os, device, language, ts, received_at, visitor, n, batch) `+yearEvents,
		clickhouse.Named("day", start.Unix()/86400), clickhouse.Named("rows", rows), clickhouse.Named("sites", y.sites), clickhouse.Named("pages", yearPages),
		clickhouse.Named("visit", yearVisit), clickhouse.Named("batch", batch))
	if err != nil {
		return err
	}
	touched := make([]string, y.sites)
	for i := range touched {
		touched[i] = fmt.Sprintf("('%s', '%s')", yearSite(i), start.Format(time.DateOnly))
	}
	return y.conn.Exec(ctx, "INSERT INTO ledger (batch, state, touched) VALUES ('"+batch+"', 'stored', ["+strings.Join(touched, ", ")+"])")
}

// build makes days, months and visits, as a server does in the background.
func (y *year) build(ctx context.Context) error {
	began := time.Now()
	builder, err := periods.New(periods.Config{
		Conn: y.conn, Quiet: -math.MaxInt64, Now: func() time.Time { return yearNow },
		Sites: func(string) (periods.Site, bool) { return periods.Site{}, true },
	})
	if err != nil {
		return err
	}
	for built := 0; ; {
		n, err := builder.Look(ctx)
		if err != nil {
			return err
		}
		if built += n; n == 0 {
			say("%d closed periods built in %s", built, time.Since(began).Round(time.Second))
			return nil
		}
	}
}
