package aggregate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
)

// bucketOf is the rollups' bucket of an event, as the views compute it.
const bucketOf = "toStartOfFifteenMinutes(toDateTime(ts, 'UTC'))"

const bucketLength = 15 * time.Minute

// scope is the buckets of sites that a batch touches within one month: each rollup partition is mended alone, which bounds the memory
// of a statement.
type scope struct {
	from, to int64 // Unix seconds of the first bucket and of the end of the last
	sites    []string
	buckets  []uint32 // Unix seconds, one for each of sites
}

// scopes lists what b touches, from its rows: the tables may hold none of them.
func (g *group) scopes(b *Batch) ([]scope, error) {
	type touch struct {
		site   string
		bucket uint32
	}
	seen, byMonth, order := map[touch]bool{}, map[int]*scope{}, []int{}
	err := g.visitBatch(b, func(r *row) error {
		length := int64(bucketLength / time.Millisecond)
		t := touch{r.event.Site, uint32(r.event.TS / length * length / 1000)}
		if seen[t] {
			return nil
		}
		seen[t] = true
		month := r.event.Month()
		s := byMonth[month]
		if s == nil {
			s = &scope{from: int64(t.bucket)}
			byMonth[month], order = s, append(order, month)
		}
		s.from = min(s.from, int64(t.bucket))
		s.to = max(s.to, int64(t.bucket)+int64(bucketLength/time.Second))
		s.sites, s.buckets = append(s.sites, t.site), append(s.buckets, t.bucket)
		return nil
	})
	var list []scope
	for _, month := range order {
		list = append(list, *byMonth[month])
	}
	return list, err
}

// params binds the scope; every statement of a repair uses the same names.
func (s scope) params() []any {
	return []any{
		clickhouse.Named("from", strconv.FormatInt(s.from, 10)), clickhouse.Named("to", strconv.FormatInt(s.to, 10)),
		clickhouse.Named("sites", s.sites), clickhouse.Named("buckets", s.buckets),
	}
}

const (
	touched     = `(SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({sites:Array(String)}, {buckets:Array(UInt32)})) AS pair))`
	eventsScope = `ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) AND ts < fromUnixTimestamp64Milli({to:Int64} * 1000) AND has({sites:Array(String)}, site)
		AND (toString(site), toUnixTimestamp(` + bucketOf + `)) IN ` + touched
	rollupScope = `bucket >= fromUnixTimestamp({from:Int64}) AND bucket < fromUnixTimestamp({to:Int64}) AND has({sites:Array(String)}, site)
		AND (toString(site), toUnixTimestamp(bucket)) IN ` + touched
)

// rollup is a table that adds events up: n by keys, and if precision is set a sketch of the visitors.
type rollup struct {
	table     string
	keys      string
	precision int // of uniqCombined64
}

var rollups = []rollup{
	{table: "views", keys: "site, name, bucket, path_key, job"},
	{table: "visitors", keys: "site, name, bucket, job", precision: 17},
	{table: "dimensions", keys: "site, dimension, kind, bucket, value, job", precision: 15},
}

// difference is a SELECT of what the events of a scope add up to, as d, less what r holds of it.
func (r rollup) difference() (string, error) {
	feed, err := r.feed(eventsScope)
	if err != nil {
		return "", err
	}
	fromEvents, fromRollup := "", ""
	if r.precision > 0 {
		fromEvents = ", visitors AS sketch"
		fromRollup = fmt.Sprintf(", uniqCombined64StateIf(%d)(toUInt64(0), 0) AS sketch", r.precision)
	}
	return fmt.Sprintf(`SELECT %[1]s, n AS d%[2]s FROM (%[3]s)
	UNION ALL
	SELECT %[1]s, -sum(n) AS d%[4]s FROM %[5]s WHERE %[6]s GROUP BY %[1]s`,
		r.keys, fromEvents, feed, fromRollup, r.table, rollupScope), nil
}

// feed is the SELECT of the rows that r should hold of the events that a condition selects.
func (r rollup) feed(condition string) (string, error) {
	return schema.FeedQuery(r.table, "(SELECT * FROM events WHERE "+condition+")")
}

// mendSQL is the statement that makes r agree with the events of a scope: sums get signed differences, which are nothing where they
// agree; sketches get those of the events merged in once more, which changes nothing where they were.
func (r rollup) mendSQL() (string, error) {
	difference, err := r.difference()
	if err != nil {
		return "", err
	}
	if r.precision == 0 {
		return fmt.Sprintf("INSERT INTO %[1]s (%[2]s, n)\nSELECT %[2]s, sum(d) AS n FROM (%[3]s) GROUP BY %[2]s HAVING n != 0",
			r.table, r.keys, difference), nil
	}
	return fmt.Sprintf("INSERT INTO %[1]s (%[2]s, n, visitors)\nSELECT %[2]s, sum(d) AS n, uniqCombined64MergeState(%[4]d)(sketch) AS visitors FROM (%[3]s) GROUP BY %[2]s",
		r.table, r.keys, difference, r.precision), nil
}

