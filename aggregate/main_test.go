package aggregate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	embeddedtest.Main(m)
}

// rig is a journal, a database and the events that must be counted in the end.
type rig struct {
	t       testing.TB
	server  *embeddedtest.Server
	conn    Conn
	db      string
	dir     string
	journal *journal.Journal
	random  *rand.Rand
	want    map[string]int64 // path -> n, of the events that count
	serial  int
	redis   string // address of the Redis that delivering processes keep their claims in, "" for none
}

func newRig(t testing.TB) *rig { return newRigOn(t, embeddedtest.Shared(t)) }

func newRigOn(t testing.TB, server *embeddedtest.Server) *rig {
	t.Helper()
	r := &rig{t: t, server: server, dir: t.TempDir(), want: map[string]int64{}, random: rand.New(rand.NewPCG(1, 2))}
	r.conn = server.Database(t)
	r.db = embeddedtest.DatabaseName(t, r.conn)
	if _, err := schema.Migrate(t.Context(), r.conn, schema.Options{}); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	r.open(journal.Options{})
	t.Cleanup(func() {
		if r.journal != nil {
			_ = r.journal.Close()
		}
	})
	return r
}

func (r *rig) open(opts journal.Options) {
	r.t.Helper()
	opts.Dir, opts.Format = r.dir, schema.EventFormat
	var err error
	if r.journal, err = journal.Open(opts); err != nil {
		r.t.Fatalf("open journal: %v", err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.journal.Close(); err != nil {
		r.t.Fatalf("close journal: %v", err)
	}
	r.journal = nil
}

// event makes a page view that no other equals but for what is set afterwards.
func (r *rig) event() schema.Event {
	r.serial++
	now := time.Now().UnixMilli()
	return schema.Event{
		Site: "example.com", Name: schema.PageView, Hostname: "example.com",
		Path: fmt.Sprintf("/page/%d", r.random.IntN(20)), Title: "A page", Browser: "Firefox", Country: "DE",
		TS: now - r.random.Int64N(40*60*1000), ReceivedAt: now, Visitor: 1 + r.random.Uint64N(50), N: 1, Scroll: schema.NoScroll,
	}
}

// append journals the events, one frame each, without expecting anything of them.
func (r *rig) append(events ...schema.Event) {
	r.t.Helper()
	for i := range events {
		events[i].PathKey = events[i].Path
		if _, err := r.journal.Append(r.t.Context(), events[i].AppendTo(nil), 1); err != nil {
			r.t.Fatalf("append: %v", err)
		}
	}
}

// count journals events that must be counted.
func (r *rig) count(events ...schema.Event) {
	r.t.Helper()
	r.append(events...)
	for _, e := range events {
		r.want[e.Path] += e.N
	}
}

func (r *rig) seal() {
	r.t.Helper()
	if err := r.journal.Seal(r.t.Context()); err != nil {
		r.t.Fatalf("seal: %v", err)
	}
}

// deliver runs a Delivery until the journal is empty.
func (r *rig) deliver(change ...func(*Config)) *Delivery {
	r.t.Helper()
	d, stop := r.start(change...)
	defer stop()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for r.journal.Stats().SealedSegments > 0 {
		if err := d.pause(ctx, 5*time.Millisecond); err != nil {
			r.t.Fatalf("not delivered in time: %v", d.Ready())
		}
	}
	return d
}

// start runs a Delivery until stop is called.
func (r *rig) start(change ...func(*Config)) (d *Delivery, stop func()) {
	r.t.Helper()
	cfg := Config{Conn: r.conn, Journal: r.journal, Node: r.journal.Node(), MaxBackoff: 200 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		r.t.Fatalf("new delivery: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	}
}

// requireExact compares every table with the events that must be counted.
func (r *rig) requireExact() {
	r.t.Helper()
	for _, table := range []struct{ name, sql string }{
		{"events", `SELECT path_key, sum(n) FROM events GROUP BY 1`},
		{"views", `SELECT path_key, sum(n) FROM views GROUP BY 1`},
		{"views FINAL", `SELECT path_key, sum(n) FROM views FINAL GROUP BY 1`},
		{"dimensions", `SELECT value, sum(n) FROM dimensions WHERE dimension = 'path' GROUP BY 1`},
	} {
		got := r.sums(table.sql)
		if diff := cmp.Diff(r.want, got); diff != "" {
			r.t.Errorf("%s differs from the accepted events (-want +got):\n%s", table.name, diff)
		}
	}
	var inEvents, inVisitors, inDimensions, n, inBrowser, exact, sketch, bySite uint64
	var total int64
	r.scan(`SELECT uniqExactIf(visitor, visitor != 0) FROM events`, &exact)
	r.scan(`SELECT uniqCombined64Merge(17)(visitors) FROM visitors`, &sketch)
	r.scan(`SELECT uniqCombined64Merge(15)(visitors) FROM dimensions WHERE dimension = 'hostname'`, &bySite)
	if sketch != exact || bySite != exact {
		r.t.Errorf("visitors: %d in events, %d in visitors, %d in dimensions", exact, sketch, bySite)
	}
	for _, v := range r.want {
		total += v
	}
	r.scan(`SELECT toUInt64(sum(n)) FROM events`, &inEvents)
	r.scan(`SELECT toUInt64(sum(n)) FROM visitors`, &inVisitors)
	r.scan(`SELECT toUInt64(sum(n)) FROM dimensions WHERE dimension = 'country'`, &inDimensions)
	r.scan(`SELECT toUInt64(sum(n)) FROM dimensions WHERE dimension = 'browser'`, &inBrowser)
	for name, got := range map[string]uint64{"events": inEvents, "visitors": inVisitors, "countries": inDimensions, "browsers": inBrowser} {
		if got != uint64(total) {
			r.t.Errorf("%s: %d counted, want %d", name, got, total)
		}
	}
	r.scan(`SELECT uniqExact(id) FROM event_ids`, &n)
	var withID uint64
	r.scan(`SELECT uniqExact(site, namespace, event_id) FROM events WHERE event_id != ''`, &withID)
	if n != withID {
		r.t.Errorf("event_ids: %d ids, %d in events", n, withID)
	}
}

// requireBalanced checks that the ledger accounts for every accepted row and that it agrees with the events.
func (r *rig) requireBalanced(accepted int64) {
	r.t.Helper()
	var got, stored, duplicate, parked, quarantined, forgotten int64
	err := r.conn.QueryRow(r.t.Context(), `SELECT sum(accepted), sum(stored), sum(duplicate), sum(parked), sum(quarantined), sum(forgotten)
		FROM ledger FINAL WHERE state = 'stored'`).Scan(&got, &stored, &duplicate, &parked, &quarantined, &forgotten)
	if err != nil {
		r.t.Fatalf("read ledger: %v", err)
	}
	if sum := stored + duplicate + parked + quarantined + forgotten; got != accepted || sum != accepted {
		r.t.Errorf("ledger: accepted %d, want %d = stored %d + duplicate %d + parked %d + quarantined %d + forgotten %d",
			got, accepted, stored, duplicate, parked, quarantined, forgotten)
	}
	var rows uint64
	r.scan(`SELECT count() FROM events`, &rows)
	if int64(rows) != stored {
		r.t.Errorf("ledger has %d stored, the table %d", stored, rows)
	}
}

func (r *rig) sums(sql string) map[string]int64 {
	r.t.Helper()
	rows, err := r.conn.Query(r.t.Context(), sql)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	defer func() { _ = rows.Close() }()
	got := map[string]int64{}
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			r.t.Fatalf("%s: %v", sql, err)
		}
		if n != 0 {
			got[key] = n
		}
	}
	if err := rows.Err(); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func (r *rig) scan(sql string, dest ...any) {
	r.t.Helper()
	if err := r.conn.QueryRow(r.t.Context(), sql).Scan(dest...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	if err := r.conn.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) connect(addr string) Conn {
	r.t.Helper()
	opts := r.server.Options(r.db)
	opts.Addr = []string{addr}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		r.t.Fatalf("connect: %v", err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
