// Package query reads counts back exactly: request -> plan -> SQL -> rows -> JSON.
//
// A question (Count, Totals, Timeseries, Top) arrives as named parameters, from a URL or from flags alike, and Parse makes it a
// Request: one site, one half-open range of instants, metrics, filters. The planner (pure) covers the range with whole 15-minute
// buckets of UTC, read from the rollups, and with the edges that cut a bucket, read from raw events. The SQL builders (pure)
// write one statement for the counts and one for the visitors; the Store runs them and says in Meta how exact the answer is and
// as of when. Server puts that behind HTTP.
//
// All calendar arithmetic happens here, with Go's zone data: the engine receives instants and bucket edges and knows no zone but
// UTC. So an hour, a day, a week or a month of any zone has one definition, daylight saving, +5:45 and skipped midnights included.
//
// Views and events are sums and exact always. Visitors are merged from sketches, which are exact up to a size and close above it;
// sketch.go states both. What was acknowledged but not yet delivered is in no answer: Meta.AsOf names the oldest such event.
//
// Badges (badge.go) are counts that anyone may see of sites that say so; they are read once for all who ask at a time.
//
// The package starts no goroutines. Start reading at plan.go.
package query
