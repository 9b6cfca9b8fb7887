package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// statement is SQL with its parameters, which the server substitutes by name and type ({name:Type}); values are never part of
// the text. Its text depends on the kind of a question only.
type statement struct {
	sql    string
	params []param
}

type param struct {
	name  string
	value any // string, int64 or a slice of them
}

// family is a group of metrics that one statement answers.
type family int

const (
	counts family = iota // views, events
	visitors
	visits // visits, bounces, duration_ms and views of visits
	pings  // engaged_ms, scroll and how many sent either
)

// familyOf a metric; conversion rates are made of visitors.
func familyOf(m Metric) family {
	switch {
	case m == Views || m == Events:
		return counts
	case slices.Contains(ofVisitMetrics, m):
		return visits
	case slices.Contains(ofPings, m):
		return pings
	}
	return visitors
}

// builder writes one statement.
type builder struct {
	r       *Request
	p       *plan
	params  []param
	filters int        // parameters of filters so far
	props   []string   // whose names are bound, in order
	within  [][]string // groups that are wanted; nil: all
}

func (b *builder) bind(name string, value any) {
	for _, p := range b.params {
		if p.name == name {
			return
		}
	}
	b.params = append(b.params, param{name, value})
}

// statement of a family. Ranked, its rows come in order and cut to a page; else within, if not nil, names the groups that are wanted,
// each by its values. Rows are the keys, then the columns that sums.columns names.
func (p *plan) statement(f family, ranked bool, within [][]string) statement {
	r := &p.r
	b := &builder{r: r, p: p, within: within}
	columns := aggregates(f, p.sketch)
	if ranked && r.CountRows {
		columns = append(columns, "toInt64(count() OVER ()) AS total_rows")
	}
	var s strings.Builder
	fmt.Fprintf(&s, "SELECT %s\nFROM\n(\n%s\n)", list(b.keys(), columns...), b.inner(f))
	if keys := b.keys(); len(keys) > 0 {
		s.WriteString("\nGROUP BY " + strings.Join(keys, ", "))
	}
	if len(r.Dimensions) > 0 && within == nil {
		b.listed(&s, f)
	}
	if ranked {
		b.order(&s)
	}
	return statement{s.String(), b.params}
}

// aggregates turn inner rows into a family's columns.
func aggregates(f family, sk sketch) []string {
	switch f {
	case counts:
		return []string{"sumIf(n, view) AS views", "sum(n) AS events"}
	case visitors:
		return []string{fmt.Sprintf("toInt64(uniqCombined64Merge(%d)(state)) AS visitors", sk.precision)}
	case visits:
		return []string{"toInt64(sum(c)) AS visits", "toInt64(sum(bounced)) AS bounces", "toInt64(sum(duration)) AS duration_ms", "toInt64(sum(v)) AS visit_views"}
	default:
		return []string{"toInt64(sum(e)) AS engaged_ms", "toInt64(countIf(e > 0)) AS engaged", "toInt64(sumIf(s, s >= 0)) AS scroll", "toInt64(countIf(s >= 0)) AS scrolled"}
	}
}

func (b *builder) inner(f family) string {
	switch f {
	case counts:
		return b.innerOf(counts, b.p.counts, b.countRows, b.rawCountRows)
	case visitors:
		return b.innerOf(visitors, b.p.visitors, b.sketchRows, b.rawSketchRows)
	case visits:
		return b.innerVisits()
	default:
		return b.pingRows()
	}
}

// keys are the columns that rows are grouped by: the bar of a time series, the values of the dimensions.
func (b *builder) keys() []string {
	var keys []string
	if b.r.byTime() {
		keys = append(keys, "start")
	}
	return append(keys, valueKeys(b.r)...)
}

func valueKeys(r *Request) []string {
	var keys []string
	for i := range r.Dimensions {
		if i == 0 {
			keys = append(keys, "value")
		} else {
			keys = append(keys, fmt.Sprintf("value_%d", i+1))
		}
	}
	return keys
}

