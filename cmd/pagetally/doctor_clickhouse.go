package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/docker/go-units"

	"github.com/pagetally/pagetally/schema"
)

// clickhouseChecks is what the promises rest on in the server, in the order of the table.
var clickhouseChecks = []clickhouseCheck{
	{"clickhouse", checkVersion},
	{"clock", checkClock},
	{"migrations", checkMigrations},
	{"windows", checkWindows},
	{"fsync", checkFsync},
	{"parts", checkParts},
	{"mutations", checkMutations},
	{"replicas", checkReplicas},
	{"clickhouse disk", checkClickHouseDisk},
	{"sums", checkSums},
	{"intents", checkIntents},
	{"closed periods", checkPeriods},
}

// oldestVersion is the first ClickHouse on which exactly once has been tested.
var oldestVersion = [2]uint64{26, 7}

func checkVersion(_ context.Context, conn driver.Conn, name string) (finding, error) {
	v, err := conn.ServerVersion()
	if err != nil {
		return finding{}, err
	}
	got := v.Version
	if got.Major < oldestVersion[0] || got.Major == oldestVersion[0] && got.Minor < oldestVersion[1] {
		return failed(name, "deduplication through views differs in older servers: upgrade", "version %s, older than %d.%d", got, oldestVersion[0], oldestVersion[1]), nil
	}
	return passed(name, "version %s", got), nil
}

func checkClock(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var server time.Time
	asked := time.Now()
	if err := conn.QueryRow(ctx, "SELECT now64(3, 'UTC')").Scan(&server); err != nil {
		return finding{}, err
	}
	answered := time.Now()
	// The server looked at its clock at some moment between the two; the middle is off by half the round trip at most.
	skew := server.Sub(asked.Add(answered.Sub(asked) / 2)).Round(time.Millisecond)
	const advice = "let NTP set both clocks: retention, time to live and 'as of' compare them"
	switch off := skew.Abs(); {
	case off > time.Minute:
		return failed(name, advice, "ClickHouse is %s ahead of this machine", skew), nil
	case off > 2*time.Second:
		return warned(name, advice, "ClickHouse is %s ahead of this machine", skew), nil
	}
	return passed(name, "within %s of ClickHouse's", max(skew.Abs(), time.Millisecond)), nil
}

func checkMigrations(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	pending, err := schema.Pending(ctx, conn)
	if err != nil {
		return failed(name, "run the version of pagetally that made these tables, or a newer one", "%v", err), nil
	}
	if len(pending) > 0 {
		return warned(name, "run `pagetally migrate`, or start the server, which does it", "%d to apply", len(pending)), nil
	}
	return passed(name, "none to apply"), nil
}

// leastWindow is how many inserts a table must remember the token of. A retry is never that many inserts late.
const leastWindow = 10_000

func checkWindows(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	windows, err := windowsOf(ctx, conn)
	if err != nil {
		return finding{}, err
	}
	var small []string
	for _, target := range schema.Targets() {
		window, there := windows[target.Table]
		switch {
		case !there:
			return warned(name, "run `pagetally migrate`", "table %s is not there", target.Table), nil
		case window < leastWindow:
			small = append(small, fmt.Sprintf("%s %d", target.Table, window))
		}
	}
	if len(small) > 0 {
		return failed(name, "ALTER TABLE ... MODIFY SETTING non_replicated_deduplication_window = 100000 (replicated_ for Replicated tables)",
			"too few inserts are remembered: %s", strings.Join(small, ", ")), nil
	}
	return passed(name, "every table remembers %d inserts or more", leastWindow), nil
}

// windowsOf reads how many inserts each table remembers; 0 where nothing is set.
func windowsOf(ctx context.Context, conn driver.Conn) (map[string]uint64, error) {
	const query = `
SELECT name, toUInt64OrZero(extract(engine_full, 'replicated_deduplication_window = (\\d+)')) -- with non_ before it or not
FROM system.tables WHERE database = currentDatabase()`
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	windows := map[string]uint64{}
	for rows.Next() {
		var table string
		var window uint64
		if err := rows.Scan(&table, &window); err != nil {
			return nil, err
		}
		windows[table] = window
	}
	return windows, rows.Err()
}

func checkFsync(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var on uint64
	const query = `SELECT countIf(value = '1') FROM system.merge_tree_settings WHERE name IN ('fsync_after_insert', 'fsync_part_directory')`
	if err := conn.QueryRow(ctx, query).Scan(&on); err != nil {
		return finding{}, err
	}
	if on < 2 {
		return warned(name, "set fsync_after_insert=1 and fsync_part_directory=1 under <merge_tree> in the server's configuration",
			"a power cut at the server can lose parts whose insert was answered; stored segments are kept 15 minutes against it"), nil
	}
	return passed(name, "parts are synced to disk before an insert is answered"), nil
}

func checkParts(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var most uint64
	const query = `
SELECT max(parts) FROM (
  SELECT count() AS parts FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table, partition_id)`
	if err := conn.QueryRow(ctx, query).Scan(&most); err != nil {
		return finding{}, err
	}
	const advice = "merges do not keep up: look at disk and CPU of the server, and for other writers into these tables"
	switch {
	case most >= 1000:
		return failed(name, advice, "%d in one partition: inserts are delayed or refused", most), nil
	case most >= 300:
		return warned(name, advice, "%d in one partition", most), nil
	}
	return passed(name, "at most %d in a partition", most), nil
}

