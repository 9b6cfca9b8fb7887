package aggregate

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// bucketKey is a bucket of a site; bucket is in Unix seconds.
type bucketKey struct {
	site   string
	bucket uint32
}

type bucketSet = map[bucketKey]struct{}

// bucketState is how a bucket of a rollup compares with the events.
type bucketState struct {
	Sums
	strangers uint64 // rows with visitors that no event has: merging cannot mend those
}

// comparison is what is known of the buckets of a piece of a table.
type comparison struct {
	compared  uint64
	unsettled bucketSet
	differing map[bucketKey]bucketState
}

// stretch is the part of a day that a statement is about, its events and its rows of a rollup.
type stretch struct {
	events, rollup string // conditions
	params         []any
}

const (
	sitesOfPiece = ` AND ({site:String} = '' OR site = {site:String}) AND NOT has({skip:Array(String)}, site)`
	eventsPiece  = `ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) AND ts < fromUnixTimestamp64Milli({to:Int64} * 1000)` + sitesOfPiece
	rollupPiece  = `bucket >= fromUnixTimestamp({from:Int64}) AND bucket < fromUnixTimestamp({to:Int64})` + sitesOfPiece
)

// mostNamed bounds the buckets that a statement names.
const mostNamed = 2000

// piece is the buckets of a day that begin in a time, half open.
type piece struct{ day, from, to time.Time }

// rowsAtOnce is about how many events a statement adds up. In dimensions each is in a row of every dimension.
const rowsAtOnce = 250_000

// pieces cuts a day by the number of its events.
func (v *verifier) pieces(ctx context.Context, day time.Time) ([]piece, error) {
	of := v.all(piece{day, day, day.AddDate(0, 0, 1)})
	var rows uint64
	if err := v.conn.QueryRow(ctx, "SELECT count() FROM events WHERE "+of.events, of.params...).Scan(&rows); err != nil {
		return nil, fmt.Errorf("count events: %w", err)
	}
	return cutDay(day, rows), nil
}

// cutDay cuts a day of so many events evenly; 15 minutes are the smallest piece.
func cutDay(day time.Time, rows uint64) (pieces []piece) {
	const buckets = uint64(24 * time.Hour / bucketLength)
	length := bucketLength * time.Duration(max(1, buckets/(1+rows/rowsAtOnce)))
	end := day.AddDate(0, 0, 1)
	for from := day; from.Before(end); from = from.Add(length) {
		to := from.Add(length)
		if to.After(end) {
			to = end
		}
		pieces = append(pieces, piece{day, from, to})
	}
	return pieces
}

// all is every bucket of a piece, but for sites that do not keep the day any more.
func (v *verifier) all(p piece) stretch {
	return stretch{eventsPiece, rollupPiece, []any{
		clickhouse.Named("from", fmt.Sprint(p.from.Unix())), clickhouse.Named("to", fmt.Sprint(p.to.Unix())),
		clickhouse.Named("site", v.cfg.Site), clickhouse.Named("skip", v.beyondRetention(p.day)),
	}}
}

// named is some buckets of a day; there must be one at least.
func named(buckets []bucketKey) stretch {
	s := scope{from: int64(buckets[0].bucket)}
	for _, key := range buckets {
		s.from = min(s.from, int64(key.bucket))
		s.to = max(s.to, int64(key.bucket)+int64(bucketLength/time.Second))
		s.sites, s.buckets = append(s.sites, key.site), append(s.buckets, key.bucket)
	}
	return stretch{eventsScope, rollupScope, s.params()}
}

// compareSettled compares the given buckets of a piece, nil for all of it, until every one of them stood still while it was compared or
// patience ends.
func (v *verifier) compareSettled(ctx context.Context, r rollup, p piece, only bucketSet) (*comparison, error) {
	c := &comparison{unsettled: bucketSet{}, differing: map[bucketKey]bucketState{}}
	deadline := v.cfg.now().Add(v.cfg.patience)
	for attempt := 0; ; attempt++ {
		seen, moving, err := v.compareOnce(ctx, r, p, only)
		if err != nil {
			return nil, err
		}
		open := bucketSet{}
		for key, state := range seen {
			switch {
			case moving.stuck[key.site]:
				c.unsettled[key] = struct{}{}
			case moving.has(key):
				open[key] = struct{}{}
			case state.Rows > 0:
				c.differing[key] = state
				fallthrough
			default:
				c.compared++
			}
		}
		if len(open) == 0 {
			return c, nil
		}
		if v.cfg.now().After(deadline) {
			maps.Copy(c.unsettled, open)
			return c, nil
		}
		if err := pause(ctx, retryWait(attempt)); err != nil {
			return nil, err
		}
		only = open
	}
}

