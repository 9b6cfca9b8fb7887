package periods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// leftover are the rows of a build that is not current: it was replaced, or never finished.
type leftover struct {
	site  string
	grain grain
	first int64
	build uint64
}

const (
	// leftoverAge is how long rows stay after they were first seen not to be current: who began to read them ends meanwhile, and a
	// build that another node is making becomes current.
	leftoverAge = 15 * time.Minute
	// cleanEvery is how often all rows are looked through for those of builds that never became current.
	cleanEvery = time.Hour
	// leftoversAtOnce bounds a statement that deletes.
	leftoversAtOnce = 500
)

// tablesOf the rows of a build.
var tablesOf = map[grain][]string{
	days: {"period_views", "period_visitors", "period_dimensions"}, months: {"period_views", "period_visitors", "period_dimensions"},
	visits: {"visits", "visit_buckets"},
}

// leave notes that a build is not current any more.
func (b *Builder) leave(site string, p period, id uint64) {
	b.leftovers[leftover{site, p.grain, p.first, id}] = b.cfg.Now()
}

// clean deletes leftovers that are old enough.
func (b *Builder) clean(ctx context.Context) error {
	now := b.cfg.Now()
	if now.Sub(b.cleaned) >= cleanEvery {
		if err := b.findLeftovers(ctx, now); err != nil {
			return fmt.Errorf("find rows of old builds: %w", err)
		}
		b.cleaned = now
	}
	byGrain := map[grain][]leftover{}
	for l, seen := range b.leftovers {
		if now.Sub(seen) >= leftoverAge {
			byGrain[l.grain] = append(byGrain[l.grain], l)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(byGrain)) {
		for list := range slices.Chunk(byGrain[g], leftoversAtOnce) {
			if err := b.delete(ctx, g, list); err != nil {
				return fmt.Errorf("delete rows of old builds: %w", err)
			}
		}
	}
	return nil
}

// findLeftovers looks for rows of builds that are not current. Each table of a grain has rows of a build, or one that has the most does.
func (b *Builder) findLeftovers(ctx context.Context, now time.Time) error {
	for _, sql := range []string{
		"SELECT DISTINCT toString(site) AS site, toUInt8(grain) AS kind, toUInt16(period) AS first, build FROM period_visitors",
		"SELECT DISTINCT toString(site) AS site, toUInt8(grain) AS kind, toUInt16(period) AS first, build FROM period_views",
		"SELECT DISTINCT toString(site) AS site, toUInt8(grain) AS kind, toUInt16(period) AS first, build FROM period_dimensions",
		"SELECT DISTINCT toString(site) AS site, toUInt8(3) AS kind, toUInt16(day) AS first, build FROM visits",
	} {
		rows, err := b.cfg.Conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(b.settings())), "SELECT site, kind, first, build FROM ("+sql+
			") WHERE (site, kind, first, build) NOT IN (SELECT toString(site), toUInt8(grain), toUInt16(period), build FROM builds FINAL)")
		if err != nil {
			return err
		}
		if err := b.noteLeftovers(rows, now); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) noteLeftovers(rows driver.Rows, now time.Time) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var l leftover
		var kind uint8
		var first uint16
		if err := rows.Scan(&l.site, &kind, &first, &l.build); err != nil {
			return err
		}
		l.grain, l.first = grain(kind), int64(first)
		if _, known := b.leftovers[l]; !known {
			b.leftovers[l] = now
		}
	}
	return rows.Err()
}

// delete deletes rows by site, period and build: periods that were built together share a number.
func (b *Builder) delete(ctx context.Context, g grain, list []leftover) error {
	sites, periods, ids := make([]string, len(list)), make([]int64, len(list)), make([]uint64, len(list))
	for i, l := range list {
		sites[i], periods[i], ids[i] = l.site, l.first, l.build
	}
	period := "period"
	if g == visits {
		period = "day"
	}
	for _, table := range tablesOf[g] {
		err := b.exec(ctx, "DELETE FROM "+table+" WHERE has(arrayZip({sites:Array(String)}, {periods:Array(UInt16)}, {builds:Array(UInt64)}), (toString(site), toUInt16("+period+"), build)) SETTINGS lightweight_deletes_sync = 1",
			clickhouse.Named("sites", sites), clickhouse.Named("periods", periods), clickhouse.Named("builds", ids))
		if err != nil {
			return err
		}
	}
	for _, l := range list {
		delete(b.leftovers, l)
	}
	b.metrics.deleted.Add(float64(len(list)))
	return nil
}
