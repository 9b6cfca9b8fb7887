package query

import (
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// Visits are read in rows of c visits, bounced, duration, v views of theirs, and keys.

// innerVisits are such rows.
func (b *builder) innerVisits() string {
	switch b.p.visits {
	case bucketsTable:
		return b.visitBuckets()
	case joinedTable:
		return b.visitsWithEvents()
	}
	return b.visitRows(visits)
}

// visitBuckets reads closed days as sums by bucket, and cuts the rest from raw events.
func (b *builder) visitBuckets() string {
	var parts []string
	if d := b.p.derived; len(d.builds) > 0 {
		b.bind("first_bucket", d.whole.from/1000)
		b.bind("end_bucket", d.whole.to/1000)
		where := append([]string{b.siteIs()}, b.isBuild("visits", "day", d.builds)...)
		where = append(where, "bucket >= toDateTime({first_bucket:Int64}, 'UTC')", "bucket < toDateTime({end_bucket:Int64}, 'UTC')")
		parts = append(parts, b.rows(list(b.keysFrom("bucket", visitColumn), "visits AS c", "bounces AS bounced", "duration_ms AS duration", "views AS v"), "visit_buckets", where))
	}
	return strings.Join(append(parts, b.derivedRows(visits)...), "\n    UNION ALL\n")
}

// visitRows reads visits one by one, for the family that is made of them.
func (b *builder) visitRows(f family) string {
	var parts []string
	if d := b.p.derived; len(d.builds) > 0 {
		where := append([]string{b.siteIs()}, b.isBuild("visits", "day", d.builds)...)
		where = append(where, b.inSpan(d.whole, "whole", "t.start"))
		parts = append(parts, b.oneVisitEach("visits AS t", "toDateTime(t.start)", where, f))
	}
	return strings.Join(append(parts, b.derivedRows(f)...), "\n    UNION ALL\n")
}

// derivedRows cut the visits of the gaps from raw events; there is always one such part if there are no builds.
func (b *builder) derivedRows(f family) []string {
	d := b.p.derived
	if len(d.gaps) == 0 && len(d.builds) > 0 {
		return nil
	}
	where := []string{b.inSpans(d.gaps, "gap", "fromUnixTimestamp64Milli(t.visit, 'UTC')")}
	return []string{b.oneVisitEach("("+b.visitsOf(d)+") AS t", "intDiv(t.visit, 1000)", where, f)}
}

// visitsOf cuts raw events into visits.
func (b *builder) visitsOf(d derived) string {
	from, day := b.takingPart(d)
	return schema.VisitsQuery(from, day)
}

// takingPart is the subquery of the events that d's visits are made of, and the expression for the day of each.
func (b *builder) takingPart(d derived) (from, day string) {
	b.bind("days", d.days)
	return "(SELECT * FROM events WHERE " + b.siteIs() + " AND " + schema.InVisits + " AND " + b.inSpans(d.raw, "day", "ts") + ")",
		"roundDown(toUInt32(toDateTime(ts)), {days:Array(UInt32)})"
}

// oneVisitEach reads rows of visits that meet the filter, as the inner rows of a family. at is their start in Unix seconds.
func (b *builder) oneVisitEach(from, at string, where []string, f family) string {
	column := func(dimension string) string { return "t." + visitColumn(dimension) }
	if b.r.Filter != nil {
		where = append(where, b.condition(b.r.Filter, column))
	}
	where = b.wanted(where, column)
	keys := b.keysFrom(at, func(d string) string { return "toString(" + column(d) + ")" })
	switch f {
	case counts:
		from += "\n    ARRAY JOIN [(true, t.views), (false, t.events - t.views)] AS part"
		return b.rows(list(keys, "part.1 AS view", "part.2 AS n"), from, where)
	case visitors:
		return b.grouped(b.rows(list(keys, b.stateOf("t.visitor")), from, where))
	}
	return b.rows(list(keys, "1 AS c", "bounced", "duration_ms AS duration", "t.views AS v"), from, where)
}

// joinedEvents are the events of visits beside the visit's own columns, that meet the filter of the request, as t.
func (b *builder) joinedEvents() string {
	d := b.p.derived.unbuilt(b.r)
	from, day := b.takingPart(d)
	columns := []string{"e.*"}
	for _, column := range append(schema.VisitAttributes(), "entry_path", "exit_path") {
		columns = append(columns, "v."+column+" AS visit_"+column)
	}
	columns = append(columns, "v.bounced AS visit_bounced", "v.duration_ms AS visit_duration", "v.views AS visit_views")
	joined := "SELECT " + strings.Join(columns, ", ") + "\nFROM (" + schema.EventsOfVisits(from, day) + ") AS e\nINNER JOIN (" + schema.VisitsQuery(from, day) +
		") AS v ON e.visit_day = v.visit_day AND e.visitor = v.visitor AND e.visit = v.visit"
	where := []string{"1"}
	if b.r.Path != "" {
		where = append(where, b.pathIs("path_key"))
	}
	if b.r.Filter != nil {
		where = append(where, b.condition(b.r.Filter, b.joinedColumn))
	}
	where = b.wanted(where, b.joinedColumn)
	return "(SELECT * FROM (" + joined + ") WHERE " + strings.Join(where, " AND ") + ") AS t"
}

// joinedColumn holds a dimension's value in joinedEvents: of the event where it knows it, else of its visit.
func (b *builder) joinedColumn(dimension string) string {
	if ofVisit(dimension) {
		return "visit_" + visitColumn(dimension)
	}
	return b.eventColumn(dimension)
}

// visitsWithEvents are the visits that began in the range and in which an event meets the filter: once in each group that one of
// these events belongs to.
func (b *builder) visitsWithEvents() string {
	at := "intDiv(visit, 1000)"
	keys := b.keysFrom(at, func(d string) string { return "toString(" + b.joinedColumn(d) + ")" })
	where := []string{b.inSpan(b.p.whole, "whole", "fromUnixTimestamp64Milli(visit, 'UTC')"), b.nameIs(false)}
	distinct := "SELECT DISTINCT " + list(keys, "visit_day", "visitor", "visit", "visit_bounced", "visit_duration", "visit_views") +
		"\n    FROM " + b.joinedEvents() + "\n    WHERE " + strings.Join(where, " AND ")
	return "    SELECT " + list(b.keys(), "1 AS c", "visit_bounced AS bounced", "visit_duration AS duration", "visit_views AS v") + "\n    FROM (" + distinct + ")"
}

// hasDone holds for the events of visits in which an event meets the inner condition.
func (b *builder) hasDone(f *Filter) string {
	from, day := b.takingPart(b.p.derived.unbuilt(b.r))
	inner := b.condition(&f.Of[0], b.eventColumn)
	in := " IN "
	if f.Op == HasNotDone {
		in = " NOT IN "
	}
	return "(visit_day, visitor, visit)" + in + "(SELECT visit_day, visitor, visit FROM (" + schema.EventsOfVisits(from, day) + ") WHERE " + inner + ")"
}

// pingRows are engagement pings by visitor and key: e engaged milliseconds, and s the greatest scroll depth or -1.
func (b *builder) pingRows() string {
	where := append(b.rawWhere(appendSpan(nil, b.p.whole)), "name = 'engagement'", "visitor != 0")
	rows := b.rows(list(b.rawKeys(), "visitor", "sum(engaged_ms) AS e", "max(if(scroll > 100, -1, toInt16(scroll))) AS s"), "events AS t", where)
	return rows + "\n    GROUP BY " + list(b.keys(), "visitor")
}
