package chaos

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

// ledger is the answer of /v1/ledger.
type ledger struct {
	Accepted, Stored, Duplicate, Parked, Pending, Quarantined, Undone, Forgotten int64
	Batches, Open                                                                int64
	Balanced                                                                     bool
}

// drain waits until everything that was acknowledged is stored and returns the books.
func drain(t testing.TB, s *server, within time.Duration) ledger {
	t.Helper()
	var l ledger
	eventually(t, within, "drain", func() error {
		if err := s.get("/v1/ledger", &l); err != nil {
			return err
		}
		if l.Pending != 0 || l.Open != 0 || l.Parked != 0 {
			return fmt.Errorf("ledger %+v", l)
		}
		return nil
	})
	return l
}

// verify asserts that the tables, the API and the books hold what the record says, to the unit.
func verify(t testing.TB, s *server, r *record, l ledger) {
	t.Helper()
	conn := s.connect()
	for _, failure := range r.failures {
		t.Errorf("answer: %s", failure)
	}
	verifyEvents(t, conn, r)
	verifyVisitors(t, conn, r)
	verifyRollups(t, conn)
	verifyLedger(t, conn, r, l)
	verifyAPI(t, s, r)
}

// verifyEvents compares the raw events with the record: each id once, each page's rows and sum.
func verifyEvents(t testing.TB, conn driver.Conn, r *record) {
	t.Helper()
	got, loose := map[page]totals{}, map[page]totals{}
	each(t, conn, `SELECT name, path_key, toInt64(count()), sum(n) FROM events GROUP BY name, path_key`, func(rows driver.Rows) error {
		var p page
		var sum totals
		if err := rows.Scan(&p.name, &p.path, &sum.rows, &sum.n); err != nil {
			return err
		}
		if strings.HasPrefix(p.path, "/loose/") {
			loose[p] = sum
			return nil
		}
		got[p] = sum
		return nil
	})
	if diff := cmp.Diff(r.wanted(), got, cmp.AllowUnexported(page{}, totals{})); diff != "" {
		t.Errorf("events by page (-acknowledged +counted):\n%s", diff)
	}
	for p, bounds := range r.loose {
		if n := loose[p].n; n < bounds.acknowledged || n > bounds.sent || loose[p].rows != n {
			t.Errorf("%s counts %+v, want within %+v", p.path, loose[p], bounds)
		}
		delete(loose, p)
	}
	if len(loose) > 0 {
		t.Errorf("pages that nobody sent: %v", loose)
	}
	verifyIDs(t, conn, r)
}

