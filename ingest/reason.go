package ingest

import (
	"slices"
	"strings"
)

// Reason says why an event was not counted: a constant, part of reply headers and of metrics.
type Reason string

// Filtered events were understood and are not counted: the reply is a 2xx with X-Pagetally-Reason. Bad ones are the sender's mistake.
const (
	Accepted Reason = ""

	// Filtered.
	NoAgent      Reason = "no_agent" // empty or "-" User-Agent, rule R5
	Bot          Reason = "bot"
	SpamReferrer Reason = "spam_referrer" // the referrer is on a list of false ones
	Prefetch     Reason = "prefetch"      // fetched ahead by the browser, perhaps never looked at
	NoView       Reason = "no_view"       // a message of a kind that counts nothing

	// Filtered by the site's own settings.
	IgnoredAddress Reason = "ignored_address"
	IgnoredHost    Reason = "ignored_host"
	IgnoredPath    Reason = "ignored_path"
	IgnoredCountry Reason = "ignored_country"
	DoNotTrack     Reason = "dnt" // the browser sent DNT: 1
	PrivacyControl Reason = "gpc" // the browser sent Sec-GPC: 1

	// Not this site's.
	UnknownSite   Reason = "unknown_site"
	ForeignHost   Reason = "foreign_host"   // the page is on no host of the site, rule R1
	ForeignOrigin Reason = "foreign_origin" // the script that sent it is on no host of the site
	KeySite       Reason = "key_site"       // the key may not write to the site

	RateLimited Reason = "rate_limited" // over the rate of the address or the site; answered 429

	// Bad.
	BadRequest      Reason = "bad_request" // not JSON, or not an object
	TooLarge        Reason = "too_large"
	BadField        Reason = "bad_field"
	Scheme          Reason = "scheme"    // neither http nor https
	NeedsKey        Reason = "needs_key" // a field that only keyed callers may set
	Future          Reason = "future"    // a keyed time more than five minutes ahead, rule R9
	BeyondRetention Reason = "beyond_retention"

	// The server's own.
	Unavailable Reason = "unavailable" // the journal or the salts are; answered 503
)

// HeaderReason names the header of replies to events that are not counted.
const HeaderReason = "X-Pagetally-Reason"

// filtered reports whether events of this reason are dropped by rule and not by mistake of the sender.
func (r Reason) filtered() bool {
	switch r {
	case NoAgent, Bot, SpamReferrer, Prefetch, NoView, IgnoredAddress, IgnoredHost, IgnoredPath, IgnoredCountry, DoNotTrack, PrivacyControl:
		return true
	}
	return false
}

// appendReason notes why an event was dropped, once.
func appendReason(list []Reason, reason Reason) []Reason {
	if reason == Accepted || slices.Contains(list, reason) {
		return list
	}
	return append(list, reason)
}

// joinReasons lists reasons as a header does.
func joinReasons(list []Reason) string {
	if len(list) == 1 {
		return string(list[0])
	}
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