func checkMutations(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var stuck uint64
	var reason string
	const query = `
SELECT count(), any(latest_fail_reason) FROM system.mutations
WHERE database = currentDatabase() AND NOT is_done AND latest_fail_reason != ''`
	if err := conn.QueryRow(ctx, query).Scan(&stuck, &reason); err != nil {
		return finding{}, err
	}
	if stuck > 0 {
		return warned(name, "mend the cause, or KILL MUTATION", "%d fail: %s", stuck, firstLine(reason)), nil
	}
	return passed(name, "none fails"), nil
}

func checkReplicas(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var all, readonly uint64
	const query = `SELECT count(), countIf(is_readonly) FROM system.replicas WHERE database = currentDatabase()`
	if err := conn.QueryRow(ctx, query).Scan(&all, &readonly); err != nil {
		return finding{}, err
	}
	switch {
	case readonly > 0:
		return failed(name, "look at Keeper and the server's log; events wait in the journal meanwhile", "%d of %d tables are read-only", readonly, all), nil
	case all == 0:
		return passed(name, "tables are not replicated"), nil
	}
	return passed(name, "%d tables, none read-only", all), nil
}

func checkClickHouseDisk(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var disk string
	var free, total uint64
	const query = `
SELECT name, free_space, total_space FROM system.disks
WHERE total_space BETWEEN 1 AND toUInt64(1e18) ORDER BY free_space / total_space LIMIT 1`
	if err := conn.QueryRow(ctx, query).Scan(&disk, &free, &total); err != nil {
		return warned(name, "watch it yourself", "cannot be seen: %v", err), nil
	}
	return judgeDisk(name, disk, free, total), nil
}

// judgeDisk wants room for merges, which write a part anew before they drop the old ones.
func judgeDisk(check, where string, free, total uint64) finding {
	share := float64(free) / float64(total)
	seen := fmt.Sprintf("%s has %s of %s free", where, units.BytesSize(float64(free)), units.BytesSize(float64(total)))
	switch {
	case share < 0.02 || free < 256<<20:
		return failed(check, "free some room: at the end of it events are answered 503", "%s", seen)
	case share < 0.1:
		return warned(check, "free some room soon", "%s", seen)
	}
	return passed(check, "%s", seen)
}

func checkSums(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	var most float64
	if err := conn.QueryRow(ctx, `SELECT max(abs(total)) FROM (SELECT sum(toFloat64(n)) AS total FROM views GROUP BY site)`).Scan(&most); err != nil {
		return warned(name, "run `pagetally migrate`", "cannot be read: %s", firstLine(err.Error())), nil
	}
	if most > math.Exp2(62) {
		return failed(name, "a sum past 2^63 wraps: undo the job that sent such deltas", "a site's total is about %.3g", most), nil
	}
	return passed(name, "far from the end of Int64"), nil
}

func checkIntents(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	const query = `
SELECT count(), toInt64(dateDiff('second', min(first), now64(3, 'UTC'))) FROM (
  SELECT min(at) AS first, countIf(state = 'stored') AS stored FROM ledger GROUP BY batch)
WHERE stored = 0`
	var open uint64
	var age int64
	if err := conn.QueryRow(ctx, query).Scan(&open, &age); err != nil {
		return warned(name, "run `pagetally migrate`", "cannot be read: %s", firstLine(err.Error())), nil
	}
	if open > 0 && age > 60 {
		return warned(name, "start the server that wrote them: it finishes or checks them", "%d batches announced and not stored, the oldest %s ago", open, time.Duration(age)*time.Second), nil
	}
	return passed(name, "%d batches on the way", open), nil
}

// checkPeriods tells how many days that were over and left alone for half an hour are not built. It is no fault: they are read from finer
// rows, and those of removed sites stay as they are.
func checkPeriods(ctx context.Context, conn driver.Conn, name string) (finding, error) {
	const query = `
SELECT count(), countIf(t.over AND (b.build = 0 OR b.changes != t.changes)), toString(minIf(t.day, t.over AND (b.build = 0 OR b.changes != t.changes)))
FROM (SELECT site, day, sum(changes) AS changes, toDateTime(day + 1, 'UTC') < now() - INTERVAL 30 MINUTE AND max(at) < now() - INTERVAL 30 MINUTE AS over FROM touched GROUP BY site, day) AS t
LEFT JOIN (SELECT site, period, changes, build FROM builds FINAL WHERE grain = 'day') AS b ON b.site = t.site AND b.period = t.day`
	var days, waiting uint64
	var oldest string
	if err := conn.QueryRow(ctx, query).Scan(&days, &waiting, &oldest); err != nil {
		return warned(name, "run `pagetally migrate`", "cannot be read: %s", firstLine(err.Error())), nil
	}
	if waiting > 0 {
		return passed(name, "%d of %d days of sites wait to be built, the oldest %s; until then they are read from finer rows", waiting, days, oldest), nil
	}
	return passed(name, "%d days of sites, none waits to be built", days), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
