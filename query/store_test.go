package query

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

// Parameters reach the engine as values: nothing in them can end a string, start a comment or change a list.
func TestValuesAreNotText(t *testing.T) {
	s := newTables(t)
	nasty := []string{
		"/o'brien", "/plain", "/x--y", `/back\slash`, `/n\n`, "/'; DROP TABLE views; --", "/{site:String}", "/a','b", "/]", `/"`, "/`", "/ü€😀", "/;", "/%2F", "/*", "/NULL", `/\N`,
	}
	want := map[string]int64{}
	for i, path := range nasty {
		event := view("2025-05-05T10:20:00Z", path)
		event.Browser = path[1:] + "\t\n"
		event.N = int64(i + 1)
		want[path] = event.N
		s.insert(event)
	}
	day := []string{"from", "2025-05-05", "to", "2025-05-05"}
	cut := []string{"from", "2025-05-05T10:19:00Z", "to", "2025-05-05T10:21:00Z"}
	for _, span := range [][]string{day, cut} {
		if diff := cmp.Diff(want, s.top("UTC", append(span, "dimension", "path")...)); diff != "" {
			t.Errorf("top pages (-want +got)\n%s", diff)
		}
		got, err := s.store.Top(context.Background(), s.request(Top, "UTC", append(span, "dimension", "browser")...))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range got.Results {
			if *row.Visitors != 1 {
				t.Errorf("browser %q has %d visitors, want 1", row.Values[0], *row.Visitors)
			}
		}
		for _, path := range nasty {
			r := s.request(Count, "UTC", span...)
			r.Path = path
			got, err := s.store.Count(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			if *got.Views != want[path] || *got.Visitors != 1 {
				t.Errorf("%s: %d views by %d visitors, want %d by 1", path, *got.Views, *got.Visitors, want[path])
			}
		}
	}
	r := s.request(Count, "UTC", "name", "it's a 'name'\t\\")
	if _, err := s.store.Count(context.Background(), r); err != nil {
		t.Error(err)
	}
}

func TestCorrections(t *testing.T) {
	s := newTables(t)
	add := func(path string, n int64) {
		event := view("2025-05-05T10:20:00Z", path)
		event.N, event.Visitor = n, 0
		s.insert(event)
	}
	add("/a", 10)
	add("/a", -10)
	add("/b", 5)
	add("/c", 10)
	add("/c", -3)
	signup := view("2025-05-05T10:20:00Z", "/seen-only")
	signup.Name = "signup"
	s.insert(signup)
	for _, when := range []string{"before", "after"} {
		if got := s.views("UTC"); got != 12 {
			t.Errorf("%s the merge: %d views, want 12", when, got)
		}
		if got := s.views("UTC", "path", "/a"); got != 0 {
			t.Errorf("%s the merge: /a has %d views, want 0", when, got)
		}
		if diff := cmp.Diff(map[string]int64{"/b": 5, "/c": 7}, s.top("UTC", "dimension", "path")); diff != "" {
			t.Errorf("%s the merge: top pages (-want +got)\n%s", when, diff)
		}
		got, err := s.store.Count(context.Background(), s.request(Count, "UTC", "path", "/seen-only", "metrics", "events,views"))
		if err != nil {
			t.Fatal(err)
		}
		if *got.Events != 1 || *got.Views != 0 {
			t.Errorf("%s the merge: /seen-only has %d events and %d views, want 1 and 0", when, *got.Events, *got.Views)
		}
		s.merge()
	}
}

// While inserts go on and parts merge, a finished span has the same sum with FINAL and without.
func TestFinalChangesNothing(t *testing.T) {
	s := newTables(t)
	const spans, each = 40, 12
	first := at("2025-05-05T00:00:00Z")
	finished := make(chan int, spans)
	var work sync.WaitGroup
	work.Go(func() {
		defer close(finished)
		for i := range spans {
			start := first.Add(time.Duration(i) * 15 * time.Minute)
			for part := range 3 {
				var events []schema.Event
				for j := range each {
					event := view(start.Add(time.Duration(j)*time.Second).Format(time.RFC3339), fmt.Sprintf("/%d", j%5))
					event.N = int64(j%4 - 1) // sums to zero for some pages
					if event.N == 0 {
						event.N = int64(part + 1)
					}
					events = append(events, event)
				}
				s.insert(events...)
			}
			finished <- i
		}
	})
	stop := make(chan struct{})
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = s.conn.Exec(context.Background(), "OPTIMIZE TABLE views")
				_ = s.conn.Exec(context.Background(), "OPTIMIZE TABLE visitors")
			}
		}
	})
	want := int64(0)
	for j := range each {
		if n := int64(j%4 - 1); n != 0 {
			want += 3 * n
		} else {
			want += 1 + 2 + 3
		}
	}
	for i := range finished {
		from := first.Add(time.Duration(i) * 15 * time.Minute)
		span := []string{"from", from.Format(time.RFC3339), "to", from.Add(15 * time.Minute).Format(time.RFC3339)}
		for _, final := range []string{"0", "1"} {
			if got := s.views("UTC", append(span, "final", final)...); got != want {
				t.Errorf("span %d, final=%s: %d views, want %d", i, final, got, want)
			}
			if got := sum(s.top("UTC", append(span, "final", final, "dimension", "path")...)); got != want {
				t.Errorf("span %d, final=%s: pages add up to %d, want %d", i, final, got, want)
			}
		}
	}
	close(stop)
	work.Wait()
}

