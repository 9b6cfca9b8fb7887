package query

import (
	"time"

	"github.com/pagetally/pagetally/schema"
)

// bucketMS is the grain of the rollups: 15 minutes of UTC, in milliseconds.
const bucketMS = 15 * 60 * 1000

// span is half-open, in Unix milliseconds.
type span struct{ from, to int64 }

func (s span) empty() bool { return s.from >= s.to }

// cover says which whole buckets and which spans of raw events make up a range, each instant once.
type cover struct {
	buckets span   // ends on bucket edges; empty when no whole bucket fits
	raw     []span // at most two, in order, none empty
}

func coverOf(r span) cover {
	lo, hi := ceilBucket(r.from), floorBucket(r.to)
	if lo >= hi {
		return rawCover(r)
	}
	c := cover{buckets: span{lo, hi}}
	for _, edge := range []span{{r.from, lo}, {hi, r.to}} {
		if !edge.empty() {
			c.raw = append(c.raw, edge)
		}
	}
	return c
}

func rawCover(r span) cover {
	if r.empty() {
		return cover{}
	}
	return cover{raw: []span{r}}
}

func floorBucket(ms int64) int64 {
	rest := ms % bucketMS
	if rest < 0 {
		rest += bucketMS
	}
	return ms - rest
}

func ceilBucket(ms int64) int64 { return floorBucket(ms + bucketMS - 1) }

// table is where a figure is read.
type table string

const (
	viewsTable      table = "views"      // by page: n
	visitorsTable   table = "visitors"   // by site: n, sketch
	dimensionsTable table = "dimensions" // by value: n, sketch
	eventsTable     table = "events"     // raw
)

// plan of a request: where its counts and its visitors are read. Either table is empty when none of its metrics was asked for.
type plan struct {
	counts   table
	visitors table
	cover    cover   // of the rollups; a raw table reads the whole range
	whole    span    // the range
	edges    []int64 // of a time series, Unix seconds: starts of the bars
	bars     []Bar
}

// planOf is pure: the same request has the same plan. The request's range is resolved.
func planOf(r *Request) plan {
	// Event times start with the epoch, which days east of Greenwich begin before.
	p := plan{whole: span{max(0, r.Range.From.UnixMilli()), r.Range.To.UnixMilli()}}
	p.cover = coverOf(p.whole)
	if r.Question == Timeseries {
		p.bars = barsUntil(r.Interval.bars(r.Range.From, r.Range.To, r.Range.Loc, r.WeekStart), r.Now)
		for _, bar := range p.bars {
			p.edges = append(p.edges, max(0, bar.Start.Unix()))
		}
	}
	counts, visitors := countsTable(r), visitorTable(r)
	if !onBucketEdges(p.bars) {
		counts, visitors = eventsTable, eventsTable
	}
	if r.asks(Views) || r.asks(Events) {
		p.counts = counts
	}
	if r.asks(Visitors) {
		p.visitors = visitors
	}
	return p
}

// barsUntil drops bars that start after now. What events carry a time a little ahead of now is counted in the last bar left, so
// that bars add up to the totals.
func barsUntil(bars []Bar, now time.Time) []Bar {
	for len(bars) > 0 && bars[len(bars)-1].Start.After(now) {
		bars = bars[:len(bars)-1]
	}
	return bars
}

// onBucketEdges reports whether rollups can be cut into bars. A zone that was once off by odd minutes needs raw events.
func onBucketEdges(bars []Bar) bool {
	for i, bar := range bars {
		if i > 0 && bar.Start.UnixMilli()%bucketMS != 0 {
			return false
		}
	}
	return true
}

// countsTable is the smallest table that knows the page, the name and the value a request asks about.
func countsTable(r *Request) table {
	switch {
	case r.Dimension == "" && r.Path == "":
		return visitorsTable
	case r.Dimension == "" || r.Dimension == "path":
		return viewsTable
	case r.Path != "":
		return eventsTable
	case r.Dimension == "name" || r.anyNameOrView():
		return dimensionsTable
	default:
		return eventsTable
	}
}

// visitorTable is likewise, for sketches.
func visitorTable(r *Request) table {
	switch {
	case r.Dimension == "" && r.Path == "":
		return visitorsTable
	case r.Dimension == "" || r.Dimension == "path":
		if r.anyNameOrView() {
			return dimensionsTable
		}
		return eventsTable
	default:
		return countsTable(r)
	}
}

// anyNameOrView: the dimensions know only whether an event is a page view.
func (r *Request) anyNameOrView() bool { return r.Name == "" || r.Name == schema.PageView }

func (r *Request) asks(m Metric) bool {
	for _, asked := range r.Metrics {
		if asked == m {
			return true
		}
	}
	return false
}

// rank is the metric that orders a top list: counts go first, because merging visitors of every value costs most.
func (r *Request) rank() Metric {
	first := Views
	if r.Dimension == "name" {
		first = Events
	}
	for _, m := range []Metric{first, Views, Events} {
		if r.asks(m) {
			return m
		}
	}
	return Visitors
}

// sketchOf is the sketch that visitors of table are kept in. Raw events take the one of the rollup they stand in for, so that an
// answer does not change its kind where a range does.
func sketchOf(r *Request) sketch {
	if r.Dimension == "" && r.Path == "" {
		return siteSketch
	}
	return valueSketch
}
