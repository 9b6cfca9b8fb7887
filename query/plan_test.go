package query

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCover(t *testing.T) {
	const q = bucketMS
	day := func(n int64, id uint64) build {
		return build{span: span{n * dayMS, (n + 1) * dayMS}, period: n, id: id}
	}
	january := build{span: span{0, 31 * dayMS}, period: 0, id: 9}
	days := periods{days: map[int64]build{dayMS: day(1, 1), 2 * dayMS: day(2, 2), 4 * dayMS: day(4, 4)}}
	months := periods{months: map[int64]build{0: january}, days: map[int64]build{31 * dayMS: day(31, 5)}}
	tests := []struct {
		name  string
		edges []int64
		known periods
		want  cover
	}{
		{"whole buckets", []int64{q, 5 * q}, periods{}, cover{buckets: []span{{q, 5 * q}}}},
		{"both ends cut", []int64{q - 1, 5*q + 1}, periods{}, cover{buckets: []span{{q, 5 * q}}, raw: []span{{q - 1, q}, {5 * q, 5*q + 1}}}},
		{"start cut", []int64{q + 1, 5 * q}, periods{}, cover{buckets: []span{{2 * q, 5 * q}}, raw: []span{{q + 1, 2 * q}}}},
		{"inside one bucket", []int64{q + 1, q + 9}, periods{}, cover{raw: []span{{q + 1, q + 9}}}},
		{"over an edge without a whole bucket", []int64{q - 1, q + 1}, periods{}, cover{raw: []span{{q - 1, q + 1}}}},
		{"nothing", []int64{q, q}, periods{}, cover{}},
		{"nothing inside a bucket", []int64{q + 7, q + 7}, periods{}, cover{}},
		{"days and what is between", []int64{dayMS - q, 5*dayMS + 1}, days, cover{
			days: []build{day(1, 1), day(2, 2), day(4, 4)}, buckets: []span{{dayMS - q, dayMS}, {3 * dayMS, 4 * dayMS}}, raw: []span{{5 * dayMS, 5*dayMS + 1}},
		}},
		{"no day across an edge", []int64{dayMS, 2*dayMS + q, 3 * dayMS}, days, cover{days: []build{day(1, 1)}, buckets: []span{{2 * dayMS, 3 * dayMS}}}},
		{"a month", []int64{0, 32 * dayMS}, months, cover{months: []build{january}, days: []build{day(31, 5)}}},
		{"a month that an edge cuts", []int64{0, 7 * dayMS, 32 * dayMS}, months, cover{days: []build{day(31, 5)}, buckets: []span{{0, 31 * dayMS}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := coverOf(test.edges, test.known)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(cover{}, span{}, build{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Each instant of a range is covered once, none outside it, buckets are whole, and no period lies across an edge.
func TestCoverIsExact(t *testing.T) {
	for range 20_000 {
		known := periods{days: map[int64]build{}, months: map[int64]build{}}
		for n := range int64(12) {
			if rand.IntN(2) == 0 {
				known.days[n*dayMS] = build{span: span{n * dayMS, (n + 1) * dayMS}}
			}
			if n%4 == 0 && rand.IntN(2) == 0 {
				known.months[n*dayMS] = build{span: span{n * dayMS, (n + 4) * dayMS}}
			}
		}
		edges := []int64{rand.Int64N(10 * dayMS)}
		for range 1 + rand.IntN(4) {
			last := edges[len(edges)-1]
			next := last + rand.Int64N(3*dayMS)
			if rand.IntN(2) == 0 {
				next = max(last, floorBucket(next))
			}
			edges = append(edges, next)
		}
		checkCover(t, edges, coverOf(edges, known))
	}
}

func checkCover(t *testing.T, edges []int64, c cover) {
	t.Helper()
	pieces := append(append([]span{}, c.buckets...), c.raw...)
	for _, b := range append(append([]build{}, c.months...), c.days...) {
		pieces = append(pieces, b.span)
		for _, edge := range edges {
			if edge > b.from && edge < b.to {
				t.Fatalf("edges %v: the period %v lies across %d", edges, b.span, edge)
			}
		}
	}
	from, to := edges[0], edges[len(edges)-1]
	instants := []int64{from - 1, from, to - 1, to, floorBucket(to) - 1, floorBucket(to), ceilBucket(from), ceilBucket(from) - 1, from + rand.Int64N(to-from+1)}
	for _, s := range pieces {
		instants = append(instants, s.from-1, s.from, s.to-1, s.to)
	}
	for _, ms := range instants {
		times := 0
		for _, s := range pieces {
			if ms >= s.from && ms < s.to {
				times++
			}
		}
		want := 0
		if ms >= from && ms < to {
			want = 1
		}
		if times != want {
			t.Fatalf("edges %v, cover %v: %d is covered %d times, want %d", edges, c, ms, times, want)
		}
	}
	for _, s := range c.buckets {
		if s.from%bucketMS != 0 || s.to%bucketMS != 0 {
			t.Fatalf("edges %v: buckets %v are not whole", edges, s)
		}
	}
}

func TestTables(t *testing.T) {
	asked := []Metric{Views, Visitors, Visits}
	is := func(dimension, value string) *Filter {
		return &Filter{Op: Is, Dimension: dimension, Values: []string{value}}
	}
	day := Range{From: at("2025-03-01T00:00:00Z"), To: at("2025-03-02T00:00:00Z"), Loc: time.UTC}
	cut := Range{From: at("2025-03-01T00:07:00Z"), To: at("2025-03-02T00:00:00Z"), Loc: time.UTC}
	tests := []struct {
		name                     string
		r                        Request
		counts, visitors, visits table
	}{
		{"site", Request{}, visitorsTable, visitorsTable, bucketsTable},
		{"site, cut", Request{Range: cut}, visitorsTable, visitorsTable, visitsTable},
		{"site, one event", Request{Name: "signup"}, visitorsTable, visitorsTable, joinedTable},
		{"page", Request{Path: "/"}, viewsTable, dimensionsTable, joinedTable},
		{"page, as a filter", Request{Filter: is("path", "/")}, viewsTable, dimensionsTable, joinedTable},
		{"page views of a page, as filters", Request{Filter: all([]Filter{*is("path", "/"), *is("name", "pageview")})}, viewsTable, dimensionsTable, joinedTable},
		{"page, one event", Request{Path: "/", Name: "signup"}, viewsTable, eventsTable, joinedTable},
		{"top pages", Request{Dimensions: []string{"path"}}, viewsTable, dimensionsTable, joinedTable},
		{"top pages of an event", Request{Dimensions: []string{"path"}, Name: "signup"}, viewsTable, eventsTable, joinedTable},
		{"top browsers", Request{Dimensions: []string{"browser"}}, dimensionsTable, dimensionsTable, visitsTable},
		{"top browsers of page views", Request{Dimensions: []string{"browser"}, Name: "pageview"}, dimensionsTable, dimensionsTable, joinedTable},
		{"top browsers of an event", Request{Dimensions: []string{"browser"}, Name: "signup"}, eventsTable, eventsTable, joinedTable},
		{"top browsers of a page", Request{Dimensions: []string{"browser"}, Path: "/"}, eventsTable, eventsTable, joinedTable},
		{"top names", Request{Dimensions: []string{"name"}}, visitorsTable, visitorsTable, joinedTable},
		{"one name", Request{Dimensions: []string{"name"}, Name: "signup"}, visitorsTable, visitorsTable, joinedTable},
		{"entry pages", Request{Dimensions: []string{"entry_page"}}, visitsTable, visitsTable, visitsTable},
		{"entry pages, cut", Request{Dimensions: []string{"entry_page"}, Range: cut}, joinedTable, joinedTable, visitsTable},
		{"entry pages of a browser", Request{Dimensions: []string{"entry_page"}, Filter: is("browser", "Firefox")}, joinedTable, joinedTable, visitsTable},
		{"properties", Request{Dimensions: []string{"props.plan"}}, eventsTable, eventsTable, joinedTable},
		{"browsers and countries", Request{Dimensions: []string{"browser", "country"}}, eventsTable, eventsTable, visitsTable},
		{"by minute", Request{Interval: Minute}, eventsTable, eventsTable, visitsTable},
		{"what was done", Request{Filter: &Filter{Op: HasDone, Of: []Filter{*is("path", "/")}}}, joinedTable, joinedTable, joinedTable},
	}
	for _, test := range tests {
		test.r.Metrics, test.r.Now = asked, at("2025-06-01T00:00:00Z")
		if test.r.Range.From.IsZero() {
			test.r.Range = day
		}
		if p := planOf(&test.r, periods{}); p.counts != test.counts || p.visitors != test.visitors || p.visits != test.visits {
			t.Errorf("%s: got %s, %s and %s, want %s, %s and %s", test.name, p.counts, p.visitors, p.visits, test.counts, test.visitors, test.visits)
		}
	}
}