// listed leaves out values whose number adds up to zero: the rows behind them may vanish when parts merge.
func (b *builder) listed(s *strings.Builder, f family) {
	switch f {
	case counts:
		fmt.Fprintf(s, "\nHAVING %s != 0", b.r.countOf())
	case visitors:
		s.WriteString("\nHAVING visitors != 0")
	case pings:
		s.WriteString("\nHAVING engaged != 0 OR scrolled != 0")
	}
}

// order ranks groups and cuts them to a page.
func (b *builder) order(s *strings.Builder) {
	var by, named []string
	for _, o := range b.r.order() {
		column := b.orderColumn(o.By)
		named = append(named, column)
		if o.Desc {
			column += " DESC"
		}
		by = append(by, column)
	}
	for _, key := range b.keys() {
		if !slices.Contains(named, key) {
			by = append(by, key) // so that pages do not overlap
		}
	}
	s.WriteString("\nORDER BY " + strings.Join(by, ", "))
	if b.r.Limit > 0 {
		s.WriteString("\nLIMIT {limit:UInt32} OFFSET {offset:UInt32}")
		b.bind("limit", int64(b.r.Limit))
		b.bind("offset", int64(b.r.Offset))
	}
}

// orderColumn is the expression that orders by a metric, a dimension or time.
func (b *builder) orderColumn(by string) string {
	if by == OrderByTime {
		return "start"
	}
	if i := slices.Index(b.r.Dimensions, by); i >= 0 {
		return valueKeys(b.r)[i]
	}
	switch Metric(by) {
	case ViewsPerVisit:
		return "visit_views / visits"
	case BounceRate:
		return "bounces / visits"
	case VisitDuration:
		return "duration_ms / visits"
	case TimeOnPage:
		return "engaged_ms / engaged"
	case ScrollDepth:
		return "scroll / scrolled"
	}
	return by
}

// extentSQL finds the first bucket of a site: columns found, the number of rows, and first, Unix seconds.
func extentSQL(site string) statement {
	return statement{
		"SELECT count() AS found, toInt64(toUnixTimestamp(min(bucket))) AS first\nFROM visitors\nWHERE site = {site:String}",
		[]param{{"site", site}},
	}
}

// innerOf joins the rows of closed periods, of whole buckets and of raw spans, as the plan covers the range; or reads raw events, or
// visits, where the plan says so.
func (b *builder) innerOf(f family, t table, rollup func(table, source) string, raw func(from string, where []string) string) string {
	switch t {
	case visitsTable:
		return b.visitRows(f)
	case joinedTable:
		return raw(b.joinedEvents(), []string{b.inSpan(b.p.whole, "whole", "ts")})
	case eventsTable:
		return raw("events AS t", b.rawWhere(appendSpan(nil, b.p.whole)))
	}
	var parts []string
	for _, s := range b.sources() {
		parts = append(parts, rollup(t, s))
	}
	if len(b.p.cover.raw) > 0 || len(parts) == 0 {
		parts = append(parts, raw("events AS t", b.rawWhere(b.p.cover.raw)))
	}
	return strings.Join(parts, "\n    UNION ALL\n")
}

// source is a grain that rollups are read in.
type source struct {
	grain  string // "month" or "day"; "" for buckets
	builds []build
}

func (b *builder) sources() []source {
	var list []source
	for _, s := range []source{{"month", b.p.cover.months}, {"day", b.p.cover.days}} {
		if len(s.builds) > 0 {
			list = append(list, s)
		}
	}
	if len(b.p.cover.buckets) > 0 {
		list = append(list, source{})
	}
	return list
}

func (b *builder) countRows(t table, s source) string {
	view := "name = 'pageview' AS view"
	if t == dimensionsTable {
		view = "kind = 'pageview' AS view"
	}
	return b.rows(list(b.rollupKeys(t, s), view, "n"), b.from(t, s, b.r.Final), b.rollupWhere(t, s, b.onlyViews()))
}

func (b *builder) from(t table, s source, final bool) string {
	switch {
	case s.grain != "":
		return t.periodTable() + " AS t"
	case final:
		return string(t) + " AS t FINAL"
	}
	return string(t) + " AS t"
}

func (b *builder) rawCountRows(from string, where []string) string {
	return b.rows(list(b.rawKeys(), "name = 'pageview' AS view", "n"), from, append(where, b.nameIs(b.onlyViews())))
}

