package periods

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func TestMain(m *testing.M) { embeddedtest.Main(m) }

// rig is a database with the events of some sites.
type rig struct {
	t     *testing.T
	conn  driver.Conn
	now   time.Time
	zones map[string]string
	keep  int // days of retention
	rng   *rand.Rand
}

// decade is longer than the rig's clock is behind that of the server, which says when a day was touched.
const decade = 10 * 365 * 24 * time.Hour

var batches atomic.Int64

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, conn: embeddedtest.Shared(t).Database(t), now: time.Date(2025, 5, 2, 0, 0, 0, 0, time.UTC), rng: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
	r.zones = map[string]string{"a.example": "Australia/Lord_Howe", "b.example": "America/St_Johns"}
	if _, err := schema.Migrate(t.Context(), r.conn, schema.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) sites(domain string) (Site, bool) {
	zone, ok := r.zones[domain]
	if !ok {
		return Site{}, false
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		r.t.Fatal(err)
	}
	return Site{Zone: loc, Retention: r.keep}, true
}

func (r *rig) builder(conn driver.Conn) *Builder {
	r.t.Helper()
	b, err := New(Config{Conn: conn, Sites: r.sites, Quiet: -decade, Now: func() time.Time { return r.now }, Metrics: prometheus.NewRegistry()})
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// look looks until there is nothing to do.
func (r *rig) look(b *Builder) (built int) {
	r.t.Helper()
	for {
		n, err := b.Look(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if built += n; n == 0 {
			return built
		}
	}
}

// insert adds events as delivery does: the ledger tells of their days before they are there and after.
func (r *rig) insert(conn driver.Conn, events ...schema.Event) {
	r.t.Helper()
	batch := fmt.Sprintf("batch-%d", batches.Add(1))
	var rows schema.Rows
	for i := range events {
		rows.Append(&events[i], batch, "")
	}
	r.touch(conn, batch, "intent", events)
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(schema.InsertSettings(batch)))
	if err := rows.Insert(ctx, conn, schema.ToInbox); err != nil {
		r.t.Fatal(err)
	}
	r.touch(conn, batch, "stored", events)
}

func (r *rig) touch(conn driver.Conn, batch, state string, events []schema.Event) {
	r.t.Helper()
	var touched []string
	for _, e := range events {
		day := fmt.Sprintf("('%s', '%s')", e.Site, time.UnixMilli(e.TS).UTC().Format(time.DateOnly))
		if !slices.Contains(touched, day) {
			touched = append(touched, day)
		}
	}
	err := conn.Exec(context.Background(), fmt.Sprintf(`INSERT INTO ledger (batch, state, touched) VALUES ('%s', '%s', [%s])`, batch, state, strings.Join(touched, ", ")))
	if err != nil {
		r.t.Fatal(err)
	}
}

var firstDay = time.Date(2025, 3, 20, 0, 0, 0, 0, time.UTC)

// random makes events of twenty days over a change of clocks and the end of a month, most of them soon after others.
func (r *rig) random(n int) []schema.Event {
	pick := func(words ...string) string { return words[r.rng.IntN(len(words))] }
	events := make([]schema.Event, n)
	for i := range events {
		ts := firstDay.UnixMilli() + r.rng.Int64N(20*24*3600*1000)
		if i > 0 && r.rng.IntN(2) == 0 {
			ts = events[r.rng.IntN(i)].TS + r.rng.Int64N(40*60*1000)
		}
		events[i] = schema.Event{
			Site: pick("a.example", "b.example"), Name: pick(schema.PageView, schema.PageView, "signup", schema.Engagement), PathKey: pick("/", "/a", "/b"),
			Source: pick("", "google.com"), Country: pick("DE", "US"), TS: ts, ReceivedAt: ts + int64(i), N: 1, Visitor: uint64(r.rng.IntN(30)), Scroll: schema.NoScroll,
		}
		events[i].Path = events[i].PathKey
		if r.rng.IntN(8) == 0 {
			events[i].N = -1
		}
	}
	return events
}

func (r *rig) lines(sql string) []string {
	r.t.Helper()
	rows, err := r.conn.Query(context.Background(), "SELECT toString(tuple(*)) AS line FROM ("+sql+") ORDER BY line")
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	defer func() { _ = rows.Close() }()
	lines := []string{}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			r.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// current selects rows of current builds, of days that have not changed since.
const current = `(site, toString(grain), period, build) IN (SELECT site, toString(grain), period, build FROM builds FINAL)`

// requireBuilt compares what was built with what it was built from.
func (r *rig) requireBuilt() {
	r.t.Helper()
	for _, c := range []struct{ name, want, got string }{
		{
			"views by day", "SELECT site, name, toDate(bucket) AS day, path_key, sum(n) AS total FROM views GROUP BY site, name, day, path_key HAVING total != 0",
			"SELECT site, name, period, path_key, n FROM period_views WHERE grain = 'day' AND " + current,
		},
		{
			"views by month", "SELECT site, name, toStartOfMonth(bucket) AS day, path_key, sum(n) AS total FROM views GROUP BY site, name, day, path_key HAVING total != 0",
			"SELECT site, name, period, path_key, n FROM period_views WHERE grain = 'month' AND " + current,
		},
		{
			"visitors by day", "SELECT site, name, toDate(bucket) AS day, sum(n), uniqCombined64Merge(17)(visitors) FROM visitors GROUP BY site, name, day",
			"SELECT site, name, period, n, finalizeAggregation(visitors) FROM period_visitors WHERE grain = 'day' AND " + current,
		},
		{
			"visitors by month", "SELECT site, name, toStartOfMonth(bucket) AS day, sum(n), uniqCombined64Merge(17)(visitors) FROM visitors GROUP BY site, name, day",
			"SELECT site, name, period, n, finalizeAggregation(visitors) FROM period_visitors WHERE grain = 'month' AND " + current,
		},
		{
			"dimensions by day", "SELECT site, dimension, kind, toDate(bucket) AS day, value, sum(n), uniqCombined64Merge(15)(visitors) FROM dimensions GROUP BY site, dimension, kind, day, value",
			"SELECT site, dimension, kind, period, value, n, finalizeAggregation(visitors) FROM period_dimensions WHERE grain = 'day' AND " + current,
		},
		{
			"dimensions by month", "SELECT site, dimension, kind, toStartOfMonth(bucket) AS day, value, sum(n), uniqCombined64Merge(15)(visitors) FROM dimensions GROUP BY site, dimension, kind, day, value",
			"SELECT site, dimension, kind, period, value, n, finalizeAggregation(visitors) FROM period_dimensions WHERE grain = 'month' AND " + current,
		},
	} {
		if diff := cmp.Diff(r.lines(c.want), r.lines(c.got)); diff != "" {
			r.t.Errorf("%s (-rollup +built)\n%.3000s", c.name, diff)
		}
	}
	for site, zone := range r.zones {
		visits := schema.VisitsQuery("(SELECT * FROM events WHERE site = '"+site+"' AND "+schema.InVisits+")", "toDate(ts, '"+zone+"')")
		const columns = "visitor, duration_ms, views, events, bounced, entry_path, exit_path, source, country"
		want := r.lines("SELECT visit_day AS day, fromUnixTimestamp64Milli(visit, 'UTC') AS start, " + columns + " FROM (" + visits + ")")
		got := r.lines("SELECT day, start, " + columns + " FROM visits WHERE site = '" + site + "' AND (day, build) IN (SELECT period, build FROM builds FINAL WHERE grain = 'visits' AND site = '" + site + "')")
		if diff := cmp.Diff(want, got); diff != "" {
			r.t.Errorf("visits of %s (-events +built)\n%.3000s", site, diff)
		}
		want = r.lines("SELECT visit_day AS day, toStartOfFifteenMinutes(toDateTime(intDiv(visit, 1000), 'UTC')) AS bucket, count(), sum(bounced), sum(duration_ms), sum(views), sum(events) FROM (" + visits + ") GROUP BY day, bucket")
		got = r.lines("SELECT day, bucket, visits, bounces, duration_ms, views, events FROM visit_buckets WHERE site = '" + site + "' AND (day, build) IN (SELECT period, build FROM builds FINAL WHERE grain = 'visits' AND site = '" + site + "')")
		if diff := cmp.Diff(want, got); diff != "" {
			r.t.Errorf("visits of %s by bucket (-events +built)\n%.3000s", site, diff)
		}
	}
	for _, stale := range r.lines(`SELECT site, grain, period, changes FROM builds FINAL WHERE grain = 'day' AND build != 0
		AND (site, period, changes) NOT IN (SELECT site, day, sum(changes) FROM touched GROUP BY site, day) AND changes != 0`) {
		r.t.Errorf("a build is not as recent as its changes: %.300s", stale)
	}
}

func TestBuiltPeriodsEqualWhatTheyAreMadeOf(t *testing.T) {
	r := newRig(t)
	b := r.builder(r.conn)
	for range 3 { // the second time around, what is built already is touched again
		for range 3 {
			r.insert(r.conn, r.random(300)...)
		}
		if built := r.look(b); built < 40 {
			t.Errorf("%d periods were built", built)
		}
		r.requireBuilt()
	}
	if built := r.look(r.builder(r.conn)); built != 0 {
		t.Errorf("%d periods were built although nothing had changed", built)
	}
	// What was replaced goes some time later, and takes nothing along of what was built with it.
	r.now = r.now.Add(leftoverAge)
	r.look(b)
	r.requireBuilt()
	if diff := cmp.Diff([]string{}, r.lines("SELECT * FROM period_views WHERE NOT "+current)); diff != "" {
		t.Errorf("rows of replaced builds (-want +got)\n%.1000s", diff)
	}
	// A late event has its own days and month built again, and nothing else: one day of UTC, one or two of the site.
	late := r.random(1)
	r.insert(r.conn, late...)
	if built := r.look(b); built < 3 || built > 4 {
		t.Errorf("%d periods were built again after a late event, want 3 or 4", built)
	}
	r.requireBuilt()
}

func TestOpenPeriodsAreNotBuilt(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2025, 4, 1, 0, 5, 0, 0, time.UTC) // within the grace after a month's end
	site := state{first: firstDay.Unix() / daySeconds, touched: map[int64]touch{firstDay.Unix() / daySeconds: {changes: 2}}, builds: map[period]build{}}
	count := func(now time.Time) map[grain]int {
		zone, _ := r.sites("a.example")
		tasks, _ := site.due(zone, now.Add(-10*time.Minute), now, time.Second)
		n := map[grain]int{}
		for _, task := range tasks {
			n[task.grain]++
		}
		return n
	}
	// At +11:00 the day is over eleven hours earlier.
	if diff := cmp.Diff(map[grain]int{days: 11, visits: 12}, count(r.now)); diff != "" {
		t.Errorf("within the grace (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[grain]int{days: 12, visits: 12, months: 1}, count(r.now.Add(5*time.Minute))); diff != "" {
		t.Errorf("after it (-want +got)\n%s", diff)
	}
	// What was touched just now is left alone for a while: the day, and the two days of the site that it lies in.
	site.touched[firstDay.Unix()/daySeconds] = touch{changes: 3, at: r.now}
	zone, _ := r.sites("a.example")
	if tasks, waiting := site.due(zone, r.now.Add(-10*time.Minute), r.now, time.Minute); waiting != 3 || len(tasks) != 20 {
		t.Errorf("%d wait and %d are due, want 3 and 20", waiting, len(tasks))
	}
}

var errStruck = errors.New("struck")

// striking is a connection that ends at a statement: before it, or after the server has carried it out.
type striking struct {
	driver.Conn
	left  atomic.Int64
	after bool
	do    func(sql string) // before each statement
}

func (c *striking) Exec(ctx context.Context, sql string, args ...any) error {
	if c.do != nil {
		c.do(sql)
		return c.Conn.Exec(ctx, sql, args...)
	}
	left := c.left.Add(-1)
	if left < 0 || left == 0 && !c.after {
		return errStruck
	}
	err := c.Conn.Exec(ctx, sql, args...)
	if left == 0 {
		return errStruck
	}
	return err
}

func (c *striking) PrepareBatch(ctx context.Context, sql string, opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	if c.do == nil && c.left.Add(-1) <= 0 {
		return nil, errStruck
	}
	return c.Conn.PrepareBatch(ctx, sql, opts...)
}

func TestBuildingMayEndAtAnyStatement(t *testing.T) {
	r := newRig(t)
	r.zones = map[string]string{"a.example": "Australia/Lord_Howe"}
	events := r.random(400)
	for i := range events {
		events[i].Site, events[i].TS = "a.example", firstDay.Add(11*24*time.Hour).UnixMilli()+r.rng.Int64N(26*3600*1000)
	}
	r.insert(r.conn, events...)
	for at := range 60 {
		conn := &striking{Conn: r.conn, after: at%2 == 1}
		conn.left.Store(int64(at/2 + 1))
		if _, err := r.builder(conn).Look(t.Context()); err == nil {
			if at < 12 {
				t.Errorf("only %d statements: too little was built", at/2)
			}
			break
		} else if !errors.Is(err, errStruck) {
			t.Fatal(err)
		}
		r.exec("TRUNCATE TABLE builds") // so that each statement is struck, and rows without a build are left over
	}
	r.look(r.builder(r.conn))
	r.requireBuilt()

	// What was left over goes, and nothing else.
	b := r.builder(r.conn)
	r.look(b)
	before := r.lines("SELECT count() FROM period_views")
	r.now = r.now.Add(leftoverAge)
	r.look(b)
	if diff := cmp.Diff([]string{}, r.lines("SELECT * FROM period_dimensions WHERE NOT "+current)); diff != "" {
		t.Errorf("rows of no build (-want +got)\n%.1000s", diff)
	}
	if after := r.lines("SELECT count() FROM period_views"); cmp.Equal(before, after) {
		t.Errorf("%s rows before and %s after: nothing was left over to be deleted", before, after)
	}
	r.requireBuilt()
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	if err := r.conn.Exec(context.Background(), sql); err != nil {
		r.t.Fatal(err)
	}
}

// A day that is touched while it is built has a build of which its changes say that it is old.
func TestTouchedWhileBuilt(t *testing.T) {
	r := newRig(t)
	r.insert(r.conn, r.random(200)...)
	var once sync.Once
	late := r.random(20)
	conn := &striking{Conn: r.conn, do: func(sql string) {
		if strings.Contains(sql, "INSERT INTO period_dimensions") {
			once.Do(func() { r.insert(r.conn, late...) })
		}
	}}
	if _, err := r.builder(conn).Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if built := r.look(r.builder(r.conn)); built == 0 {
		t.Error("nothing was built again")
	}
	r.requireBuilt()
}

func TestTwoBuildersAtOnce(t *testing.T) {
	r := newRig(t)
	var work sync.WaitGroup
	for range 2 {
		r.insert(r.conn, r.random(300)...)
		for range 2 {
			work.Go(func() {
				if _, err := r.builder(r.conn).Look(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		r.insert(r.conn, r.random(100)...)
		work.Wait()
	}
	r.look(r.builder(r.conn))
	r.requireBuilt()
}

// When a site's days begin at other moments, visits are cut anew and the former days are not read any more.
func TestSiteChangesItsZone(t *testing.T) {
	r := newRig(t)
	r.insert(r.conn, r.random(500)...)
	b := r.builder(r.conn)
	r.look(b)
	r.zones = map[string]string{"a.example": "America/St_Johns", "b.example": "UTC"}
	r.look(b)
	r.requireBuilt()
	overlapping := r.lines(`SELECT a.site, a.period, b.period FROM (SELECT * FROM builds FINAL WHERE grain = 'visits' AND build != 0) AS a
		INNER JOIN (SELECT * FROM builds FINAL WHERE grain = 'visits' AND build != 0) AS b ON a.site = b.site
		WHERE a.period < b.period AND a.to > b.from`)
	if len(overlapping) != 0 {
		t.Errorf("days overlap: %v", overlapping)
	}
}

// Visits of days whose events are not kept are not built from what is left of them.
func TestVisitsOutliveTheirEvents(t *testing.T) {
	r := newRig(t)
	r.insert(r.conn, r.random(500)...)
	r.look(r.builder(r.conn))
	want := r.lines("SELECT site, day, start, visitor FROM visits")
	r.keep = 30
	r.exec("TRUNCATE TABLE events")
	r.touch(r.conn, "late", "stored", r.random(30))
	if built := r.look(r.builder(r.conn)); built == 0 {
		t.Error("days and months were not built again")
	}
	if diff := cmp.Diff(want, r.lines("SELECT site, day, start, visitor FROM visits")); diff != "" || len(want) < 50 {
		t.Errorf("%d visits (-before +after)\n%.2000s", len(want), diff)
	}
}
