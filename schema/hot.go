package schema

import "strconv"

// The keys of the hot counts in Redis, shared by the side that writes them and the side that reads them. All keys of a site have one
// hash tag, so that they lie in one slot of a cluster. Minutes are counted from the Unix epoch.
//
//	pagetally:{SITE}:minute:M     hash: what is counted of minute M, see HotViews and the like
//	pagetally:{SITE}:pages:M      hash: page views of minute M by page key, see HotCut
//	pagetally:{SITE}:visitors:M   HyperLogLog of the visitors of minute M
//	pagetally:{SITE}:batch:ID:M   marker: the batch ID is in minute M already
//	pagetally:{SITE}:complete     minute from which on no count of the last hour is missing; without it some may be
const hotPrefix = "pagetally:{"

// Fields of a minute's hash. The ones with a value behind them are bounded: see HotFieldLimit.
const (
	HotViews   = "views"
	HotEvents  = "events" // of all names, engagement pings left out
	HotPath    = "path:"
	HotSource  = "source:"
	HotCountry = "country:"
)

// HotCut is a field of a minute's pages that is there when some of them are left out. Beside it and the pages stands HotViews, the page
// views of the minute: neither is a page key, which begins with a slash or a bracket.
const HotCut = "cut"

// HotLists are the columns of events whose values' page views are counted in fields, by the fields' prefix.
var HotLists = []struct{ Prefix, Column string }{
	{HotPath, "path_key"}, {HotSource, "source"}, {HotCountry, "country"},
}

const (
	// HotMinutes is how far back hot counts reach; keys expire a quarter of an hour later.
	HotMinutes = 60
	// HotFieldLimit bounds the fields of a minute's hash. What comes after is in the sums alone.
	HotFieldLimit = 600
	// HotPageMinutes is how far back pages reach. What else is kept of a minute is smaller.
	HotPageMinutes = 30
	// HotPageLimit bounds the pages of a minute. What comes after is in the sums alone, and HotCut says so.
	HotPageLimit = 5000
)

// HotMinuteKey is the key of a minute's hash.
func HotMinuteKey(site string, minute int64) string { return hotKey(site, ":minute:", minute) }

// HotVisitorsKey is the key of a minute's visitors.
func HotVisitorsKey(site string, minute int64) string { return hotKey(site, ":visitors:", minute) }

// HotPagesKey is the key of a minute's pages.
func HotPagesKey(site string, minute int64) string { return hotKey(site, ":pages:", minute) }

// HotBatchKey is the key that says that a batch is counted in a minute.
func HotBatchKey(site, batch string, minute int64) string {
	return hotKey(site, ":batch:"+batch+":", minute)
}

// HotScratchKey is where visitors of several minutes are merged. It expires soon.
func HotScratchKey(site string, minutes int64) string { return hotKey(site, ":scratch:", minutes) }

// HotCompleteKey is the key of the minute from which on the hot counts of a site can be read.
func HotCompleteKey(site string) string { return hotPrefix + site + "}:complete" }

func hotKey(site, what string, minute int64) string {
	return hotPrefix + site + "}" + what + strconv.FormatInt(minute, 10)
}
