package query

import (
	"slices"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// bucketMS is the grain of the rollups: 15 minutes of UTC, in milliseconds.
const bucketMS = 15 * 60 * 1000

// span is half-open, in Unix milliseconds.
type span struct{ from, to int64 }

func (s span) empty() bool { return s.from >= s.to }

func (s span) overlaps(o span) bool { return s.from < o.to && o.from < s.to }

// cover says which periods, which whole buckets and which spans of raw events make up a range, each instant once.
type cover struct {
	months, days []build
	buckets      []span // end on bucket edges, none empty
	raw          []span // at most two, in order, none empty
}

// maxBucketSpans bounds the pieces between periods: with more, a statement would spend its time on telling them apart.
const maxBucketSpans = 200

// coverOf covers what lies between the first and the last edge, and lets no period lie across an edge.
func coverOf(edges []int64, p periods) cover {
	var c cover
	var rest []span
	for i := range len(edges) - 1 {
		p.cut(span{edges[i], edges[i+1]},
			func(b build) { c.months = append(c.months, b) },
			func(b build) { c.days = append(c.days, b) },
			func(s span) {
				if n := len(rest); n > 0 && rest[n-1].to == s.from {
					rest[n-1].to = s.to
				} else {
					rest = append(rest, s)
				}
			})
	}
	for _, s := range rest {
		c.addRest(s)
	}
	if len(c.buckets) > maxBucketSpans {
		c = cover{}
		c.addRest(span{edges[0], edges[len(edges)-1]})
	}
	return c
}

// addRest covers a span by whole buckets and what is left at its ends.
func (c *cover) addRest(s span) {
	lo, hi := ceilBucket(s.from), floorBucket(s.to)
	if lo >= hi {
		c.raw = appendSpan(c.raw, s)
		return
	}
	c.raw = appendSpan(c.raw, span{s.from, lo})
	c.buckets = append(c.buckets, span{lo, hi})
	c.raw = appendSpan(c.raw, span{hi, s.to})
}

func appendSpan(list []span, s span) []span {
	if s.empty() {
		return list
	}
	return append(list, s)
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
	viewsTable      table = "views"      // by name and page: n
	visitorsTable   table = "visitors"   // by name: n, sketch
	dimensionsTable table = "dimensions" // by value: n, sketch
	eventsTable     table = "events"     // raw
	visitsTable     table = "visits"     // visits, those of open days derived from raw events
	bucketsTable    table = "visit_buckets"
	joinedTable     table = "events of visits" // raw, each beside its visit
)

// periodTable holds the closed periods of a rollup.
func (t table) periodTable() string { return "period_" + string(t) }

// plan of a request: where its metrics are read. A table is empty when none of its metrics was asked for.
type plan struct {
	r        Request // with a resolved range, and a filter in terms that tables know
	counts   table   // views, events
	visitors table
	visits   table // visits and what is said of them
	pings    bool  // time on page, scroll depth: raw events
	sketch   sketch
	whole    span    // the range
	edges    []int64 // of a time series, Unix seconds: starts of the bars
	bars     []Bar
	cover    cover   // of the rollups; a raw table reads the whole range
	derived  derived // visits
}

// planOf is pure: the same request and periods have the same plan. The request's range is resolved.
func planOf(r *Request, known periods) plan {
	// Event times start with the epoch, which days east of Greenwich begin before.
	p := plan{r: r.plain(), whole: span{max(0, r.Range.From.UnixMilli()), r.Range.To.UnixMilli()}}
	if r.byTime() {
		p.bars = barsUntil(r.Interval.bars(r.Range.From, r.Range.To, r.Range.Loc, r.WeekStart), r.Now)
		for _, bar := range p.bars {
			p.edges = append(p.edges, max(0, bar.Start.Unix()))
		}
	}
	p.sketch = valueSketch
	if only(p.used(), dimName) {
		p.sketch = siteSketch
	}
	p.cover = coverOf(p.cuts(), known)
	if r.asks(Views) || r.asks(Events) {
		p.counts = p.tableOf(viewsTable)
	}
	if r.asks(Visitors) || r.asks(ConversionRate) {
		p.visitors = p.tableOf("")
	}
	if slices.ContainsFunc(ofVisitMetrics, r.asks) {
		p.visits = p.visitTable()
	}
	p.pings = slices.ContainsFunc(ofPings, r.asks)
	if p.reads(visitsTable, bucketsTable, joinedTable) {
		p.derived = deriveVisits(r, p.whole, known.visits)
	}
	return p
}

// plain is r with goals put in their own terms, and with what its filter says of one page or one name of events said by Path and Name,
// for which there are smaller tables.
func (r *Request) plain() Request {
	plain := *r
	plain.Filter = r.Filter.expanded(r.Goals)
	plain.Filter = plain.Filter.without(func(f *Filter) bool {
		switch value, one := f.oneValue(); {
		case !one:
			return false
		case f.Dimension == dimName && plain.Name == "" && value != schema.Engagement:
			plain.Name = value
			return true
		case f.Dimension == dimPath && plain.Path == "" && value != "":
			plain.Path = value
			return true
		}
		return false
	})
	return plain
}

func (p *plan) reads(tables ...table) bool {
	return slices.Contains(tables, p.counts) || slices.Contains(tables, p.visitors) || slices.Contains(tables, p.visits)
}

// cuts are the instants that no period may lie across: the ends of the range and the edges of its bars.
func (p *plan) cuts() []int64 {
	cuts := []int64{p.whole.from}
	for _, edge := range p.edges {
		if ms := edge * 1000; ms > p.whole.from && ms < p.whole.to {
			cuts = append(cuts, ms)
		}
	}
	return append(cuts, max(p.whole.from, p.whole.to))
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

// tableOf is the smallest table that knows all that a request groups and filters by. counting is a table without visitors that may
// serve, "" when visitors are wanted.
func (p *plan) tableOf(counting table) table {
	used := p.used()
	switch {
	case p.r.Filter.hasDone():
		return joinedTable
	case slices.ContainsFunc(used, ofVisit):
		// An event belongs to its own moment, which only days tell from its visit.
		if !slices.ContainsFunc(used, func(d string) bool { return !ofVisit(d) }) && p.onDays() {
			return visitsTable
		}
		return joinedTable
	case !onBucketEdges(p.bars):
		return eventsTable
	case only(used, dimName):
		return visitorsTable
	case counting != "" && only(used, dimName, dimPath):
		return counting
	}
	if p.dimension() != "" {
		return dimensionsTable
	}
	return eventsTable
}

// onDays says that no visit reaches over an end of the range or an edge of its bars, because they are midnights of the site.
func (p *plan) onDays() bool {
	zone := p.r.zone()
	return !slices.ContainsFunc(p.cuts(), func(ms int64) bool {
		at := time.UnixMilli(ms)
		return ms > 0 && !dayStart(dayOf(at, zone), zone).Equal(at)
	})
}

// checkKept refuses a plan that reads raw events which the site does not keep any more.
func (p *plan) checkKept() error {
	kept := p.r.KeptSince.UnixMilli()
	if p.r.KeptSince.IsZero() || p.whole.from >= kept {
		return nil
	}
	answerable := "from " + dayOf(p.r.KeptSince, p.r.Range.Loc).AddDate(0, 0, 1).Format(time.DateOnly) + " on"
	before := func(s span) bool { return s.from < kept && !s.empty() }
	switch {
	case p.reads(eventsTable, joinedTable) || p.pings:
		return badParam("from", "the site keeps single events for a time only, and this question can be answered %s", answerable)
	case p.reads(visitsTable, bucketsTable) && slices.ContainsFunc(p.derived.raw, before):
		return badParam("from", "the site keeps single events for a time only, and visits of some of these days were not built: they can be answered %s", answerable)
	case slices.ContainsFunc(p.cover.raw, before):
		return badParam("from", "the site keeps single events for a time only: before them, give whole quarters of an hour, or days; to the millisecond it can be answered %s", answerable)
	}
	return nil
}

// dimension is the one that a request uses, if the rollup of dimensions knows it. Beside it, that knows only whether an event is a
// page view.
func (p *plan) dimension() string {
	used := p.used()
	if p.r.Name == schema.PageView && !slices.Contains(p.r.Dimensions, dimName) && !slices.Contains(p.r.Filter.dimensions(), dimName) {
		used = slices.DeleteFunc(used, func(d string) bool { return d == dimName })
	}
	if len(used) == 1 && isDimension(used[0]) {
		return used[0]
	}
	return ""
}

// visitTable is where visits are read: with nothing that only events know, from visits; in buckets where nothing tells them apart.
func (p *plan) visitTable() table {
	used := p.used()
	switch {
	case p.r.Filter.hasDone() || slices.ContainsFunc(used, ofEvents):
		return joinedTable
	case p.r.Filter == nil && len(used) == 0 && onBucketEdges(p.bars) && p.whole.from%bucketMS == 0 && p.whole.to%bucketMS == 0:
		return bucketsTable
	}
	return visitsTable
}

// used are all dimensions that a request groups or filters by.
func (p *plan) used() []string {
	used := slices.Clone(p.r.Dimensions)
	if p.r.Path != "" {
		used = append(used, dimPath)
	}
	if p.r.Name != "" {
		used = append(used, dimName)
	}
	used = append(used, p.r.Filter.dimensions()...)
	slices.Sort(used)
	return slices.Compact(used)
}

// ofEvents says that visits do not know a dimension.
func ofEvents(dimension string) bool { return visitColumn(dimension) == "" }

func only(used []string, allowed ...string) bool {
	return !slices.ContainsFunc(used, func(d string) bool { return !slices.Contains(allowed, d) })
}

func (r *Request) asks(m Metric) bool { return slices.Contains(r.Metrics, m) }

// byTime says that rows are grouped by the bars of an interval.
func (r *Request) byTime() bool { return r.Interval != "" }
