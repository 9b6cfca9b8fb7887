package aggregate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	// mostStalls is how many rounds of repair may pass without fewer rows differing.
	mostStalls = 3
	// mostMended bounds the rows that one statement mends: they pass through this process.
	mostMended = 50_000
	// abandonedWithin is how long statements that others left running are waited for.
	abandonedWithin = 2 * time.Minute
)

// repair makes r agree with the events in the buckets of a piece that differ, and returns those that differ still.
func (v *verifier) repair(ctx context.Context, r rollup, p piece, differing map[bucketKey]bucketState) (map[bucketKey]bucketState, error) {
	left := maps.Clone(differing)
	for least, stalls := differingRows(left), 0; len(left) > 0 && stalls < mostStalls; {
		for _, buckets := range portions(left) {
			if err := v.touch(ctx, buckets); err != nil {
				return nil, err
			}
			if err := v.mendBuckets(ctx, r, p, buckets, left); err != nil {
				return nil, err
			}
			if err := v.touch(ctx, buckets); err != nil {
				return nil, err
			}
		}
		// What delivery began to mend before may be the same difference.
		if err := v.awaitOlder(ctx, deliveryIDPrefix); err != nil {
			return nil, err
		}
		only := bucketSet{}
		for key := range left {
			only[key] = struct{}{}
		}
		c, err := v.compareSettled(ctx, r, p, only)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(left, func(key bucketKey, _ bucketState) bool {
			_, open := c.unsettled[key]
			return !open
		})
		maps.Copy(left, c.differing)
		if rows := differingRows(left); rows < least {
			least, stalls = rows, 0
		} else {
			stalls++
		}
	}
	return left, nil
}

// touch makes what was built of the buckets' days old: before they are mended, so that nothing is built from them meanwhile, and after,
// so that nothing that was is used.
func (v *verifier) touch(ctx context.Context, buckets []bucketKey) error {
	sites, days := make([]string, len(buckets)), make([]uint32, len(buckets))
	for i, key := range buckets {
		sites[i], days[i] = key.site, key.bucket
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(mendSettings), clickhouse.WithQueryID(verifyQueryID()))
	err := v.conn.Exec(ctx, `INSERT INTO touched (site, day, changes, at)
		SELECT DISTINCT pair.1, toDate(toDateTime(pair.2, 'UTC')), 1, now() FROM (SELECT arrayJoin(arrayZip({sites:Array(String)}, {buckets:Array(UInt32)})) AS pair)`,
		clickhouse.Named("sites", sites), clickhouse.Named("buckets", days))
	if err != nil {
		return fmt.Errorf("touch days: %w", err)
	}
	return nil
}

// portions cuts buckets so that a statement mends all rows of its own, unless a single bucket has too many.
func portions(buckets map[bucketKey]bucketState) (list [][]bucketKey) {
	var rows uint64
	for _, key := range sortedBuckets(buckets) {
		rows += buckets[key].Rows
		if last := len(list) - 1; last >= 0 && rows <= mostMended && len(list[last]) < mostNamed {
			list[last] = append(list[last], key)
			continue
		}
		list, rows = append(list, []bucketKey{key}), buckets[key].Rows
	}
	return list
}

func differingRows(buckets map[bucketKey]bucketState) (rows uint64) {
	for _, s := range buckets {
		rows += s.Rows
	}
	return rows
}

// mendBuckets mends what is known to differ in some buckets.
func (v *verifier) mendBuckets(ctx context.Context, r rollup, p piece, buckets []bucketKey, states map[bucketKey]bucketState) error {
	those := func(is func(bucketState) bool) []bucketKey {
		return slices.DeleteFunc(slices.Clone(buckets), func(key bucketKey) bool { return !is(states[key]) })
	}
	if strange := those(func(s bucketState) bool { return s.strangers > 0 }); len(strange) > 0 {
		if err := v.emptySketches(ctx, r, strange); err != nil {
			return fmt.Errorf("empty sketches: %w", err)
		}
	}
	if lacking := those(func(s bucketState) bool { return s.Visitors > 0 }); len(lacking) > 0 {
		if err := v.mendSketches(ctx, r, lacking); err != nil {
			return fmt.Errorf("mend sketches: %w", err)
		}
	}
	if wrong := those(func(s bucketState) bool { return s.Short != 0 || s.Over != 0 }); len(wrong) > 0 {
		if err := v.mendSums(ctx, r, p, wrong); err != nil {
			return fmt.Errorf("mend sums: %w", err)
		}
	}
	return nil
}

// emptySketches takes every visitor out of buckets whose sketches hold some that no event has: a sketch cannot forget one. Sums stay as
// they are. What arrives meanwhile may be taken out with the rest, and is found lacking by the comparison that follows.
func (v *verifier) emptySketches(ctx context.Context, r rollup, buckets []bucketKey) error {
	of := named(buckets)
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}), clickhouse.WithQueryID(verifyQueryID()))
	return v.conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s UPDATE visitors = arrayReduce('uniqCombined64State(%d)', emptyArrayUInt64()) WHERE %s",
		r.table, r.precision, of.rollup), of.params...)
}