// retryWait grows to a second: a bucket that events arrive in stands still for most of the time between two INSERTs.
func retryWait(attempt int) time.Duration {
	return min(50*time.Millisecond<<min(attempt, 10), time.Second)
}

// compareOnce compares buckets and tells which of them may have moved meanwhile.
func (v *verifier) compareOnce(ctx context.Context, r rollup, p piece, only bucketSet) (map[bucketKey]bucketState, moving, error) {
	of := v.all(p)
	if only != nil && len(only) <= mostNamed {
		of = named(sortedBuckets(only))
	}
	before, err := v.motion.quiet(ctx, p.day)
	if err != nil {
		return nil, moving{}, err
	}
	seen, err := v.compare(ctx, r, of)
	if err != nil {
		return nil, moving{}, err
	}
	if only != nil {
		maps.DeleteFunc(seen, func(key bucketKey, _ bucketState) bool {
			_, asked := only[key]
			return !asked
		})
	}
	moving, err := v.motion.since(ctx, p.day, before)
	return seen, moving, err
}

// compare reads how the buckets of a stretch compare, as they are at some moment of each table.
func (v *verifier) compare(ctx context.Context, r rollup, of stretch) (map[bucketKey]bucketState, error) {
	sql, err := r.compareSQL(of)
	if err != nil {
		return nil, err
	}
	rows, err := v.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(verifySettings)), sql, of.params...)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	defer func() { _ = rows.Close() }()
	seen := map[bucketKey]bucketState{}
	for rows.Next() {
		var key bucketKey
		var s bucketState
		if err := rows.Scan(&key.site, &key.bucket, &s.Rows, &s.Short, &s.Over, &s.Visitors, &s.strangers); err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		seen[key] = s
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return seen, nil
}

// compareSQL adds the differences of r's rows up by bucket: rows that differ, n that lacks and n too much, rows whose visitors differ,
// and those of them that hold visitors which no event has. A row whose n adds up to zero may be missing in the rollup.
func (r rollup) compareSQL(of stretch) (string, error) {
	sides, err := r.sides(of)
	if err != nil {
		return "", err
	}
	visitors := "0 AS differ, 0 AS strange"
	if r.precision > 0 {
		visitors = fmt.Sprintf("%s AS differ, %s AS strange", r.merged("merged != held OR merged != fresh"), r.merged("merged != fresh"))
	}
	return fmt.Sprintf(`SELECT toString(site), toUnixTimestamp(bucket), countIf(d != 0 OR differ), sumIf(d, d > 0), -sumIf(d, d < 0), countIf(differ), countIf(strange)
FROM (SELECT %[1]s, sum(delta) AS d, %[2]s FROM (%[3]s) GROUP BY %[1]s)
GROUP BY site, bucket`, r.keys, visitors, sides), nil
}

// merged is a condition on the visitors of a row: fresh are those of the events, held those of the rollup, merged both together.
func (r rollup) merged(condition string) string {
	return strings.NewReplacer(
		"fresh", fmt.Sprintf("uniqCombined64MergeIf(%d)(sketch, side = 'events')", r.precision),
		"held", fmt.Sprintf("uniqCombined64MergeIf(%d)(sketch, side = 'rollup')", r.precision),
		"merged", fmt.Sprintf("uniqCombined64Merge(%d)(sketch)", r.precision),
	).Replace("(" + condition + ")")
}

// sides is a SELECT of r's rows as the events of a stretch make them, and with negative sums as r holds them.
func (r rollup) sides(of stretch) (string, error) {
	feed, err := r.feed(of.events)
	if err != nil {
		return "", err
	}
	sketch := ""
	if r.precision > 0 {
		sketch = ", visitors AS sketch"
	}
	return fmt.Sprintf(`SELECT %[1]s, n AS delta%[2]s, 'events' AS side FROM (%[3]s)
	UNION ALL
	SELECT %[1]s, -n AS delta%[2]s, 'rollup' AS side FROM %[4]s WHERE %[5]s`, r.keys, sketch, feed, r.table, of.rollup), nil
}

// verifySettings keep a day of a large site within the server's memory: what is more goes to its disk.
var verifySettings = clickhouse.Settings{
	"max_bytes_before_external_group_by": 256 << 20,
	"max_threads":                        2,
}
