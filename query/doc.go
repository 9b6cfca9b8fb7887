// Package query reads counts back exactly: request -> plan -> SQL -> rows -> JSON.
//
// A question (Count, Totals, Timeseries, Top) arrives as named parameters, from a URL or from flags alike, and Parse makes it a
// Request: one site, one half-open range of instants, metrics, filters, and what rows are grouped by. The planner (plan.go, pure) chooses
// for each family of metrics the smallest table that knows all that is grouped and filtered by, and covers the range with whole months
// and days that have been built, whole 15-minute buckets of UTC, and raw events for the edges that cut a bucket. The SQL builders
// (sql.go and its sisters, pure) write one statement for each family; the Store runs them, adds rows up (group.go, sums.go), and says in Meta
// how exact the answer is and as of when. Server puts that behind HTTP.
//
// Of a list the family that orders it is asked first and cut to a page; the others are read for that page alone.
//
// A built period stands in for finer rows only while nothing has touched it since (builds.go): the ledger counts changes by day, and a
// build remembers how many it has seen.
//
// Visits are cut from raw events of whole days of the site (sqlvisits.go), or read where days have been built. A visit belongs to its
// start. An event is grouped by what it said itself; only entry_page, exit_page and visit:... ask its visit.
//
// All calendar arithmetic happens here, with Go's zone data: the engine receives instants and bucket edges and knows no zone but
// UTC. So an hour, a day, a week or a month of any zone has one definition, daylight saving, +5:45 and skipped midnights included.
//
// Views, events and visits are sums and exact always. Visitors are merged from sketches, which are exact up to a size and close above it;
// sketch.go states both. What was acknowledged but not yet delivered is in no answer: Meta.AsOf names the oldest such event.
//
// Badges (badge.go) are counts that anyone may see of sites that say so; they are read once for all who ask at a time.
//
// # Recent counts
//
// A recent count (recent.go) is a base from the tables (base.go) plus what Redis counted since, read in one round trip of a script. The
// base is kept in memory and renewed beside the answers, so that ClickHouse is in the way of no answer while questions keep coming.
//
// Base and increments are told apart by the time of events, not by batches: the base is cut at the edge of a bucket, some minutes before
// now, and holds the events that happened before; Redis is asked for the minutes since. An event has one time, so that it is on one side
// however often, late or out of order its batch arrives, whichever node delivers it, and whenever the base was read. A cut by batches
// would not do: a batch reaches Redis and each of the tables at moments of their own, and a reading of a table may hold any part of
// those that are on their way.
//
// Within Redis a batch is in a minute once: it leaves a marker, and a minute that the reconciler writes anew from the tables carries the
// markers of all the batches in it. So neither side is ever above what was acknowledged (but for events taken back since by negative
// counts, of which the base hears when it is renewed). Either may be behind: the base lacks events from before its cut that were
// delivered after it was read; Redis lacks what it lost, until the reconciler has looked. Hence a floor: with the base, the sum of the
// whole range is read too, and no answer is below it. That makes Meta.AsOf true of recent answers as it is of exact ones. It is the
// base's: every event acknowledged before it is in the answer, and most of those since.
//
// Redis does not answer for a site whose last hour it may lack a part of (see schema.HotCompleteKey), for a page in a minute that had
// too many, for visitors, whose sketches in Redis and in the tables are of different kinds, or for a range that does not reach now. Then
// the tables do, and Meta.Source and Meta.Reason say so. While ClickHouse is away, the last base serves as long as Redis holds every
// minute since its cut.
//
// The package keeps no goroutine running: a base that is read beside an answer takes one for as long (see Server.StopReading).
// Start reading at plan.go.
package query