func TestEmptySite(t *testing.T) {
	s := newTables(t)
	ctx := context.Background()
	if got := s.views("Asia/Kathmandu"); got != 0 {
		t.Errorf("%d views, want 0", got)
	}
	series, err := s.store.Timeseries(ctx, s.request(Timeseries, "UTC", "from", "2025-05-05", "to", "2025-05-07"))
	if err != nil || len(series.Results) != 3 || *series.Results[1].Views != 0 {
		t.Errorf("got %+v, %v, want three empty days", series.Results, err)
	}
	if top, err := s.store.Top(ctx, s.request(Top, "UTC", "dimension", "path")); err != nil || top.Results == nil || len(top.Results) != 0 {
		t.Errorf("got %+v, %v, want an empty list", top.Results, err)
	}
	skipped := s.request(Timeseries, "Pacific/Apia", "from", "2011-12-30", "to", "2011-12-30")
	if series, err := s.store.Timeseries(ctx, skipped); err != nil || series.Results == nil || len(series.Results) != 0 {
		t.Errorf("a day that never was: got %+v, %v, want no bars", series.Results, err)
	}
}

// The longest series is answered: its edges are one parameter.
func TestHourlyYear(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2024-01-01T00:00:00Z", "2024-12-31T23:59:59Z")...)
	got := s.series("UTC", "from", "2024-01-01", "to", "2024-12-31", "interval", "hour")
	if len(got.Results) != 366*24 || sum(bars(got)) != 2 {
		t.Errorf("%d bars with %d views, want %d with 2", len(got.Results), sum(bars(got)), 366*24)
	}
}

// Everything there is includes the first event, today, and an event whose clock is a little ahead.
func TestAllThereIs(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-05-05T23:58:00Z")
	s.insert(viewsAt("1970-01-01T00:00:00Z", "2025-05-05T20:00:00Z", "2025-05-06T00:02:00Z")...)
	for _, zone := range []string{"UTC", "Asia/Kathmandu", "Pacific/Honolulu"} {
		if got := s.views(zone, "period", "all"); got != 3 {
			t.Errorf("%s: %d views, want 3", zone, got)
		}
		if got := sum(bars(s.series(zone, "interval", "month"))); got != 3 {
			t.Errorf("%s: bars add up to %d, want 3", zone, got)
		}
	}
	_, err := s.store.Timeseries(context.Background(), s.request(Timeseries, "UTC", "interval", "hour"))
	var param *ParamError
	if !errors.As(err, &param) || param.Field != "interval" {
		t.Errorf("hours of 55 years: got %v, want an error about interval", err)
	}
}

