package schema

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A visit is the events of one visitor on one of the site's days with less than VisitGap between one and the next. It belongs to the
// moment at which it began. Engagement pings take no part, nor does what has no visitor, nor what takes counts away.

// VisitGap is the pause after which a visitor's next event begins another visit. The SQL below names it, too.
const VisitGap = 30 * time.Minute

// InVisits is the condition on rows of `events` that take part in visits.
const InVisits = "name != 'engagement' AND visitor != 0 AND n > 0"

// visitAttributes are the columns of `visits` that hold what the first event of a visit said, in the table's order.
var visitAttributes = []string{
	"hostname", "referrer", "source", "channel", "utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term",
	"country", "region", "city", "browser", "browser_version", "os", "os_version", "device", "screen", "language",
}

// VisitAttributes names the columns of `visits` that hold what the first event of a visit said.
func VisitAttributes() []string { return slices.Clone(visitAttributes) }

// visitSQL fills in where the events are read and how days are told apart. The order of a visitor's events is the same in whatever
// order they came in.
func visitSQL(text, from, day string) string {
	return strings.NewReplacer(
		"{from}", from, "{day}", day, "{order}", "ts, received_at, path_key, name, n",
		"{attributes}", strings.Join(visitAttributes, ", "), "{named}", strings.Join(attributesOfFirst(), ", "),
	).Replace(text)
}

// EventsOfVisits is a SELECT of all columns of from and these: visit, the Unix milliseconds at which the event's visit began, and
// visit_day, which is day. from is a table, or a subquery in brackets, with rows of `events` of one site, and day an expression on
// their ts that tells the site's days apart. from must give only rows that take part in visits, and of each visitor all of a day.
func EventsOfVisits(from, day string) string {
	return visitSQL(`SELECT
    * EXCEPT (at_ms, begins),
    max(if(begins, at_ms, 0)) OVER (PARTITION BY visit_day, visitor ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS visit
FROM
(
    SELECT
        *,
        {day} AS visit_day,
        toUnixTimestamp64Milli(ts) AS at_ms,
        at_ms - lagInFrame(at_ms, 1, -1800000) OVER (PARTITION BY visit_day, visitor ORDER BY {order} ROWS UNBOUNDED PRECEDING) >= 1800000 AS begins
    FROM {from}
)`, from, day)
}

// VisitsQuery is a SELECT of the visits that from's events make up, one row each: visit_day, visit (Unix milliseconds), visitor,
// duration_ms, views, events, bounced, entry_path, exit_path and VisitAttributes. from and day are those of EventsOfVisits.
//
// A visit is bounced when it has no more than one event that counts as an action; a page view counts.
func VisitsQuery(from, day string) string {
	return visitSQL(`SELECT
    visit_day, visit, visitor, toUInt32(last - visit) AS duration_ms, views, events, toUInt8(actions <= 1) AS bounced, entry_path, exit_path,
    {named}
FROM
(
    SELECT
        visit_day, visit, visitor,
        max(toUnixTimestamp64Milli(ts)) AS last,
        sumIf(n, name = 'pageview') AS views,
        sum(n) AS events,
        sumIf(n, bitAnd(flags, 2) = 0) AS actions,
        argMinIf(path_key, ({order}), name = 'pageview') AS entry_path,
        argMaxIf(path_key, ({order}), name = 'pageview') AS exit_path,
        argMin(({attributes}), ({order})) AS first
    FROM
    (
`+EventsOfVisits(from, day)+`
    )
    GROUP BY visit_day, visit, visitor
)`, from, day)
}

// attributesOfFirst names the elements of the tuple of attributes.
func attributesOfFirst() []string {
	list := make([]string, len(visitAttributes))
	for i, name := range visitAttributes {
		list[i] = "tupleElement(first, " + strconv.Itoa(i+1) + ") AS " + name
	}
	return list
}
