package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
)

// bucketOf is the rollups' bucket of an event, as the views compute it.
const bucketOf = "toStartOfFifteenMinutes(toDateTime(ts, 'UTC'))"

const bucketLength = 15 * time.Minute

// scope narrows a repair to the buckets of sites that a batch touches within one month: each rollup partition is mended alone, which
// bounds the memory of the statement.
type scope struct {
	batch    string
	from, to time.Time // full buckets, half-open
}

func (b *Batch) scopes() []scope {
	var list []scope
	for _, part := range b.Parts {
		month := time.Date(part.Month/100, time.Month(part.Month%100), 1, 0, 0, 0, 0, time.UTC)
		s := scope{batch: b.ID.String(), from: month, to: month.AddDate(0, 1, 0)}
		if first := time.UnixMilli(b.MinTS).UTC().Truncate(bucketLength); first.After(s.from) {
			s.from = first
		}
		if end := time.UnixMilli(b.MaxTS).UTC().Truncate(bucketLength).Add(bucketLength); end.Before(s.to) {
			s.to = end
		}
		list = append(list, s)
	}
	return list
}

// params binds the scope; every statement of a repair uses the same names.
func (s scope) params() []any {
	return []any{
		clickhouse.Named("batch", s.batch),
		clickhouse.Named("from", s.from.Format(time.DateTime)),
		clickhouse.Named("to", s.to.Format(time.DateTime)),
	}
}

const (
	// touchedBuckets are the (site, bucket)s that events of the batch fall into.
	touchedBuckets = `(SELECT site, ` + bucketOf + ` FROM events WHERE batch = {batch:String} AND ts >= {from:DateTime('UTC')} AND ts < {to:DateTime('UTC')})`
	eventsScope    = `ts >= {from:DateTime('UTC')} AND ts < {to:DateTime('UTC')} AND (site, ` + bucketOf + `) IN ` + touchedBuckets
	rollupScope    = `bucket >= {from:DateTime('UTC')} AND bucket < {to:DateTime('UTC')} AND (site, bucket) IN ` + touchedBuckets
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

// mendSQL is the statement that makes r agree with the events of a scope: sums get signed differences, which are nothing where they
// agree; sketches get those of the events merged in once more, which changes nothing where they were.
func (r rollup) mendSQL() (string, error) {
	feed, err := schema.FeedQuery(r.table, "(SELECT * FROM events WHERE "+eventsScope+")")
	if err != nil {
		return "", err
	}
	if r.precision == 0 {
		return fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, n)
SELECT %[2]s, sum(d) AS n FROM
(
	SELECT %[2]s, n AS d FROM (%[3]s)
	UNION ALL
	SELECT %[2]s, -sum(n) AS d FROM %[1]s WHERE %[4]s GROUP BY %[2]s
)
GROUP BY %[2]s HAVING n != 0`, r.table, r.keys, feed, rollupScope), nil
	}
	return fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, n, visitors)
SELECT %[2]s, sum(d) AS n, uniqCombined64MergeState(%[5]d)(sketch) AS visitors FROM
(
	SELECT %[2]s, n AS d, visitors AS sketch FROM (%[3]s)
	UNION ALL
	SELECT %[2]s, -sum(n) AS d, uniqCombined64StateIf(%[5]d)(toUInt64(0), 0) AS sketch FROM %[1]s WHERE %[4]s GROUP BY %[2]s
)
GROUP BY %[2]s`, r.table, r.keys, feed, rollupScope, r.precision), nil
}

// mendRollups makes the rollups of every bucket that b touches agree with the events again. Nothing may be inserting into these
// tables meanwhile: an INSERT whose event is in but whose counter is not yet would be counted twice. Run twice, it changes nothing
// the second time.
func (d *Delivery) mendRollups(ctx context.Context, b *Batch) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(mendSettings))
	for _, s := range b.scopes() {
		for _, r := range rollups {
			sql, err := r.mendSQL()
			if err != nil {
				return err
			}
			d.step("settle: before mending " + r.table)
			if err := d.mend(ctx, b, sql, s); err != nil {
				return fmt.Errorf("mend %s: %w", r.table, err)
			}
		}
	}
	d.metrics.repairs.Inc()
	return nil
}

// mend runs one statement under a query id of the batch, so that waitGone sees one that a lost connection left behind.
func (d *Delivery) mend(ctx context.Context, b *Batch, sql string, s scope) error {
	return d.conn.Exec(clickhouse.Context(ctx, clickhouse.WithQueryID(d.queryID(b.ID))), sql, s.params()...)
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
