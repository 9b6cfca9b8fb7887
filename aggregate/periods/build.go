package periods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema"
)

// state reads what decides what is due of a site.
func (b *Builder) state(ctx context.Context, site string) (*state, error) {
	s := &state{touched: map[int64]touch{}, builds: map[period]build{}}
	named := clickhouse.Named("site", site)
	rows, err := b.cfg.Conn.Query(ctx, "SELECT toUInt16(day), sum(changes), max(at) FROM touched WHERE site = {site:String} GROUP BY day ORDER BY day", named)
	if err != nil {
		return nil, fmt.Errorf("read touched days: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var day uint16
		var t touch
		if err := rows.Scan(&day, &t.changes, &t.at); err != nil {
			return nil, fmt.Errorf("read touched days: %w", err)
		}
		if len(s.touched) == 0 {
			s.first = int64(day)
		}
		s.touched[int64(day)] = t
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read touched days: %w", err)
	}
	return s, b.readBuilds(ctx, s, named)
}

func (b *Builder) readBuilds(ctx context.Context, s *state, site any) error {
	rows, err := b.cfg.Conn.Query(ctx, `SELECT toUInt8(grain), toUInt16(period), toInt64(toUnixTimestamp(b.from)), toInt64(toUnixTimestamp(b.to)), build, changes
		FROM builds AS b FINAL WHERE site = {site:String}`, site)
	if err != nil {
		return fmt.Errorf("read builds: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind uint8
		var first uint16
		var p period
		var one build
		if err := rows.Scan(&kind, &first, &p.from, &p.to, &one.id, &one.changes); err != nil {
			return fmt.Errorf("read builds: %w", err)
		}
		p.grain, p.first = grain(kind), int64(first)
		s.builds[p] = one
	}
	return rows.Err()
}

// do builds periods of one grain and makes the builds current. A month whose days are not all built yet is left out. What is too much for
// one statement is done in halves.
func (b *Builder) do(ctx context.Context, site touchedSite, s *state, group []task) (done int, err error) {
	began := time.Now()
	id := uint64(0)
	if !group[0].withdraw {
		id = newID()
		ok, err := b.insertRows(ctx, site, s, group, id)
		if half := len(group) / 2; err != nil && half > 0 && ctx.Err() == nil {
			first, err := b.do(ctx, site, s, group[:half])
			if err != nil {
				return first, err
			}
			second, err := b.do(ctx, site, s, group[half:])
			return first + second, err
		}
		if err != nil || !ok {
			return 0, err
		}
	}
	periods, made := make([]period, len(group)), make([]build, len(group))
	for i, t := range group {
		periods[i], made[i] = t.period, build{id, t.changes}
	}
	if err := b.makeCurrent(ctx, site.domain, s, periods, made); err != nil {
		return 0, err
	}
	b.metrics.built(group[0].grain, len(group), time.Since(began))
	return len(group), nil
}

// recordSilent makes builds without rows current, of periods in which nothing happened.
func (b *Builder) recordSilent(ctx context.Context, site string, s *state, silent []task) (recorded int, err error) {
	if len(silent) == 0 {
		return 0, nil
	}
	periods, made := make([]period, len(silent)), make([]build, len(silent))
	for i, t := range silent {
		periods[i], made[i] = t.period, build{id: newID()}
	}
	return len(silent), b.makeCurrent(ctx, site, s, periods, made)
}

// newID is a number that no other build has, for all that is likely. 0 is none.
func newID() uint64 { return rand.Uint64N(1<<63) + 1 }

// insertRows adds the rows of a group's builds, which share their number. done is false for a month whose days are not all built.
func (b *Builder) insertRows(ctx context.Context, site touchedSite, s *state, group []task, id uint64) (done bool, err error) {
	g := group[0].grain
	from, to := group[0].from, group[0].to
	var first, starts []int64
	for _, t := range group {
		from, to = min(from, t.from), max(to, t.to)
		first, starts = append(first, t.first), append(starts, t.from)
	}
	params := []any{
		clickhouse.Named("site", site.domain), clickhouse.Named("build", id), clickhouse.Named("periods", first), clickhouse.Named("period", first[0]),
		clickhouse.Named("from", from), clickhouse.Named("to", to),
	}
	switch g {
	case months:
		list, ok := s.daysOf(group[0].period)
		if !ok {
			return false, nil
		}
		params = append(params, clickhouse.Named("days", list.days), clickhouse.Named("builds", list.ids))
	case visits:
		params = append(params, clickhouse.Named("starts", starts), clickhouse.Named("edges", daysWithin(from, to, site.Zone)))
	}
	for _, sql := range statements[g] {
		if err := b.exec(ctx, sql, params...); err != nil {
			return false, fmt.Errorf("build %s of %s: %w", g, time.Unix(from, 0).UTC().Format(time.DateOnly), err)
		}
	}
	return true, nil
}

// daysWithin are the starts of a zone's days from one of them until to, in Unix seconds.
func daysWithin(from, to int64, zone *time.Location) (starts []int64) {
	for day := dayNumber(time.Unix(from, 0), zone); ; day++ {
		start := max(0, dayStart(day, zone))
		if start >= to {
			return starts
		}
		if n := len(starts); n == 0 || starts[n-1] < start {
			starts = append(starts, start)
		}
	}
}

// dayBuilds are the current builds of a month's days.
type dayBuilds struct {
	days []int64
	ids  []uint64
}

// daysOf lists the builds of a month's days with events; ok is false unless all are as recent as their changes.
func (s *state) daysOf(month period) (list dayBuilds, ok bool) {
	for day := month.from / daySeconds; day*daySeconds < month.to; day++ {
		changes := s.touched[day].changes
		if changes == 0 {
			continue
		}
		b := s.builds[period{days, day, day * daySeconds, (day + 1) * daySeconds}]
		if b.id == 0 || b.changes != changes {
			return list, false
		}
		list.days, list.ids = append(list.days, day), append(list.ids, b.id)
	}
	return list, true
}

const (
	inBuckets = `site = {site:String} AND bucket >= toDateTime({from:Int64}, 'UTC') AND bucket < toDateTime({to:Int64}, 'UTC')
		AND toUInt16(toDate(bucket)) IN {periods:Array(UInt16)}`
	inDays = `site = {site:String} AND grain = 'day' AND period >= toDate({from:Int64}, 'UTC') AND period < toDate({to:Int64}, 'UTC')
		AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({days:Array(UInt16)}, {builds:Array(UInt64)})) AS pair))`
)

// statements that make the rows of a build, by grain.
var statements = map[grain][]string{
	days:   addUp("day", "toDate(bucket)", inBuckets, "views", "visitors", "dimensions"),
	months: addUp("month", "toDate({period:UInt16})", inDays, "period_views", "period_visitors", "period_dimensions"),
	visits: {insertVisits(), insertVisitBuckets},
}

// addUp adds finer rows up, which a condition selects of the tables by page, by name and by dimension. first is the first day of a row's
// period.
func addUp(grain, first, condition, views, visitors, dimensions string) []string {
	const newBuild = "toUInt64({build:UInt64}) AS new_build"
	first += " AS first_day"
	return []string{
		`INSERT INTO period_views (site, grain, name, period, path_key, build, n)
		SELECT site, '` + grain + `', name, ` + first + `, path_key, ` + newBuild + `, sum(n) AS total
		FROM ` + views + ` WHERE ` + condition + ` GROUP BY site, name, first_day, path_key HAVING total != 0`,
		`INSERT INTO period_visitors (site, grain, name, period, build, n, visitors)
		SELECT site, '` + grain + `', name, ` + first + `, ` + newBuild + `, sum(n), uniqCombined64MergeState(17)(visitors)
		FROM ` + visitors + ` WHERE ` + condition + ` GROUP BY site, name, first_day`,
		`INSERT INTO period_dimensions (site, grain, dimension, kind, period, value, build, n, visitors)
		SELECT site, '` + grain + `', dimension, kind, ` + first + `, value, ` + newBuild + `, sum(n), uniqCombined64MergeState(15)(visitors)
		FROM ` + dimensions + ` WHERE ` + condition + ` GROUP BY site, dimension, kind, first_day, value`,
	}
}

// insertVisits cuts the events of days of the site into visits.
func insertVisits() string {
	attributes := strings.Join(schema.VisitAttributes(), ", ")
	events := "(SELECT * FROM events WHERE site = {site:String} AND " + schema.InVisits +
		" AND ts >= toDateTime64({from:Int64}, 3, 'UTC') AND ts < toDateTime64({to:Int64}, 3, 'UTC'))"
	return "INSERT INTO visits (site, day, build, start, visitor, duration_ms, views, events, bounced, entry_path, exit_path, " + attributes + `)
		SELECT {site:String}, toDate(transform(visit_day, {starts:Array(UInt32)}, {periods:Array(UInt16)}, toUInt16(0))), toUInt64({build:UInt64}),
			fromUnixTimestamp64Milli(visit, 'UTC'), visitor, duration_ms, views, events, bounced, entry_path, exit_path, ` +
		attributes + " FROM (" + schema.VisitsQuery(events, "roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)})") + ") WHERE visit_day IN {starts:Array(UInt32)}"
}

const insertVisitBuckets = `INSERT INTO visit_buckets (site, day, bucket, build, visits, bounces, duration_ms, views, events)
		SELECT site, day, toStartOfFifteenMinutes(toDateTime(start)) AS at, build, count(), sum(bounced), sum(toInt64(duration_ms)), sum(views), sum(events)
		FROM visits WHERE site = {site:String} AND toUInt16(day) IN {periods:Array(UInt16)} AND build = {build:UInt64} GROUP BY site, day, at, build`

// makeCurrent makes builds the ones that readers use of their periods, or none where the id is 0.
func (b *Builder) makeCurrent(ctx context.Context, site string, s *state, periods []period, made []build) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(b.settings()))
	batch, err := b.cfg.Conn.PrepareBatch(ctx, "INSERT INTO builds (site, grain, period, build, changes, from, to, at)")
	if err != nil {
		return fmt.Errorf("record builds: %w", err)
	}
	defer func() { _ = batch.Close() }()
	for i, p := range periods {
		err := batch.Append(site, p.grain.String(), time.Unix(p.first*daySeconds, 0).UTC(), made[i].id, made[i].changes,
			time.Unix(p.from, 0).UTC(), time.Unix(p.to, 0).UTC(), time.Now().UTC())
		if err != nil {
			return fmt.Errorf("record builds: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("record builds: %w", err)
	}
	for i, p := range periods {
		if replaced := s.builds[p]; replaced.id != 0 {
			b.leave(site, p, replaced.id)
		}
		s.builds[p] = made[i]
	}
	return nil
}

func (b *Builder) exec(ctx context.Context, sql string, params ...any) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout+10*time.Second)
	defer cancel()
	return b.cfg.Conn.Exec(clickhouse.Context(ctx, clickhouse.WithSettings(b.settings())), sql, params...)
}