// verifyIDs names the events that are lost or doubled. Ids that the server made are covered by their pages' sums.
func verifyIDs(t testing.TB, conn driver.Conn, r *record) {
	t.Helper()
	count := make(map[string]uint64, len(r.ids))
	each(t, conn, `SELECT props['id'] AS id, count() FROM events WHERE props['id'] != '' GROUP BY id`, func(rows driver.Rows) error {
		var id string
		var n uint64
		if err := rows.Scan(&id, &n); err != nil {
			return err
		}
		count[id] = n
		return nil
	})
	var wrong []string
	for id, n := range count {
		if at, known := r.ids[id]; n != 1 || !known {
			wrong = append(wrong, fmt.Sprintf("%s counts %d times, acknowledged %v at %s", id, n, known, at.Format(timeOfDay)))
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		t.Errorf("%d events doubled or never acknowledged: %v", len(wrong), wrong[:min(20, len(wrong))])
	}
	got := scalar(t, conn, `SELECT uniqExact(id) FROM event_ids`)
	want := scalar(t, conn, `SELECT uniqExact(namespace, event_id) FROM events WHERE event_id != ''`)
	if got != want {
		t.Errorf("event_ids has %d ids, events has %d", got, want)
	}
}

const timeOfDay = "15:04:05.000"

// verifyVisitors holds that a visitor of a day has one hash, so that a salt outlives every kill, and nobody is missing.
func verifyVisitors(t testing.TB, conn driver.Conn, r *record) {
	t.Helper()
	const known = ` FROM events WHERE props['who'] != ''`
	hashes := scalar(t, conn, `SELECT uniqExact(visitor)`+known)
	people := scalar(t, conn, `SELECT uniqExact(toDate(ts), props['who'])`+known)
	pairs := scalar(t, conn, `SELECT uniqExact(visitor, toDate(ts), props['who'])`+known)
	if hashes != people || pairs != people {
		t.Errorf("%d visitors of a day have %d hashes in %d pairs", people, hashes, pairs)
	}
	if got, want := scalar(t, conn, `SELECT uniqExact(props['who'])`+known), uint64(len(r.who)); got != want {
		t.Errorf("%d senders are counted, %d were acknowledged", got, want)
	}
	if n := scalar(t, conn, `SELECT count()`+known+` AND visitor = 0`); n != 0 {
		t.Errorf("%d events have lost their visitor", n)
	}
}

// rollup is a table and the statement that gets the same from the raw events: key, sum, visitors.
type rollup struct{ name, got, want string }

func rollups() []rollup {
	const bucket = `toString(toStartOfFifteenMinutes(toDateTime(ts, 'UTC')))`
	list := []rollup{
		{
			"views",
			`SELECT concat(name, ' ', path_key, ' ', toString(bucket)) AS key, sum(n) AS sum, toUInt64(0) FROM views FINAL GROUP BY key HAVING sum != 0`,
			`SELECT concat(name, ' ', path_key, ' ', ` + bucket + `) AS key, sum(n) AS sum, toUInt64(0) FROM events GROUP BY key HAVING sum != 0`,
		},
		{
			"visitors",
			`SELECT concat(name, ' ', toString(bucket)) AS key, sum(n), uniqCombined64Merge(17)(v.visitors) FROM visitors AS v GROUP BY key`,
			`SELECT concat(name, ' ', ` + bucket + `) AS key, sum(n), uniqExactIf(visitor, visitor != 0) FROM events GROUP BY key`,
		},
	}
	for dimension, column := range map[string]string{
		"path": "path_key", "title": "title", "browser": "browser", "browser_version": "browser_version", "os": "os",
		"hostname": "hostname", "name": "name",
	} {
		list = append(list, rollup{
			"dimension " + dimension,
			`SELECT concat(kind, ' ', value, ' ', toString(bucket)) AS key, sum(n), uniqCombined64Merge(15)(d.visitors) FROM dimensions AS d
				WHERE dimension = '` + dimension + `' GROUP BY key`,
			`SELECT concat(if(name = 'pageview', 'pageview', 'event'), ' ', ` + column + `, ' ', ` + bucket + `) AS key, sum(n),
				uniqExactIf(visitor, visitor != 0) FROM events GROUP BY key`,
		})
	}
	return list
}

// verifyRollups compares what the views filled, and repairs mended, with the raw events.
func verifyRollups(t testing.TB, conn driver.Conn) {
	t.Helper()
	type sums struct {
		N        int64
		Visitors uint64
	}
	read := func(sql string) map[string]sums {
		found := map[string]sums{}
		each(t, conn, sql, func(rows driver.Rows) error {
			var key string
			var s sums
			if err := rows.Scan(&key, &s.N, &s.Visitors); err != nil {
				return err
			}
			found[key] = s
			return nil
		})
		return found
	}
	for _, r := range rollups() {
		want := read(r.want)
		if len(want) == 0 {
			t.Errorf("%s: nothing to compare", r.name)
		}
		if diff := cmp.Diff(want, read(r.got)); diff != "" {
			t.Errorf("%s (-events +rollup):\n%.4000s", r.name, diff)
		}
	}
	if t.Failed() {
		reportBatches(t, conn)
	}
}

// reportBatches prints what tells which batch is missing where: how each got there and its rows by bucket.
func reportBatches(t testing.TB, conn driver.Conn) {
	t.Helper()
	var lines []string
	each(t, conn, `SELECT toString(tuple(l.batch, l.outcome, l.at, e.bucket, e.rows, e.n)) FROM
		(SELECT batch, toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket, count() AS rows, sum(n) AS n FROM events GROUP BY batch, bucket) AS e
		LEFT JOIN (SELECT * FROM ledger FINAL WHERE state = 'stored') AS l ON l.batch = e.batch ORDER BY e.batch`,
		func(rows driver.Rows) error {
			var line string
			err := rows.Scan(&line)
			lines = append(lines, line)
			return err
		})
	t.Logf("batch, outcome, stored at, bucket, rows, n:\n%s", strings.Join(lines, "\n"))
}

// verifyLedger holds that the books balance and say what the tables hold.
func verifyLedger(t testing.TB, conn driver.Conn, r *record, l ledger) {
	t.Helper()
	stored := int64(scalar(t, conn, `SELECT count() FROM events`))
	switch {
	case !l.Balanced, l.Quarantined != 0, l.Undone != 0, l.Forgotten != 0:
		t.Errorf("books do not balance, or events were set aside: %+v", l)
	case l.Stored != stored:
		t.Errorf("books say %d events are stored, the table has %d: %+v", l.Stored, stored, l)
	case l.Accepted != l.Stored+l.Duplicate:
		t.Errorf("books: accepted is not stored and duplicates: %+v", l)
	case l.Accepted < r.items:
		t.Errorf("books say %d events were accepted, senders have acknowledgements of %d", l.Accepted, r.items)
	}
}

// verifyAPI asks the count of every page as a reader does.
func verifyAPI(t testing.TB, s *server, r *record) {
	t.Helper()
	views := map[string]int64{}
	for p, sum := range r.wanted() {
		if p.name == "pageview" {
			views[p.path] += sum.n
		}
	}
	var total int64
	for path, want := range views {
		total += want
		var count struct{ Views int64 }
		if err := s.get("/v1/count?"+url.Values{"site": {site}, "path": {path}, "period": {"all"}}.Encode(), &count); err != nil {
			t.Errorf("count: %v", err)
		} else if count.Views != want {
			t.Errorf("/v1/count says %d views of %s, want %d", count.Views, path, want)
		}
	}
	for p := range r.loose { // what the loose pages count, verifyEvents has bounded
		var count struct{ Views int64 }
		if err := s.get("/v1/count?"+url.Values{"site": {site}, "path": {p.path}, "period": {"all"}}.Encode(), &count); err != nil {
			t.Errorf("count: %v", err)
		}
		total += count.Views
	}
	var all struct{ Views int64 }
	if err := s.get("/v1/count?"+url.Values{"site": {site}, "period": {"all"}}.Encode(), &all); err != nil || all.Views != total {
		t.Errorf("/v1/count says %d views of the site (error %v), its pages have %d", all.Views, err, total)
	}
}

const queryTimeout = 60 * time.Second

func each(t testing.TB, conn driver.Conn, sql string, scan func(driver.Rows) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scalar(t testing.TB, conn driver.Conn, sql string) (n uint64) {
	t.Helper()
	each(t, conn, sql, func(rows driver.Rows) error { return rows.Scan(&n) })
	return n
}