// countSQL counts the keys of a scope whose sums differ.
func (r rollup) countSQL() (string, error) {
	difference, err := r.difference()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("SELECT count() FROM (SELECT %[1]s, sum(d) AS difference FROM (%[2]s) GROUP BY %[1]s HAVING difference != 0)", r.keys, difference), nil
}

// mendRollups makes the rollups of every bucket that b touches agree with the events again. Nothing may be inserting into these
// tables meanwhile: an INSERT whose event is in but whose counter is not yet would be counted twice. Run twice, it changes nothing
// the second time.
func (d *Delivery) mendRollups(ctx context.Context, g *group, b *Batch) error {
	err := g.eachRollup(b, func(r rollup, s scope) error {
		d.step("settle: before mending " + r.table)
		return d.mend(ctx, b, r, s)
	})
	if err != nil {
		return fmt.Errorf("mend rollups: %w", err)
	}
	d.metrics.repairs.Inc()
	return nil
}

// takeBack removes from the rollups what a refused batch left there: the server refuses a block in one table and may have taken it
// in others. Sums are mended; a sketch cannot forget, so its buckets are built anew from the events.
func (d *Delivery) takeBack(ctx context.Context, g *group, b *Batch) error {
	err := g.eachRollup(b, func(r rollup, s scope) error { return d.takeBackFrom(ctx, b, r, s) })
	if err != nil {
		return fmt.Errorf("take back from rollups: %w", err)
	}
	return nil
}

// eachRollup calls f for every rollup in every scope of b, and names the table an error is of.
func (g *group) eachRollup(b *Batch, f func(rollup, scope) error) error {
	scopes, err := g.scopes(b)
	if err != nil {
		return err
	}
	for _, s := range scopes {
		for _, r := range rollups {
			if err := f(r, s); err != nil {
				return fmt.Errorf("%s: %w", r.table, err)
			}
		}
	}
	return nil
}

func (d *Delivery) takeBackFrom(ctx context.Context, b *Batch, r rollup, s scope) error {
	sql, err := r.countSQL()
	if err != nil {
		return err
	}
	var differing uint64
	if err := d.conn.QueryRow(ctx, sql, s.params()...).Scan(&differing); err != nil || differing == 0 {
		return err
	}
	if r.precision > 0 {
		ctx := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}), clickhouse.WithQueryID(d.queryID(b.ID)))
		if err := d.conn.Exec(ctx, "ALTER TABLE "+r.table+" DELETE WHERE "+rollupScope, s.params()...); err != nil {
			return err
		}
	}
	return d.mend(ctx, b, r, s)
}

// mend runs under a query id of the batch, so that waitGone sees a statement that a lost connection left behind.
func (d *Delivery) mend(ctx context.Context, b *Batch, r rollup, s scope) error {
	sql, err := r.mendSQL()
	if err != nil {
		return err
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(mendSettings), clickhouse.WithQueryID(d.queryID(b.ID)))
	return d.conn.Exec(ctx, sql, s.params()...)
}

// mendSettings turn deduplication off: equal differences at two times are two differences, and a repair is safe to repeat because it
// computes what is missing anew.
var mendSettings = clickhouse.Settings{
	"async_insert":                    0,
	"insert_deduplicate":              0,
	"deduplicate_insert":              "disable",
	"deduplicate_insert_select":       "disable",
	"max_partitions_per_insert_block": 0,
	"max_insert_threads":              1,
	"optimize_on_insert":              1,
}

// landed compares what `events` holds of b with its decision, by month.
type landed struct {
	missing []int // months without a row of the batch
	wrong   []int // months with other rows or another sum than decided
}

func (d *Delivery) landed(ctx context.Context, b *Batch) (landed, error) {
	var l landed
	found, err := d.storedParts(ctx, b)
	if err != nil {
		return l, fmt.Errorf("count stored rows: %w", err)
	}
	for _, want := range b.Parts {
		switch got := found[want.Month]; {
		case got == want:
		case got.Rows == 0:
			l.missing = append(l.missing, want.Month)
		default:
			l.wrong = append(l.wrong, want.Month)
		}
	}
	return l, nil
}

func (d *Delivery) storedParts(ctx context.Context, b *Batch) (map[int]PartitionSum, error) {
	rows, err := d.conn.Query(ctx, `SELECT toYYYYMM(ts) AS month, count(), sum(n) FROM events
		WHERE batch = {batch:String} AND ts >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND ts <= fromUnixTimestamp64Milli({to:Int64}, 'UTC')
		GROUP BY month`,
		clickhouse.Named("batch", b.ID.String()), clickhouse.Named("from", fmt.Sprint(b.MinTS)), clickhouse.Named("to", fmt.Sprint(b.MaxTS)))
	if err != nil {
		return nil, err
	}
	return scanParts(rows)
}

func scanParts(rows driver.Rows) (map[int]PartitionSum, error) {
	defer func() { _ = rows.Close() }()
	found := map[int]PartitionSum{}
	for rows.Next() {
		var month uint32
		var p PartitionSum
		if err := rows.Scan(&month, &p.Rows, &p.N); err != nil {
			return nil, err
		}
		p.Month = int(month)
		found[p.Month] = p
	}
	return found, rows.Err()
}