func (b *builder) sketchRows(t table, s source) string {
	return b.rows(list(b.rollupKeys(t, s), "t.visitors AS state"), b.from(t, s, false), b.rollupWhere(t, s, false))
}

// rawSketchRows leaves out visitor 0, which is nobody known, as the rollups do.
func (b *builder) rawSketchRows(from string, where []string) string {
	return b.grouped(b.rows(list(b.rawKeys(), b.stateOf("t.visitor")), from, append(where, b.nameIs(false), "visitor != 0")))
}

func (b *builder) stateOf(visitor string) string {
	return fmt.Sprintf("uniqCombined64State(%d)(%s) AS state", b.p.sketch.precision, visitor)
}

// grouped adds the grouping by keys to a SELECT that aggregates.
func (b *builder) grouped(rows string) string {
	if keys := b.keys(); len(keys) > 0 {
		rows += "\n    GROUP BY " + strings.Join(keys, ", ")
	}
	return rows
}

func (b *builder) rows(columns, from string, where []string) string {
	return "    SELECT " + columns + "\n    FROM " + from + "\n    WHERE " + strings.Join(where, "\n        AND ")
}

// onlyViews: the counts need no other event.
func (b *builder) onlyViews() bool { return !b.r.asks(Events) }

// bar is the expression for the bar that an instant, in Unix seconds, lies in: no row is before the first edge.
func (b *builder) bar(seconds string) string {
	b.bind("edges", b.p.edges)
	return "roundDown(toUInt32(" + seconds + "), {edges:Array(UInt32)}) AS start"
}

// keysFrom are the keys where at is a row's time and column holds a dimension's value.
func (b *builder) keysFrom(at string, column func(string) string) []string {
	var keys []string
	if b.r.byTime() {
		keys = append(keys, b.bar(at))
	}
	for i, key := range valueKeys(b.r) {
		expression := column(b.r.Dimensions[i])
		if expression != key {
			expression += " AS " + key
		}
		keys = append(keys, expression)
	}
	return keys
}

func (b *builder) rollupKeys(t table, s source) []string {
	at := "bucket"
	if s.grain != "" {
		at = "toDateTime(period, 'UTC')"
	}
	return b.keysFrom(at, t.column)
}

// rawKeys are those of raw events, or of events beside their visits.
func (b *builder) rawKeys() []string {
	return b.keysFrom("toDateTime(ts)", func(d string) string { return "toString(" + b.joinedColumn(d) + ")" })
}

// column of a rollup that holds a dimension's value.
func (t table) column(dimension string) string {
	switch {
	case t != dimensionsTable && dimension == dimName:
		return "name"
	case t == viewsTable:
		return "path_key"
	}
	return "value"
}

func (b *builder) rollupWhere(t table, s source, onlyViews bool) []string {
	where := []string{b.siteIs()}
	if s.grain != "" {
		where = append(where, "grain = '"+s.grain+"'")
	}
	if t == dimensionsTable {
		where = append(where, b.dimensionWhere(onlyViews)...)
	} else {
		where = append(where, b.nameIs(onlyViews))
		if b.r.Path != "" {
			where = append(where, b.pathIs("path_key"))
		}
	}
	if s.grain != "" {
		where = append(where, b.isBuild(s.grain, "period", s.builds)...)
	} else {
		where = append(where, b.inBuckets())
	}
	if b.r.Filter != nil {
		where = append(where, b.condition(b.r.Filter, t.column))
	}
	return b.wanted(where, t.column)
}

// isBuild selects the rows of builds by their periods, of which stale rows may be left over.
func (b *builder) isBuild(name, period string, builds []build) []string {
	days, ids := make([]int64, len(builds)), make([]uint64, len(builds))
	for i, build := range builds {
		days[i], ids[i] = build.period, build.id
	}
	b.bind("first_"+name, slices.Min(days))
	b.bind("last_"+name, slices.Max(days))
	b.bind(name+"_periods", days)
	b.bind(name+"_builds", ids)
	return []string{
		fmt.Sprintf("%s >= toDate({first_%s:UInt16}) AND %s <= toDate({last_%s:UInt16})", period, name, period, name),
		fmt.Sprintf("(toUInt16(%s), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({%s_periods:Array(UInt16)}, {%s_builds:Array(UInt64)})) AS pair))", period, name, name),
	}
}

