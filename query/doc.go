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
// The package starts no goroutines. Start reading at plan.go.
package query