// mendSketches merges the visitors of the events into the rows that lack some of them.
func (v *verifier) mendSketches(ctx context.Context, r rollup, buckets []bucketKey) error {
	of := named(buckets)
	sides, err := r.sides(of)
	if err != nil {
		return err
	}
	settings := maps.Clone(mendSettings)
	maps.Copy(settings, verifySettings)
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings), clickhouse.WithQueryID(verifyQueryID()))
	return v.conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, n, visitors)
SELECT %[2]s, toInt64(0) AS n, uniqCombined64MergeStateIf(%[3]d)(sketch, side = 'events') AS visitors
FROM (%[4]s) GROUP BY %[2]s HAVING %[5]s`, r.table, r.keys, r.precision, sides, r.merged("merged != held")), of.params...)
}

// mendSums adds the differences of rows whose buckets stood still while they were read. If none did it tries again until patience
// ends. What is left is for the next round.
func (v *verifier) mendSums(ctx context.Context, r rollup, p piece, buckets []bucketKey) error {
	deadline := v.cfg.now().Add(v.cfg.patience)
	for attempt := 0; ; attempt++ {
		before, err := v.motion.quiet(ctx, p.day)
		if err != nil {
			return err
		}
		lacking, err := v.lackingSums(ctx, r, named(buckets))
		if err != nil {
			return err
		}
		moving, err := v.motion.since(ctx, p.day, before)
		if err != nil {
			return err
		}
		still := slices.DeleteFunc(lacking, func(row keyedSum) bool { return moving.has(row.at) || moving.stuck[row.at.site] })
		if len(still) > 0 {
			return v.addSums(ctx, r, still)
		}
		if len(lacking) == 0 || v.cfg.now().After(deadline) {
			return nil
		}
		if err := pause(ctx, retryWait(attempt)); err != nil {
			return err
		}
	}
}

// keyedSum is a row of a rollup: what its n lacks, last of values, behind its keys.
type keyedSum struct {
	at     bucketKey
	values []any
}

// lackingSums reads by how much the sums of rows differ, of mostMended rows at most.
func (v *verifier) lackingSums(ctx context.Context, r rollup, of stretch) ([]keyedSum, error) {
	sides, err := r.sides(of)
	if err != nil {
		return nil, err
	}
	rows, err := v.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(verifySettings)), fmt.Sprintf(
		`SELECT toUnixTimestamp(bucket), %[1]s, sum(delta) AS d FROM (%[2]s) GROUP BY %[1]s HAVING d != 0 LIMIT %[3]d`, r.keys, sides, mostMended), of.params...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	keys := strings.Split(r.keys, ", ")
	var lacking []keyedSum
	for rows.Next() {
		texts, bucket, n := make([]string, len(keys)), time.Time{}, int64(0)
		var row keyedSum
		dest := []any{&row.at.bucket}
		for i, key := range keys {
			if key == "bucket" {
				dest = append(dest, &bucket)
			} else {
				dest = append(dest, &texts[i])
			}
		}
		if err := rows.Scan(append(dest, &n)...); err != nil {
			return nil, err
		}
		for i, key := range keys {
			switch key {
			case "bucket":
				row.values = append(row.values, bucket)
				continue
			case "site":
				row.at.site = texts[i]
			}
			row.values = append(row.values, texts[i])
		}
		row.values = append(row.values, n)
		lacking = append(lacking, row)
	}
	return lacking, rows.Err()
}

// addSums inserts differences. Rows of a table with sketches get empty ones, which merging does not see.
func (v *verifier) addSums(ctx context.Context, r rollup, sums []keyedSum) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(mendSettings), clickhouse.WithQueryID(verifyQueryID()))
	batch, err := v.conn.PrepareBatch(ctx, "INSERT INTO "+r.table+" ("+r.keys+", n)")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	for _, row := range sums {
		if err := batch.Append(row.values...); err != nil {
			return err
		}
	}
	return batch.Send()
}

// awaitOlder waits until no statement with a query id of the prefix runs that was running when it was called.
func (v *verifier) awaitOlder(ctx context.Context, prefix string) error {
	began := time.Now()
	for {
		var running uint64
		since := time.Since(began)
		err := v.conn.QueryRow(ctx, `SELECT count() FROM system.processes WHERE startsWith(query_id, {prefix:String}) AND elapsed >= {since:Float64}`,
			clickhouse.Named("prefix", prefix), clickhouse.Named("since", fmt.Sprint(since.Seconds()))).Scan(&running)
		switch {
		case err != nil:
			return fmt.Errorf("look for running statements: %w", err)
		case running == 0:
			return nil
		case since > abandonedWithin:
			return fmt.Errorf("a statement named %s... has been running for more than %v: end it with KILL QUERY", prefix, abandonedWithin)
		}
		if err := pause(ctx, storedPoll); err != nil {
			return err
		}
	}
}