func (b *builder) inBuckets() string {
	parts := make([]string, len(b.p.cover.buckets))
	for i, s := range b.p.cover.buckets {
		first, end := "first_bucket", "end_bucket"
		if i > 0 {
			first, end = fmt.Sprintf("%s_%d", first, i+1), fmt.Sprintf("%s_%d", end, i+1)
		}
		b.bind(first, s.from/1000)
		b.bind(end, s.to/1000)
		parts[i] = fmt.Sprintf("bucket >= toDateTime({%s:Int64}, 'UTC') AND bucket < toDateTime({%s:Int64}, 'UTC')", first, end)
	}
	return anyOf(parts)
}

// dimensionWhere: what is grouped or filtered by besides is whether an event is a page view.
func (b *builder) dimensionWhere(onlyViews bool) []string {
	b.bind("dimension", b.p.dimension())
	where := []string{"dimension = {dimension:String}"}
	if onlyViews || b.r.Name == schema.PageView {
		where = append(where, "kind = 'pageview'")
	} else {
		where = append(where, "kind IN ('pageview', 'event')")
	}
	if b.r.Path != "" {
		where = append(where, b.pathIs("value"))
	}
	return where
}

// rawWhere selects events of the site in spans, by all that the request filters but their names.
func (b *builder) rawWhere(spans []span) []string {
	where := []string{b.siteIs()}
	if b.r.Path != "" {
		where = append(where, b.pathIs("path_key"))
	}
	if b.r.Filter != nil {
		where = append(where, b.condition(b.r.Filter, b.eventColumn))
	}
	return b.wanted(append(where, b.inSpans(spans, "raw", "ts")), b.eventColumn)
}

// inSpans selects instants; name makes the parameters' names.
func (b *builder) inSpans(spans []span, name, column string) string {
	if len(spans) == 0 {
		return "0"
	}
	parts := make([]string, len(spans))
	for i, s := range spans {
		parts[i] = b.inSpan(s, fmt.Sprintf("%s_%d", name, i+1), column)
	}
	return anyOf(parts)
}

func (b *builder) inSpan(s span, name, column string) string {
	b.bind(name+"_from", s.from)
	b.bind(name+"_to", s.to)
	return fmt.Sprintf("%s >= fromUnixTimestamp64Milli({%s_from:Int64}, 'UTC') AND %s < fromUnixTimestamp64Milli({%s_to:Int64}, 'UTC')", column, name, column, name)
}

// wanted restricts rows to the groups that are wanted.
func (b *builder) wanted(where []string, column func(string) string) []string {
	if b.within == nil {
		return where
	}
	columns, arrays := make([]string, len(b.r.Dimensions)), make([]string, len(b.r.Dimensions))
	for i, d := range b.r.Dimensions {
		values := make([]string, len(b.within))
		for j, group := range b.within {
			values[j] = group[i]
		}
		name := "values"
		if i > 0 {
			name = fmt.Sprintf("values_%d", i+1)
		}
		b.bind(name, values)
		columns[i], arrays[i] = column(d), "{"+name+":Array(String)}"
	}
	if len(columns) == 1 {
		return append(where, columns[0]+" IN "+arrays[0])
	}
	return append(where, fmt.Sprintf("has(arrayZip(%s), (%s))", strings.Join(arrays, ", "), strings.Join(columns, ", ")))
}

func (b *builder) siteIs() string {
	b.bind("site", b.r.Site)
	return "site = {site:String}"
}

func (b *builder) pathIs(column string) string {
	b.bind("path", b.r.Path)
	return column + " = {path:String}"
}

func (b *builder) nameIs(onlyViews bool) string {
	switch {
	case b.r.Name != "":
		b.bind("name", b.r.Name)
		return "name = {name:String}"
	case onlyViews:
		return "name = 'pageview'"
	default:
		return "name != 'engagement'"
	}
}

func anyOf(conditions []string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "((" + strings.Join(conditions, ") OR (") + "))"
}

func list(keys []string, more ...string) string {
	return strings.Join(append(keys[:len(keys):len(keys)], more...), ", ")
}
