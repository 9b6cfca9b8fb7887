package query

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	closed "github.com/pagetally/pagetally/aggregate/periods"
	"github.com/pagetally/pagetally/schema"
)

// tables holds the events of one site and a Store that reads them.
type tables struct {
	t     testing.TB
	site  string
	conn  driver.Conn
	store *Store
	now   time.Time
}

var batches atomic.Int64

func newTables(t testing.TB) *tables {
	t.Helper()
	s := &tables{t: t, conn: openTables(t), site: fmt.Sprintf("site%d.example", batches.Add(1)), now: at("2026-01-15T12:00:00Z")}
	store, err := NewStore(StoreConfig{Conn: s.conn, Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
	return s
}

// insert adds events as one batch, as delivery does.
func (s *tables) insert(events ...schema.Event) {
	s.t.Helper()
	if len(events) == 0 {
		return
	}
	batch := fmt.Sprintf("batch-%d", batches.Add(1))
	var rows schema.Rows
	for i := range events {
		events[i].Site = s.site
		rows.Append(&events[i], batch, "")
	}
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(schema.InsertSettings(batch)))
	if err := rows.Insert(ctx, s.conn, schema.ToInbox); err != nil {
		s.t.Fatalf("insert: %v", err)
	}
	s.touch(batch, events)
}

// touch tells the ledger of the days of events.
func (s *tables) touch(batch string, events []schema.Event) {
	s.t.Helper()
	var days []string
	for _, e := range events {
		if day := "('" + s.site + "', '" + time.UnixMilli(e.TS).UTC().Format(time.DateOnly) + "')"; !slices.Contains(days, day) {
			days = append(days, day)
		}
	}
	s.exec("INSERT INTO ledger (batch, state, touched) VALUES ('" + batch + "', 'stored', [" + strings.Join(days, ", ") + "])")
}

// build makes what a server has built of the periods that are over.
func (s *tables) build(zone string) {
	s.t.Helper()
	const decade = 10 * 365 * 24 * time.Hour // the clock of the tables is behind the server's
	builder, err := closed.New(closed.Config{
		Conn: s.conn, Quiet: -decade, Now: func() time.Time { return s.now },
		Sites: func(domain string) (closed.Site, bool) {
			return closed.Site{Zone: mustZone(s.t, zone)}, domain == s.site
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if built, err := builder.Look(context.Background()); err != nil || built == 0 {
		s.t.Fatalf("%d periods were built: %v", built, err)
	}
}

func (s *tables) exec(sql string) {
	s.t.Helper()
	if err := s.conn.Exec(context.Background(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// merge forces every table into one part a month.
func (s *tables) merge() {
	s.t.Helper()
	for _, table := range []string{"views", "visitors", "dimensions", "events"} {
		s.exec("OPTIMIZE TABLE " + table + " FINAL")
	}
}

func (s *tables) parse(q Question, zone string, params ...string) (Request, error) {
	values := url.Values{"site": {s.site}}
	for i := 0; i < len(params); i += 2 {
		values.Set(params[i], params[i+1])
	}
	return Parse(q, values, oneSite(zone), s.now)
}

func (s *tables) request(q Question, zone string, params ...string) Request {
	s.t.Helper()
	r, err := s.parse(q, zone, params...)
	if err != nil {
		s.t.Fatalf("parse %v: %v", params, err)
	}
	return r
}

func (s *tables) views(zone string, params ...string) int64 {
	s.t.Helper()
	got, err := s.store.Count(context.Background(), s.request(Count, zone, params...))
	if err != nil {
		s.t.Fatal(err)
	}
	return *got.Views
}

func (s *tables) series(zone string, params ...string) TimeseriesResult {
	s.t.Helper()
	got, err := s.store.Timeseries(context.Background(), s.request(Timeseries, zone, params...))
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func (s *tables) top(zone string, params ...string) map[string]int64 {
	s.t.Helper()
	got, err := s.store.Top(context.Background(), s.request(Top, zone, params...))
	if err != nil {
		s.t.Fatal(err)
	}
	values := map[string]int64{}
	for _, row := range got.Results {
		values[strings.Join(row.Values, " ")] = *row.Views
	}
	return values
}

// bars are the views of the bars that have some, by date.
func bars(r TimeseriesResult) map[string]int64 {
	m := map[string]int64{}
	for _, bar := range r.Results {
		if *bar.Views != 0 {
			m[bar.Date] = *bar.Views
		}
	}
	return m
}

// oneSite is a Sites that knows example.com and the sites of tables, in one zone.
type oneSite string

func (zone oneSite) ReadSite(domain string) (Site, bool) {
	loc, err := time.LoadLocation(string(zone))
	if err != nil {
		panic(err)
	}
	return Site{Domain: domain, Zone: loc, Goals: modelGoals}, domain == "example.com" || strings.HasPrefix(domain, "site")
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

// view is a page view of its own visitor.
func view(ts, path string) schema.Event {
	t := at(ts).UnixMilli()
	return schema.Event{
		Name: schema.PageView, Path: path, PathKey: path,
		TS: t, ReceivedAt: t, Visitor: uint64(t), N: 1, Scroll: schema.NoScroll,
	}
}

func viewsAt(times ...string) []schema.Event {
	events := make([]schema.Event, len(times))
	for i, ts := range times {
		events[i] = view(ts, "/")
	}
	return events
}