// The greatest number said to be exact lies below the size at which the engine's sketches begin to guess.
func TestSketchExactSize(t *testing.T) {
	conn := openTables(t)
	const seeds = 40
	for _, sketch := range []sketch{siteSketch, valueSketch} {
		kept := uint64(1) << (sketch.precision - 5)
		for visitors, exact := range map[uint64]bool{kept: true, kept + 1: false, kept + kept/50: false} {
			var least, most uint64
			err := conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT min(u), max(u) FROM (
				SELECT seed, uniqCombined64Merge(%[1]d)(state) AS u FROM (
					SELECT intDiv(number, %[2]d) AS seed, number %% 13 AS part, uniqCombined64State(%[1]d)(cityHash64(number)) AS state
					FROM numbers(%[2]d * %[3]d) GROUP BY seed, part) GROUP BY seed)`, sketch.precision, visitors, seeds)).Scan(&least, &most)
			if err != nil {
				t.Fatal(err)
			}
			if exact && (least != visitors || most != visitors) {
				t.Errorf("sketch %d: %d visitors read as %d to %d, want exact", sketch.precision, visitors, least, most)
			}
			if !exact && sketch.exact(int64(least)) {
				t.Errorf("sketch %d: %d visitors read as %d, which counts as exact", sketch.precision, visitors, least)
			}
		}
	}
}

func TestVisitorsSayHowExactTheyAre(t *testing.T) {
	s := newTables(t)
	events := make([]schema.Event, 20_000)
	for i := range events {
		events[i] = view("2025-05-05T10:20:00Z", "/")
		events[i].Visitor = uint64(i+1) * 0x9e3779b97f4a7c15
		if i >= 500 {
			events[i].TS += int64(i) * 100
			events[i].PathKey = "/busy"
		}
	}
	s.insert(events...)
	tests := []struct {
		path  string
		want  int64
		exact bool
	}{{"", 20_000, false}, {"/", 500, true}, {"/busy", 19_500, false}}
	for _, test := range tests {
		params := []string{"metrics", "views,visitors"}
		if test.path != "" {
			params = append(params, "path", test.path)
		}
		got, err := s.store.Count(context.Background(), s.request(Count, "UTC", params...))
		if err != nil {
			t.Fatal(err)
		}
		bound := got.Meta.ErrorBound[Visitors]
		off := float64(*got.Visitors-test.want) / float64(test.want)
		if got.Meta.Exact[Visitors] != test.exact || !got.Meta.Exact[Views] || off > bound || off < -bound {
			t.Errorf("%q: %d visitors within %g, exact %v; want %d, exact %v", test.path, *got.Visitors, bound, got.Meta.Exact, test.want, test.exact)
		}
	}
}

type inFlight struct {
	asOf    time.Time
	pending int64
}

func (f inFlight) AsOf() time.Time { return f.asOf }
func (f inFlight) Pending() int64  { return f.pending }

func TestAsOf(t *testing.T) {
	s := newTables(t)
	tests := []struct {
		name         string
		oldest       time.Time
		want         string
		from, to     string
		wantsPartial bool
	}{
		{"nothing in flight", time.Time{}, "2026-01-15T13:00:00+01:00", "2026-01-14", "2026-01-14", false},
		{"in flight", s.now.Add(-1500 * time.Millisecond), "2026-01-15T12:59:58.5+01:00", "2026-01-15", "2026-01-15", true},
		{"in flight since the day before", s.now.Add(-14 * time.Hour), "2026-01-14T23:00:00+01:00", "2026-01-14", "2026-01-14", true},
	}
	for _, test := range tests {
		store, err := NewStore(StoreConfig{Conn: s.conn, InFlight: inFlight{asOf: test.oldest}, Now: func() time.Time { return s.now }})
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.Count(context.Background(), s.request(Count, "Europe/Berlin", "from", test.from, "to", test.to))
		if err != nil {
			t.Fatal(err)
		}
		if got.Meta.AsOf != test.want || got.Meta.Partial != test.wantsPartial {
			t.Errorf("%s: as of %s, partial %v; want %s, %v", test.name, got.Meta.AsOf, got.Meta.Partial, test.want, test.wantsPartial)
		}
	}
}

func TestLimits(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2025-05-05T10:20:00Z")...)
	r := s.request(Count, "UTC")

	t.Run("memory", func(t *testing.T) {
		store, _ := NewStore(StoreConfig{Conn: s.conn, MaxMemory: 10 << 20})
		greedy := statement{sql: "SELECT length(groupArray(number)) FROM numbers(10000000)"}
		if err := store.each(context.Background(), greedy, nil); !errors.Is(err, ErrTooExpensive) {
			t.Errorf("got %v, want ErrTooExpensive", err)
		}
	})
	t.Run("time", func(t *testing.T) {
		store, _ := NewStore(StoreConfig{Conn: s.conn, Timeout: time.Microsecond})
		if _, err := store.Count(context.Background(), r); !errors.Is(err, ErrTooExpensive) {
			t.Errorf("got %v, want ErrTooExpensive", err)
		}
	})
	t.Run("turns", func(t *testing.T) {
		store, _ := NewStore(StoreConfig{Conn: s.conn, MaxQueries: 1, Wait: time.Millisecond})
		store.slots <- struct{}{}
		if _, err := store.Count(context.Background(), r); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		<-store.slots
		if _, err := store.Count(context.Background(), r); err != nil {
			t.Errorf("after its turn: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.store.Count(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
	t.Run("writing", func(t *testing.T) {
		err := s.store.each(context.Background(), statement{sql: "INSERT INTO views (site) SELECT 'x'"}, nil)
		if err == nil {
			t.Error("a query of the store wrote into a table")
		}
	})
}
