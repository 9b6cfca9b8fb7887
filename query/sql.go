package query

import (
	"fmt"
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

// builder writes one statement.
type builder struct {
	r      *Request
	p      *plan
	params []param
}

func (b *builder) bind(name string, value any) {
	for _, p := range b.params {
		if p.name == name {
			return
		}
	}
	b.params = append(b.params, param{name, value})
}

// keys are the columns that rows are grouped by: the bar of a time series, the value of a top list.
func (b *builder) keys() []string {
	switch b.r.Question {
	case Timeseries:
		return []string{"start"}
	case Top:
		return []string{"value"}
	default:
		return nil
	}
}

// countsSQL sums n: columns keys, views, events. A top list comes ordered and cut to its page; a value whose ranking number adds up
// to zero is not listed, because the rows behind it vanish when parts merge.
func countsSQL(r *Request, p *plan) statement {
	b := &builder{r: r, p: p}
	var s strings.Builder
	fmt.Fprintf(&s, "SELECT %s\nFROM\n(\n%s\n)", list(b.keys(), "sumIf(n, view) AS views", "sum(n) AS events"), b.union(p.counts, b.countRows, b.rawCountRows))
	b.group(&s, r.rank())
	return statement{s.String(), b.params}
}

// visitorsSQL merges sketches: columns keys, visitors. For a top list ranked by a count it covers only the values given.
func visitorsSQL(r *Request, p *plan, values []string) statement {
	b := &builder{r: r, p: p}
	if r.Question == Top && r.rank() != Visitors {
		b.bind("values", values)
	}
	var s strings.Builder
	merge := fmt.Sprintf("uniqCombined64Merge(%d)(state) AS visitors", sketchOf(r).precision)
	fmt.Fprintf(&s, "SELECT %s\nFROM\n(\n%s\n)", list(b.keys(), merge), b.union(p.visitors, b.sketchRows, b.rawSketchRows))
	if r.Question == Top && r.rank() != Visitors {
		s.WriteString("\nGROUP BY value")
	} else {
		b.group(&s, Visitors)
	}
	return statement{s.String(), b.params}
}

// extentSQL finds the first bucket of a site: columns found, the number of rows, and first, Unix seconds.
func extentSQL(site string) statement {
	return statement{
		"SELECT count() AS found, toInt64(toUnixTimestamp(min(bucket))) AS first\nFROM visitors\nWHERE site = {site:String}",
		[]param{{"site", site}},
	}
}

func (b *builder) group(s *strings.Builder, rank Metric) {
	switch b.r.Question {
	case Timeseries:
		s.WriteString("\nGROUP BY start\nORDER BY start")
	case Top:
		fmt.Fprintf(s, "\nGROUP BY value\nHAVING %[1]s != 0\nORDER BY %[1]s DESC, value\nLIMIT {limit:UInt32} OFFSET {offset:UInt32}", rank)
		b.bind("limit", int64(b.r.Limit))
		b.bind("offset", int64(b.r.Limit)*int64(b.r.Page-1))
	}
}

// union joins the rows of whole buckets with those of raw spans, as the plan covers the range.
func (b *builder) union(t table, rollup func(table) string, raw func([]span) string) string {
	c := b.p.cover
	if t == eventsTable {
		c = rawCover(b.p.whole)
	}
	var parts []string
	if !c.buckets.empty() {
		parts = append(parts, rollup(t))
	}
	if len(c.raw) > 0 || len(parts) == 0 {
		parts = append(parts, raw(c.raw))
	}
	return strings.Join(parts, "\n    UNION ALL\n")
}

func (b *builder) countRows(t table) string {
	final := ""
	if b.r.Final {
		final = " FINAL"
	}
	view := "name = 'pageview' AS view"
	if t == dimensionsTable {
		view = "kind = 'pageview' AS view"
	}
	return b.rows(list(b.rollupKeys(t), view, "n"), string(t)+" AS t"+final, b.rollupWhere(t, b.onlyViews()), "")
}

func (b *builder) rawCountRows(spans []span) string {
	return b.rows(list(b.rawKeys(), "name = 'pageview' AS view", "n"), "events AS t", b.rawWhere(spans, b.onlyViews()), "")
}

func (b *builder) sketchRows(t table) string {
	return b.rows(list(b.rollupKeys(t), "t.visitors AS state"), string(t)+" AS t", b.rollupWhere(t, false), "")
}

// rawSketchRows leaves out visitor 0, which is nobody known, as the rollups do.
func (b *builder) rawSketchRows(spans []span) string {
	state := fmt.Sprintf("uniqCombined64State(%d)(t.visitor) AS state", sketchOf(b.r).precision)
	where := append(b.rawWhere(spans, false), "visitor != 0")
	return b.rows(list(b.rawKeys(), state), "events AS t", where, strings.Join(b.keys(), ", "))
}

func (b *builder) rows(columns, from string, where []string, groupBy string) string {
	s := "    SELECT " + columns + "\n    FROM " + from + "\n    WHERE " + strings.Join(where, "\n        AND ")
	if groupBy != "" {
		s += "\n    GROUP BY " + groupBy
	}
	return s
}

// onlyViews: the counts need no other event.
func (b *builder) onlyViews() bool { return !b.r.asks(Events) }

// rollupKeys: where no row is before the first edge, roundDown finds the bar that a bucket lies in.
func (b *builder) rollupKeys(t table) []string {
	switch b.r.Question {
	case Timeseries:
		b.bind("edges", b.p.edges)
		return []string{"roundDown(toUInt32(bucket), {edges:Array(UInt32)}) AS start"}
	case Top:
		if t == viewsTable {
			return []string{"path_key AS value"}
		}
		return []string{"value"}
	}
	return nil
}

func (b *builder) rawKeys() []string {
	switch b.r.Question {
	case Timeseries:
		b.bind("edges", b.p.edges)
		return []string{"roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start"}
	case Top:
		return []string{"toString(" + schema.DimensionColumn(b.r.Dimension) + ") AS value"}
	}
	return nil
}

func (b *builder) rollupWhere(t table, onlyViews bool) []string {
	where := []string{b.siteIs()}
	if t == dimensionsTable {
		where = append(where, b.dimensionWhere(onlyViews)...)
	} else {
		where = append(where, b.nameIs(onlyViews))
		if b.r.Path != "" {
			where = append(where, b.pathIs("path_key"))
		}
	}
	b.bind("first_bucket", b.p.cover.buckets.from/1000)
	b.bind("end_bucket", b.p.cover.buckets.to/1000)
	where = append(where, "bucket >= toDateTime({first_bucket:Int64}, 'UTC')", "bucket < toDateTime({end_bucket:Int64}, 'UTC')")
	if value := b.valueIn(b.rollupValue(t)); value != "" {
		where = append(where, value)
	}
	return where
}

func (b *builder) rollupValue(t table) string {
	if t == viewsTable {
		return "path_key"
	}
	return "value"
}

// dimensionWhere: a page's visitors are those of the value of dimension path; a name is a value of dimension name.
func (b *builder) dimensionWhere(onlyViews bool) []string {
	dimension := b.r.Dimension
	if dimension == "" {
		dimension = "path"
	}
	b.bind("dimension", dimension)
	where := []string{"dimension = {dimension:String}"}
	if onlyViews || b.r.Name == schema.PageView {
		where = append(where, "kind = 'pageview'")
	} else {
		where = append(where, "kind IN ('pageview', 'event')")
	}
	if b.r.Path != "" {
		where = append(where, b.pathIs("value"))
	}
	if b.r.Name != "" && dimension == "name" {
		b.bind("name", b.r.Name)
		where = append(where, "value = {name:String}")
	}
	return where
}

func (b *builder) rawWhere(spans []span, onlyViews bool) []string {
	where := []string{b.siteIs(), b.nameIs(onlyViews)}
	if b.r.Path != "" {
		where = append(where, b.pathIs("path_key"))
	}
	if b.r.Dimension != "" {
		if value := b.valueIn(schema.DimensionColumn(b.r.Dimension)); value != "" {
			where = append(where, value)
		}
	}
	return append(where, b.within(spans))
}

func (b *builder) within(spans []span) string {
	if len(spans) == 0 {
		return "0"
	}
	parts := make([]string, len(spans))
	for i, s := range spans {
		from, to := fmt.Sprintf("from_%d", i+1), fmt.Sprintf("to_%d", i+1)
		b.bind(from, s.from)
		b.bind(to, s.to)
		parts[i] = fmt.Sprintf("ts >= fromUnixTimestamp64Milli({%s:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({%s:Int64}, 'UTC')", from, to)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "((" + strings.Join(parts, ") OR (") + "))"
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

// valueIn restricts rows to the values that visitors are asked for.
func (b *builder) valueIn(column string) string {
	for _, p := range b.params {
		if p.name == "values" {
			return column + " IN {values:Array(String)}"
		}
	}
	return ""
}

func list(keys []string, more ...string) string {
	return strings.Join(append(keys[:len(keys):len(keys)], more...), ", ")
}
