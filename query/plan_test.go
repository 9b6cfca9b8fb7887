package query

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCover(t *testing.T) {
	const q = bucketMS
	tests := []struct {
		name    string
		r       span
		buckets span
		raw     []span
	}{
		{"whole buckets", span{q, 5 * q}, span{q, 5 * q}, nil},
		{"both ends cut", span{q - 1, 5*q + 1}, span{q, 5 * q}, []span{{q - 1, q}, {5 * q, 5*q + 1}}},
		{"start cut", span{q + 1, 5 * q}, span{2 * q, 5 * q}, []span{{q + 1, 2 * q}}},
		{"inside one bucket", span{q + 1, q + 9}, span{}, []span{{q + 1, q + 9}}},
		{"over an edge without a whole bucket", span{q - 1, q + 1}, span{}, []span{{q - 1, q + 1}}},
		{"nothing", span{q, q}, span{}, nil},
		{"nothing inside a bucket", span{q + 7, q + 7}, span{}, nil},
		{"the wrong way round", span{9 * q, 3 * q}, span{}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := coverOf(test.r)
			if got.buckets.empty() {
				got.buckets = span{}
			}
			if diff := cmp.Diff(cover{test.buckets, test.raw}, got, cmp.AllowUnexported(cover{}, span{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Each instant of a range is covered once, none outside it, and buckets are whole.
func TestCoverIsExact(t *testing.T) {
	for range 20_000 {
		from := rand.Int64N(20 * bucketMS)
		r := span{from, from + rand.Int64N(6*bucketMS)}
		if rand.IntN(3) == 0 {
			r.from = floorBucket(r.from)
		}
		c := coverOf(r)
		for _, ms := range []int64{r.from - 1, r.from, r.to - 1, r.to, floorBucket(r.to) - 1, floorBucket(r.to), ceilBucket(r.from), ceilBucket(r.from) - 1, rand.Int64N(30 * bucketMS)} {
			times := 0
			for _, s := range append([]span{c.buckets}, c.raw...) {
				if ms >= s.from && ms < s.to {
					times++
				}
			}
			want := 0
			if ms >= r.from && ms < r.to {
				want = 1
			}
			if times != want {
				t.Fatalf("range %v, cover %v: %d is covered %d times, want %d", r, c, ms, times, want)
			}
		}
		if c.buckets.from%bucketMS != 0 || c.buckets.to%bucketMS != 0 {
			t.Fatalf("range %v: buckets %v are not whole", r, c.buckets)
		}
	}
}

func TestTables(t *testing.T) {
	tests := []struct {
		name             string
		r                Request
		counts, visitors table
	}{
		{"site", Request{}, visitorsTable, visitorsTable},
		{"site, one event", Request{Name: "signup"}, visitorsTable, visitorsTable},
		{"page", Request{Path: "/"}, viewsTable, dimensionsTable},
		{"page, one event", Request{Path: "/", Name: "signup"}, viewsTable, eventsTable},
		{"top pages", Request{Dimension: "path"}, viewsTable, dimensionsTable},
		{"top pages of an event", Request{Dimension: "path", Name: "signup"}, viewsTable, eventsTable},
		{"top browsers", Request{Dimension: "browser"}, dimensionsTable, dimensionsTable},
		{"top browsers of page views", Request{Dimension: "browser", Name: "pageview"}, dimensionsTable, dimensionsTable},
		{"top browsers of an event", Request{Dimension: "browser", Name: "signup"}, eventsTable, eventsTable},
		{"top browsers of a page", Request{Dimension: "browser", Path: "/"}, eventsTable, eventsTable},
		{"top names", Request{Dimension: "name"}, dimensionsTable, dimensionsTable},
		{"one name", Request{Dimension: "name", Name: "signup"}, dimensionsTable, dimensionsTable},
	}
	for _, test := range tests {
		if counts, visitors := countsTable(&test.r), visitorTable(&test.r); counts != test.counts || visitors != test.visitors {
			t.Errorf("%s: got %s and %s, want %s and %s", test.name, counts, visitors, test.counts, test.visitors)
		}
	}
}
